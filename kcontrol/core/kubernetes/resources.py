"""What the operator reads in a resource, and the names that both know.

A resource is what the API server has taken: its schema (docker/kubernetes/operator) has filled in what was left out, and has
refused what is wrong. So what is not there here is a fault of the schema, and no user's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

GROUP, VERSION = "kcontrol.dev", "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
PIPELINE, REGION, REGION_OPERATOR = "Pipeline", "ConsistentRegion", "ConsistentRegionOperator"
PIPELINE_LABEL, JOB_LABEL = "kcontrol-pipeline", "kcontrol-job"
APP_LABELS = {"app.kubernetes.io/name": "kcontrol"}
FINALIZER = f"{GROUP}/region"
"""Of a ConsistentRegion: what is defined in Kafka goes before the resource does."""

Manifest = dict[str, Any]
"""An object of Kubernetes, as JSON has it."""


@dataclass(frozen=True, slots=True)
class Meta:
    """Who a resource is. deleted_at: when its deletion was asked for, in RFC 3339; '': it was not."""

    kind: str
    name: str
    namespace: str
    uid: str
    generation: int
    created_at: str
    deleted_at: str
    finalizers: tuple[str, ...]


def meta_of(resource: Mapping[str, Any]) -> Meta:
    found = resource["metadata"]
    return Meta(
        kind=resource["kind"],
        name=found["name"],
        namespace=found["namespace"],
        uid=found["uid"],
        generation=found.get("generation", 0),
        created_at=found.get("creationTimestamp") or "",
        deleted_at=found.get("deletionTimestamp") or "",
        finalizers=tuple(found.get("finalizers") or ()),
    )


def owner_of(resource: Mapping[str, Any], *, controls: bool = True) -> Manifest:
    """As an object names its owner: it goes when the owner goes. controls: what the owner says of it counts alone."""
    meta = meta_of(resource)
    reference = {"apiVersion": API_VERSION, "kind": meta.kind, "name": meta.name, "uid": meta.uid}
    return {**reference, "controller": True} if controls else reference


def refused_takeover(manifest: Manifest, found: Mapping[str, Any] | None) -> str:
    """Why an object that is there is not to be written over, or '': it is somebody else's."""
    if found is None:
        return ""
    wanted = {owner["uid"] for owner in manifest["metadata"].get("ownerReferences", ())}
    owners = found["metadata"].get("ownerReferences") or ()
    if wanted & {owner["uid"] for owner in owners}:
        return ""
    if any(owner["apiVersion"] == API_VERSION and not owner.get("controller") for owner in owners):
        return ""
    whose = ", ".join(f"{owner['kind']} {owner['name']}" for owner in owners) or "nobody's resource"
    what = f"{found['kind']} {found['metadata']['name']}"
    return f"{what} is there already and belongs to {whose}: delete it, or give this resource another name"

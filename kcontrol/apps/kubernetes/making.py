"""Objects that follow from a resource, made once in each scene."""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.adapters.kubernetes.objects import KubernetesObjects
from kcontrol.apps.kubernetes.scene import Scene
from kcontrol.core.kubernetes.resources import Manifest, refused_takeover
from kcontrol.errors import ConfigurationError


async def made(objects: KubernetesObjects, scene: Scene, namespace: str, wanted: Sequence[Manifest]) -> str:
    """Why not all of it, in a sentence, or ''. What is somebody else's is left as it is, and nothing after it is made.

    Raises RetriableError, AccessError.
    """
    for each in wanted:
        kind, name = each["kind"], each["metadata"]["name"]
        key = f"{kind} {namespace}/{name}"
        if key not in scene.made:
            manifest = {**each, "metadata": {**each["metadata"], "namespace": namespace}}
            scene.made[key] = await _one(objects, manifest)
        if scene.made[key]:
            return scene.made[key]
    return ""


async def _one(objects: KubernetesObjects, manifest: Manifest) -> str:
    meta = manifest["metadata"]
    refused = refused_takeover(manifest, await objects.get(manifest["kind"], meta["namespace"], meta["name"]))
    if refused:
        return refused
    try:
        await objects.apply(manifest)
    except ConfigurationError as error:
        return str(error)
    return ""

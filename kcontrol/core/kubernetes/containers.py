"""What pods of kcontrol have in common: they may do nothing that they need not, and find Kafka, the token and a home."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kcontrol.core.kubernetes.resources import Manifest

USER = 10001
"""Of the image."""
HOME = "/var/lib/kcontrol"
TOKEN_FILE = "/run/kcontrol/token"
CONFINED: Manifest = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The image, and the names of what is mounted: settings is a ConfigMap with `kcontrol.toml`; kafka, token and storage are
    Secrets, of which only names are known here."""

    image: str
    settings: str
    kafka: str
    token: str
    storage: str


def surroundings_of(spec: Mapping[str, Any]) -> Surroundings:
    """Of a Pipeline or a ConsistentRegionOperator."""
    secrets = spec["secrets"]
    return Surroundings(
        spec["image"], spec["settings"], secrets["kafka"], secrets["token"], secrets["storage"]
    )


def pod_security(*, fast_volumes: bool = False) -> Manifest:
    """fast_volumes: owners of a volume's files are not looked at again where its root is right."""
    found: Manifest = {
        "runAsNonRoot": True,
        "runAsUser": USER,
        "runAsGroup": USER,
        "fsGroup": USER,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {**found, "fsGroupChangePolicy": "OnRootMismatch"} if fast_volumes else found


def spread_over_hosts(labels: Mapping[str, str]) -> list[Manifest]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": dict(labels)},
        }
    ]


def kafka_password(around: Surroundings) -> Manifest:
    reference = {"name": around.kafka, "key": "password"}
    return {"name": "KAFKA_PASSWORD", "valueFrom": {"secretKeyRef": reference}}


def probes(port: str, ready: str) -> Manifest:
    """ready: the path that says whether it can serve. A process that can't reach Kafka is not killed for it."""
    live = {"path": "/health/live", "port": port}
    return {
        "startupProbe": {"httpGet": live, "periodSeconds": 2, "timeoutSeconds": 5, "failureThreshold": 60},
        "livenessProbe": {"httpGet": live, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 6},
        "readinessProbe": {"httpGet": {**live, "path": ready}, "periodSeconds": 5, "timeoutSeconds": 5},
    }


def mounts(home: str) -> list[Manifest]:
    """home: the volume in which the process works."""
    settings = f"{HOME}/kcontrol.toml"
    return [
        {"name": "kafka", "mountPath": "/etc/kcontrol/kafka", "readOnly": True},
        {"name": "token", "mountPath": "/run/kcontrol", "readOnly": True},
        {"name": home, "mountPath": HOME},
        {"name": "config", "mountPath": settings, "subPath": "kcontrol.toml", "readOnly": True},
    ]


def volumes(around: Surroundings) -> list[Manifest]:
    """All that `mounts` names but the home."""
    authority = [{"key": "ca.crt", "path": "ca.crt"}]
    return [
        {"name": "config", "configMap": {"name": around.settings}},
        {"name": "kafka", "secret": {"secretName": around.kafka, "defaultMode": 0o440, "items": authority}},
        {"name": "token", "secret": {"secretName": around.token, "defaultMode": 0o440}},
    ]


def empty(*names: str) -> list[Manifest]:
    return [{"name": name, "emptyDir": {}} for name in names]


def budget(name: str, labels: Mapping[str, str], **limit: int) -> Manifest:
    """How many pods may be away of one's own will."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {**limit, "selector": {"matchLabels": dict(labels)}},
    }

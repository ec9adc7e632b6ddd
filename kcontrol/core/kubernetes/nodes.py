"""The objects of a pipeline's nodes: what docker/kubernetes/nodes.yaml has by hand."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from kcontrol.core.kubernetes.containers import (
    CONFINED,
    TOKEN_FILE,
    Surroundings,
    budget,
    empty,
    kafka_password,
    mounts,
    pod_security,
    probes,
    spread_over_hosts,
    surroundings_of,
    volumes,
)
from kcontrol.core.kubernetes.resources import APP_LABELS, GROUP, PIPELINE_LABEL, Manifest, owner_of

METRICS_PORT = 8481
STOP_S = 90
"""A query that can't stop gives up after 60 s (spark.sql.streaming.stopTimeout)."""
CODE_ANNOTATION = f"{GROUP}/code"
"""On the pods: the digest of the code in the resource. Another one lets them be replaced, one after the other."""
_CODE_DIRECTORY = "/etc/kcontrol/pipeline"
_JIT = "/opt/jit"
_POD_INDEX = "metadata.labels['apps.kubernetes.io/pod-index']"


def node_objects(pipeline: Mapping[str, Any]) -> list[Manifest]:
    """Of a Pipeline: the code if it is in the resource, and Service, StatefulSet and PodDisruptionBudget; in this order."""
    name, spec = pipeline["metadata"]["name"], pipeline["spec"]
    made = [_service(name), _nodes(name, spec), budget(name, _labels(name), maxUnavailable=1)]
    text = spec["code"].get("text")
    if text is not None:
        made.insert(0, _code(name, spec["code"]["file"], text))
    for each in made:
        each["metadata"]["ownerReferences"] = [owner_of(pipeline)]
    return made


def _labels(name: str) -> dict[str, str]:
    return {**APP_LABELS, "app.kubernetes.io/component": "node", PIPELINE_LABEL: name}


def _code(name: str, file: str, text: str) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {file: text}}


def _service(name: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "labels": _labels(name)},
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": _labels(name),
            "ports": [{"name": "metrics", "port": METRICS_PORT, "targetPort": "metrics"}],
        },
    }


def _nodes(name: str, spec: Mapping[str, Any]) -> Manifest:
    labels, storage = _labels(name), spec["storage"]
    template: Manifest = {"labels": labels}
    if "text" in spec["code"]:
        digest = hashlib.sha256(spec["code"]["text"].encode()).hexdigest()
        template["annotations"] = {CODE_ANNOTATION: digest[:16]}
    claim: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": storage["size"]}},
    }
    if storage.get("className"):
        claim["storageClassName"] = storage["className"]
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": spec["nodes"],
            "serviceName": name,
            "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": labels},
            "template": {"metadata": template, "spec": _pod(name, spec)},
            "volumeClaimTemplates": [{"metadata": {"name": "work"}, "spec": claim}],
        },
    }


def _pod(name: str, spec: Mapping[str, Any]) -> Manifest:
    around = surroundings_of(spec)
    code = spec["code"].get("configMap") or name
    return {
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "setHostnameAsFQDN": True,
        "terminationGracePeriodSeconds": STOP_S,
        "securityContext": pod_security(fast_volumes=True),
        "topologySpreadConstraints": spread_over_hosts(_labels(name)),
        "initContainers": [_copied_jit(around)],
        "containers": [_container(spec, around)],
        "volumes": [
            {"name": "pipeline", "configMap": {"name": code}},
            *volumes(around),
            *empty("jit", "tmp"),
        ],
    }


def _copied_jit(around: Surroundings) -> Manifest:
    """What is compiled in the image, where it can be added to."""
    return {
        "name": "jit",
        "image": around.image,
        "command": ["cp", "-r", f"{_JIT}/.", "/jit"],
        "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}},
        "securityContext": CONFINED,
        "volumeMounts": [{"name": "jit", "mountPath": "/jit"}],
    }


def _container(spec: Mapping[str, Any], around: Surroundings) -> Manifest:
    resources = spec["resources"]
    memory = resources["memory"]
    return {
        "name": "node",
        "image": around.image,
        "args": [
            "node",
            f"{_CODE_DIRECTORY}/{spec['code']['file']}",
            "--node=$(NODE)",
            f"--master={spec['master']}",
            "--metrics-host=0.0.0.0",
            f"--metrics-port={METRICS_PORT}",
            f"--token-file={TOKEN_FILE}",
        ],
        "env": [
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": _POD_INDEX}}},
            kafka_password(around),
            *spec["env"],
            {"name": "PYSPARK_SUBMIT_ARGS", "value": f"--driver-memory {spec['driverMemory']} pyspark-shell"},
        ],
        "envFrom": [{"secretRef": {"name": around.storage, "optional": True}}],
        "ports": [{"name": "metrics", "containerPort": METRICS_PORT}],
        **probes("metrics", "/health/live"),
        "resources": {"requests": {"cpu": resources["cpu"], "memory": memory}, "limits": {"memory": memory}},
        "securityContext": CONFINED,
        "volumeMounts": [
            {"name": "pipeline", "mountPath": _CODE_DIRECTORY, "readOnly": True},
            *mounts("work"),
            {"name": "jit", "mountPath": _JIT},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }

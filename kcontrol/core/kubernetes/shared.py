"""Processes that no single pipeline owns: the coordinators of a namespace, and the controllers of a job's regions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from kcontrol.core.kubernetes.resources import APP_LABELS, JOB_LABEL, Manifest, meta_of, owner_of

COORDINATORS = "kcontrol-coordinator"
HTTP_PORT = 8480
STOP_S = 30


def coordinator_objects(pipelines: Sequence[Mapping[str, Any]]) -> list[Manifest]:
    """Of all Pipelines of a namespace: Deployment and PodDisruptionBudget, or nothing where none asks for coordinators. As
    many as any asks for; the oldest Pipeline says how. They go with the last Pipeline."""
    asking = sorted(
        (each for each in pipelines if each["spec"]["coordinators"] and not meta_of(each).deleted_at),
        key=lambda each: (meta_of(each).created_at, meta_of(each).name),
    )
    if not asking:
        return []
    labels = {**APP_LABELS, "app.kubernetes.io/component": "coordinator"}
    replicas = max(each["spec"]["coordinators"] for each in asking)
    around = surroundings_of(asking[0]["spec"])
    serving: Manifest = {
        "args": [
            "coordinator",
            "--http-host=0.0.0.0",
            f"--http-port={HTTP_PORT}",
            f"--token-file={TOKEN_FILE}",
        ],
        "ports": [{"name": "http", "containerPort": HTTP_PORT}],
        **probes("http", "/health/ready"),
    }
    requests = {"cpu": "250m", "memory": "384Mi"}
    deployment = _deployment(COORDINATORS, labels, replicas, around, ("coordinator", serving, requests))
    made = [deployment, budget(COORDINATORS, labels, minAvailable=1)]
    for each in made:
        each["metadata"]["ownerReferences"] = [owner_of(one, controls=False) for one in asking]
    return made


def region_controllers(operator: Mapping[str, Any], regions: Sequence[str]) -> Manifest:
    """Of a ConsistentRegionOperator: the Deployment of `kcontrol region-controller` for a job's regions, and no others."""
    spec, name = operator["spec"], f"{operator['metadata']['name']}-regions"
    labels = {
        **APP_LABELS,
        "app.kubernetes.io/component": "region-controller",
        JOB_LABEL: spec["jobName"],
    }
    around = surroundings_of(spec)
    running: Manifest = {"args": ["region-controller", *sorted(regions)]}
    requests = {"cpu": "100m", "memory": "256Mi"}
    made = _deployment(name, labels, spec["replicas"], around, ("region-controller", running, requests))
    made["metadata"]["ownerReferences"] = [owner_of(operator)]
    return made


def _deployment(
    name: str,
    labels: Mapping[str, str],
    replicas: int,
    around: Surroundings,
    container: tuple[str, Manifest, Mapping[str, str]],
) -> Manifest:
    """container: its name, what it runs and how it is asked, and what it requests."""
    called, running, requests = container
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": dict(labels)},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": dict(labels)},
            "strategy": {"rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "template": {
                "metadata": {"labels": dict(labels)},
                "spec": {
                    "automountServiceAccountToken": False,
                    "enableServiceLinks": False,
                    "terminationGracePeriodSeconds": STOP_S,
                    "securityContext": pod_security(),
                    "topologySpreadConstraints": spread_over_hosts(labels),
                    "containers": [
                        {
                            "name": called,
                            "image": around.image,
                            **running,
                            "env": [kafka_password(around)],
                            "resources": {"requests": dict(requests), "limits": {"memory": "1Gi"}},
                            "securityContext": CONFINED,
                            "volumeMounts": [*mounts("home"), {"name": "tmp", "mountPath": "/tmp"}],
                        }
                    ],
                    "volumes": [*volumes(around), *empty("home", "tmp")],
                },
            },
        },
    }

"""Pods of a region: whose they are, found through what owns them, and which of them do not run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kcontrol.core.kubernetes.resources import API_VERSION, PIPELINE

RUNNING = "Running"
DELETED = "Deleted"


def pipeline_of_pod(pod: Mapping[str, Any], sets: Mapping[str, Mapping[str, Any]]) -> str:
    """The Pipeline whose node a pod is, or ''. sets: the StatefulSets of its namespace, by uid. Labels are not asked: anybody
    can write them."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        found = sets.get(owner["uid"])
        if owner["kind"] != "StatefulSet" or found is None:
            continue
        for above in found["metadata"].get("ownerReferences") or ():
            if (above["apiVersion"], above["kind"]) == (API_VERSION, PIPELINE):
                return str(above["name"])
    return ""


def phase_of_pod(pod: Mapping[str, Any]) -> str:
    """As Kubernetes says; `Deleted` from when its deletion is asked for."""
    if pod["metadata"].get("deletionTimestamp"):
        return DELETED
    return str((pod.get("status") or {}).get("phase", "Pending"))


def not_running(replicas: int, name: str, pods: Sequence[Mapping[str, Any]]) -> list[str]:
    """Of a pipeline's nodes: those without a pod that runs, each with its phase; sorted by number."""
    phases = {each["metadata"]["name"]: phase_of_pod(each) for each in pods}
    wanted = [f"{name}-{number}" for number in range(replicas)]
    return [f"{each}: {phases.get(each, 'no pod')}" for each in wanted if phases.get(each, "") != RUNNING]

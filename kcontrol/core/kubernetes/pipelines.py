"""What a Pipeline's status says: of its resource, of its pods, and of its log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kcontrol.core.kubernetes.conditions import Condition
from kcontrol.core.kubernetes.resources import Manifest
from kcontrol.core.model import PipelinePhase, Status

UNKNOWN = "Unknown"


def pipeline_status(
    said: Status | None, is_heard: bool, refused: str, away: Sequence[str], replicas: int
) -> tuple[Manifest, tuple[Condition, ...]]:
    """refused: why its objects could not be made, or ''. away: pods that do not run, each with its phase."""
    running = max(0, replicas - len(away))
    accepted = Condition("Accepted", not refused, "Refused" if refused else "Made", refused)
    if said is None:
        message = "no coordinator has said anything of it yet: its nodes submit it when they start"
        ready = Condition("Ready", False, "NotSubmitted", _with_pods(message, away))
        return {"phase": UNKNOWN, "step": 0, "reason": "", "runningPods": running}, (accepted, ready)
    status: Manifest = {
        "phase": said.phase.value if is_heard else UNKNOWN,
        "step": said.step,
        "reason": said.reason,
        "runningPods": running,
    }
    if not is_heard:
        message = f"its coordinator is not heard; the last word was {said.phase}, step {said.step}"
        return status, (accepted, Condition("Ready", None, "NotHeard", _with_pods(message, away)))
    is_ready = said.phase is PipelinePhase.RUNNING and not away
    reason = (
        said.phase.value.capitalize() if said.phase is not PipelinePhase.RUNNING or not away else "PodsAway"
    )
    return status, (accepted, Condition("Ready", is_ready, reason, _with_pods(said.reason, away)))


def regions_of(
    pipeline: str, regions: Iterable[Mapping[str, Any]], defined: Mapping[str, bool]
) -> list[Manifest]:
    """Its regions, of the ConsistentRegions of its namespace that are defined: it can be in one, and others are refused.

    defined: by uid, of those that were looked at since their status was read, whether they are.
    """
    return [
        {"name": each["metadata"]["name"], "regionIndex": each["spec"]["regionIndex"]}
        for each in regions
        if pipeline in each["spec"]["pipelines"] and defined.get(each["metadata"]["uid"], _was_defined(each))
    ]


def _was_defined(region: Mapping[str, Any]) -> bool:
    conditions = (region.get("status") or {}).get("conditions", ())
    return any(each["type"] == "Defined" and each["status"] == "True" for each in conditions)


def _with_pods(message: str, away: Sequence[str]) -> str:
    return "; ".join(each for each in (message, *away[:10]) if each)

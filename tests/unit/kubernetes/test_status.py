"""What a status says, and when it is written at all."""

from __future__ import annotations

from typing import Any

from kcontrol.core.kubernetes.conditions import Condition, status_with
from kcontrol.core.kubernetes.pipelines import pipeline_status
from kcontrol.core.kubernetes.resources import PIPELINE, refused_takeover
from kcontrol.core.model import PipelinePhase, Status
from tests.unit.kubernetes.resources import resource

NOW, LATER = "2026-03-01T00:00:00Z", "2026-03-01T00:00:05Z"
SPEC = {"nodes": 2, "code": {"file": "a.py", "text": "x"}}


def said(phase: PipelinePhase, reason: str = "") -> Status:
    return Status("orders", 1, phase, 7, reason, (), 0, "", ())


def ready(status: Status | None, is_heard: bool = True, away: tuple[str, ...] = ()) -> Condition:
    _, conditions = pipeline_status(status, is_heard, "", away, 2)
    [found] = [each for each in conditions if each.type == "Ready"]
    return found


def test_a_status_that_says_so_already_is_not_written() -> None:
    found = resource(PIPELINE, "orders", SPEC)
    made = (Condition("Ready", True, "Running"),)
    first = status_with(found, {"step": 1}, made, NOW)
    assert first is not None
    assert status_with({**found, "status": first}, {"step": 1}, made, LATER) is None
    second = status_with({**found, "status": first}, {"step": 2}, made, LATER)
    assert second is not None
    assert second["conditions"][0]["lastTransitionTime"] == NOW
    third = status_with(
        {**found, "status": second}, {"step": 2}, (Condition("Ready", False, "Halted"),), LATER
    )
    assert third is not None
    assert third["conditions"][0]["lastTransitionTime"] == LATER


def test_a_pipeline_is_ready_while_its_coordinator_says_so_now_and_all_pods_run() -> None:
    running = said(PipelinePhase.RUNNING)
    assert ready(running).is_true is True
    assert ready(running, away=("orders-1: no pod",)).is_true is False
    assert ready(running, is_heard=False).is_true is None
    assert ready(None, is_heard=False).reason == "NotSubmitted"
    halted = ready(said(PipelinePhase.HALTED, "query q failed"))
    assert (halted.is_true, halted.message) == (False, "query q failed")


def test_what_belongs_to_somebody_else_is_not_written_over() -> None:
    mine = resource(PIPELINE, "orders", SPEC)
    manifest: dict[str, Any] = {
        "kind": "Service",
        "metadata": {"name": "orders", "ownerReferences": [{"uid": mine["metadata"]["uid"]}]},
    }
    theirs: dict[str, Any] = {"kind": "Service", "metadata": {"name": "orders"}}
    assert refused_takeover(manifest, None) == ""
    assert refused_takeover(manifest, manifest) == ""
    assert "nobody's resource" in refused_takeover(manifest, theirs)
    other = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": "u"}
    assert "Deployment d" in refused_takeover(
        manifest, {**theirs, "metadata": {"name": "orders", "ownerReferences": [other]}}
    )

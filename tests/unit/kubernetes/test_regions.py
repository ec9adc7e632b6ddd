"""ConsistentRegions: what is defined, asked for once, and made for a job."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kcontrol.core.kubernetes.pods import not_running, pipeline_of_pod
from kcontrol.core.kubernetes.regions import (
    has_started,
    region_operator_of,
    region_status,
    requests_of,
    settings_of,
)
from kcontrol.core.kubernetes.resources import API_VERSION, PIPELINE, REGION
from kcontrol.core.regions.leading import began
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import DrainMode, RegionSettings, Trigger, refused_settings
from kcontrol.core.regions.records import RegionBeat, RegionDefinition
from kcontrol.core.regions.value import WrittenBy, change_of
from tests.unit.kubernetes.resources import resource


def region(name: str = "orders", **spec: Any) -> dict[str, Any]:
    return resource(REGION, name, {"pipelines": ["enrich", "totals"], **spec})


def test_it_is_defined_as_a_file_would_define_it() -> None:
    assert settings_of(region()) == RegionSettings("orders", ("enrich", "totals"))
    driven = settings_of(region(trigger="operatorDriven", operatorsToTrigger=["totals"], drainTimeout=0.5))
    assert (driven.trigger, driven.triggers) == (Trigger.OPERATOR_DRIVEN, ("totals",))
    assert (driven.max_reset_attempts, driven.drain_timeout_ms) == (1_000, 500)
    times = region(period=2, resetTimeout=4, maxConsecutiveResetAttempts=2, keepCuts=7)
    assert settings_of(times) == RegionSettings(
        *("orders", ("enrich", "totals")),
        period_ms=2_000,
        reset_timeout_ms=4_000,
        max_reset_attempts=2,
        keep_cuts=7,
    )
    by_bridge = region(trigger="operatorDriven", participants=["mq"], operatorsToTrigger=["mq"])
    assert refused_settings(settings_of(by_bridge)) == ""
    fed = settings_of(region(participants=["mq-bridge"], participantLease=2.5))
    assert fed == RegionSettings(
        "orders",
        ("enrich", "totals", "mq-bridge"),
        participants=("mq-bridge",),
        participant_lease_ms=2_500,
    )
    assert fed.pipelines == ("enrich", "totals")
    assert refused_settings(fed) == ""


def test_drains_are_as_the_resource_says() -> None:
    assert settings_of(resource(REGION, "orders", {"pipelines": ["a"]})).drain is DrainMode.ALIGNED
    stopped = resource(REGION, "orders", {"pipelines": ["a"], "drain": "stopped"})
    assert settings_of(stopped).drain is DrainMode.STOPPED


def test_each_id_asks_once() -> None:
    wanted = region(drainRequest={"id": "d1", "hold": True}, resetRequest={"id": "r1", "force": True})
    reset, drain = requests_of(wanted, 5)
    assert (reset.kind, reset.force, drain.kind, drain.hold) == ("reset", True, "drain", True)
    assert drain.request_id == "kubernetes-uid-of-orders-drain-d1"
    asked = {**wanted, "status": {"asked": {"drain": "d1", "reset": "r0"}}}
    assert [each.kind for each in requests_of(asked, 5)] == ["reset"]


def test_an_id_is_of_its_kind() -> None:
    """What became of a resume was taken for what became of a reset with the same id, which then was never asked for."""
    both = requests_of(region(resumeRequest={"id": "r1"}, resetRequest={"id": "r1"}), 5)
    assert len({each.request_id for each in both}) == 2


def test_participants_are_shown_as_the_region_knows_them() -> None:
    value = began(RegionDefinition("orders", settings_of(region(participants=["bridge"])), "ana", 5, "d1"))
    change = change_of(value.value, value.happened, WrittenBy("c", 1, 1))
    shown = region_status(read_on(RegionLogView(), [change]), ())
    assert shown["participants"] == [{"name": "bridge", "hasJoined": False}]
    assert shown["peToCompletion"] == {"enrich": "", "totals": "", "bridge": ""}
    joined = [replace(each, life=7) if each.name == "bridge" else each for each in change.members]
    shown = region_status(read_on(RegionLogView(), [replace(change, members=tuple(joined))]), ())
    assert shown["participants"] == [{"name": "bridge", "hasJoined": True}]


def test_where_drains_begin_is_shown_as_its_controller_sees_it() -> None:
    value = began(RegionDefinition("orders", settings_of(region()), "ana", 5, "d1"))
    view = read_on(RegionLogView(), [change_of(value.value, value.happened, WrittenBy("c", 1, 1))])
    shown = region_status(view, ())
    assert (shown["numStartOperators"], shown["operatorsToStartRegion"]) == (0, []), "nobody has said yet"
    shown = region_status(read_on(view, [RegionBeat("orders", "c", 1, 9, (), starts=("enrich",))]), ())
    assert (shown["numStartOperators"], shown["operatorsToStartRegion"]) == (1, ["enrich"])


def test_nobody_has_been_in_charge_yet() -> None:
    assert region_status(RegionLogView(), ["enrich-0: Failed"]) == {"podsNotRunning": ["enrich-0: Failed"]}


def test_a_job_has_started_once_each_of_its_regions_has() -> None:
    """Each begins by itself; this says when the last one has (decision 157)."""
    value = began(RegionDefinition("orders", settings_of(region()), "ana", 5, "d1"))
    begun = read_on(RegionLogView(), [change_of(value.value, value.happened, WrittenBy("c", 1, 1))])
    assert has_started([begun, begun])
    assert not has_started([begun, RegionLogView()])
    assert not has_started([]), "a job without a region has begun nothing"


def test_a_job_is_looked_after_by_one_with_the_image_of_its_pipelines() -> None:
    own = resource(PIPELINE, "totals", {"nodes": 1, "code": {"file": "a.py", "text": "x"}, "image": "mine:1"})
    made = region_operator_of("job", [region(), region("more")], [own])
    assert made["spec"]["numRegions"] == 2
    assert made["spec"]["image"] == "mine:1"
    assert [each["name"] for each in made["metadata"]["ownerReferences"]] == ["orders", "more"]


def owned(kind: str, name: str, owner: tuple[str, str, str], phase: str = "Running") -> dict[str, Any]:
    api, above, uid = owner
    reference = {"apiVersion": api, "kind": above, "name": uid.removeprefix("uid-of-"), "uid": uid}
    return {
        "kind": kind,
        "metadata": {"name": name, "uid": f"uid-of-{name}", "ownerReferences": [reference]},
        "status": {"phase": phase},
    }


def test_a_pods_pipeline_is_found_through_what_owns_it() -> None:
    sets = {"uid-of-enrich": owned("StatefulSet", "enrich", (API_VERSION, PIPELINE, "uid-of-enrich"))}
    pod = owned("Pod", "enrich-0", ("apps/v1", "StatefulSet", "uid-of-enrich"))
    assert pipeline_of_pod(pod, sets) == "enrich"
    labelled = {**pod, "metadata": {"name": "x", "labels": {"kcontrol-pipeline": "enrich"}}}
    assert pipeline_of_pod(labelled, sets) == ""
    assert pipeline_of_pod(pod, {}) == ""


def test_pods_that_do_not_run() -> None:
    owner = ("apps/v1", "StatefulSet", "uid-of-enrich")
    leaving = owned("Pod", "enrich-2", owner)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    pods = [owned("Pod", "enrich-0", owner), owned("Pod", "enrich-1", owner, "Failed"), leaving]
    assert not_running(4, "enrich", pods) == ["enrich-1: Failed", "enrich-2: Deleted", "enrich-3: no pod"]

"""What the status of a ConsistentRegion says is what the region's log says, field by field."""

from __future__ import annotations

import pytest

from kcontrol.core.kubernetes.regions import region_status, settings_of
from kcontrol.core.kubernetes.resources import REGION
from kcontrol.core.regions.decide import decide_region
from kcontrol.core.regions.events import (
    BlockingCheckpointDone,
    CheckpointDone,
    DrainAsked,
    HealthSeen,
    MemberJoined,
    RegionEvent,
    ResetAsked,
    ResetDone,
    TookOver,
)
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import Region
from kcontrol.core.regions.records import RegionBeat, RegionEventKind, RegionHappening
from kcontrol.core.regions.value import RegionValue, WrittenBy, change_of
from tests.unit.kubernetes.resources import resource, schema_of

SETTINGS = settings_of(
    resource(
        REGION,
        "orders",
        {
            **{"pipelines": ["a", "b"], "trigger": "operatorDriven", "operatorsToTrigger": ["a"]},
            **{"maxConsecutiveResetAttempts": 7},
        },
    )
)
JOINED = (MemberJoined("a", 1), MemberJoined("b", 1))
BEGUN = (*JOINED, HealthSeen(True))


def drained(number: int) -> tuple[RegionEvent, ...]:
    return (DrainAsked("a", number), CheckpointDone("a", 1, number), CheckpointDone("b", 1, number))


def view_after(*events: RegionEvent) -> RegionLogView:
    """Of a region to which this has happened; each event must count."""
    region = Region.started(SETTINGS)
    for event in events:
        decision = decide_region(region, event)
        assert decision.ignored is None, (event, decision.ignored)
        region = decision.region
    happened = RegionHappening(RegionEventKind.HEALTH_SEEN)
    return read_on(
        RegionLogView(), [change_of(RegionValue(region, "d1"), happened, WrittenBy("c1", 9_000, 41))]
    )


def shown(*events: RegionEvent) -> dict[str, object]:
    return region_status(view_after(*events), ())


def test_its_numbers_are_each_that_of_the_log() -> None:
    """No two of them are the same, so none is shown in the place of another."""
    reset = (ResetDone("a", 1, 2, 0), ResetDone("b", 1, 2, 0))
    pending = (BlockingCheckpointDone("a", 1, 4), CheckpointDone("b", 1, 4))
    forced = (ResetAsked(force=True), ResetAsked(force=False))
    before = (*BEGUN, *drained(1), *drained(2), ResetAsked(force=False), *reset)
    status = shown(*before, DrainAsked("a", 4), *pending)
    assert {name: status[name] for name in NUMBERS} == dict(zip(NUMBERS, (1, 7, 5, 2, 4, 1), strict=True))
    assert (status["state"], status["peToCompletion"]) == (
        "checkpoint_pending",
        {"a": "blocking_done", "b": "checkpoint_done"},
    )
    status = shown(*before, DrainAsked("a", 4), *pending, *forced)
    assert {name: status[name] for name in NUMBERS} == dict(zip(NUMBERS, (3, 8, 5, 2, 4, 1), strict=True))


NUMBERS = (
    *("currentResetAttempt", "currentMaxResetAttempts", "currentSeqID"),
    *("lastCompletedSeqID", "pendingSeqID", "toRetireSeqID"),
)
CONDITIONS = ("isRegionHealthy", "isCleanStart", "isHealthyFirstTime", "isMustReset")
NEW_LIFE = MemberJoined("a", 2)


@pytest.mark.parametrize(
    ("events", "conditions"),
    [
        ((), (False, True, False, False)),
        ((ResetAsked(force=False),), (False, True, False, True)),
        ((*JOINED, ResetAsked(force=False), HealthSeen(True)), (True, True, True, False)),
        (BEGUN, (True, True, True, False)),
        ((*BEGUN, NEW_LIFE), (False, False, True, False)),
        ((*BEGUN, NEW_LIFE, TookOver()), (False, False, False, True)),
        ((*BEGUN, NEW_LIFE, TookOver(), HealthSeen(True)), (True, False, True, False)),
    ],
    ids=["new", "to be reset", "reset", "well", "a new life", "another controller", "well again"],
)
def test_its_conditions_are_each_that_of_the_log(
    events: tuple[RegionEvent, ...], conditions: tuple[bool, ...]
) -> None:
    status = shown(*events)
    assert tuple(status[name] for name in CONDITIONS) == conditions


def test_a_pod_that_does_not_run_makes_it_unhealthy() -> None:
    status = region_status(view_after(*BEGUN), ["a-1: Pending"])
    assert (status["isRegionHealthy"], status["podsNotRunning"]) == (False, ["a-1: Pending"])


def test_the_resource_has_a_field_for_all_that_is_said() -> None:
    """The API server drops what the schema does not know, and says nothing."""
    view = read_on(view_after(*BEGUN), [RegionBeat("orders", "c1", 41, 9_000, ("a is late",))])
    status = region_status(view, ())
    known = schema_of(REGION)["properties"]["status"]["properties"]
    assert status.keys() <= known.keys()
    types = {"boolean": bool, "integer": int, "string": str, "array": list, "object": dict}
    assert {name for name, value in status.items() if type(value) is not types[known[name]["type"]]} == set()
    assert (status["controller"], status["change"], status["waitsFor"]) == ("c1", 41, ["a is late"])

"""What a controller of a region makes of what it sees, by worked examples; what it does under fire is the simulator's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.regions.leading import LedStep, RegionSeen, began, next_change, taken_over
from kcontrol.core.regions.log_view import RegionLogView, RegionTombstone, read_on
from kcontrol.core.regions.model import RegionSettings, RegionState
from kcontrol.core.regions.records import (
    RegionBeat,
    RegionCut,
    RegionDefinition,
    RegionEventKind,
    RegionHappening,
    RegionOutcome,
    RegionRequest,
    RegionRequestKind,
    region_key,
)
from kcontrol.core.regions.value import RegionValue, WrittenBy, change_of, event_of, happening_of, value_of
from kcontrol.errors import DamagedRecordError, UnknownRecordError
from kcontrol.wire.regions import region_bytes, region_record

SETTINGS = RegionSettings("orders", ("a", "b"), max_reset_attempts=1)
DEFINED = RegionDefinition("orders", SETTINGS, "ana", 5, "d1")
WELL = RegionSeen(lives={"a": 3, "b": 4}, healthy=True, in_line=frozenset("ab"))


def led(value: RegionValue, seen: RegionSeen, definition: RegionDefinition = DEFINED) -> list[LedStep]:
    """All that follows, one after the other; each can be written, and read again."""
    found = []
    while (step := next_change(value, definition, seen)) is not None:
        value = step.value
        found.append(step)
        change = change_of(value, step.happened, WrittenBy("c", 1, len(found)))
        assert value_of(change) == value
        assert region_record(region_bytes(change), "a record") == change
    return found


def settled(seen: RegionSeen = WELL, settings: RegionSettings = SETTINGS) -> RegionValue:
    return led(began(replace(DEFINED, settings=settings)).value, seen, replace(DEFINED, settings=settings))[
        -1
    ].value


def asks(kind: RegionRequestKind, name: str = "q1", **how: bool) -> dict[RegionRequestKind, RegionRequest]:
    return {kind: RegionRequest("orders", kind, "ana", 1, name, **how)}


def drained(value: RegionValue, **seen: object) -> RegionValue:
    return led(value, replace(WELL, came_to=value.region.current_seq_id, **seen))[-1].value  # type: ignore[arg-type]


def test_a_region_that_begins_is_well_once_all_members_are() -> None:
    steps = led(began(DEFINED).value, WELL)
    assert [step.happened.kind for step in steps] == ["member_joined", "member_joined", "health_seen"]
    assert steps[-1].value.region.state is RegionState.PROCESSING


def test_a_drain_that_is_asked_for_is_answered_with_its_cut() -> None:
    wanted = asks(RegionRequestKind.DRAIN)
    (asked,) = led(settled(), replace(WELL, requests=wanted))
    assert (asked.value.region.state, asked.value.drain_for) == (RegionState.DRAINING, "q1")
    value = drained(asked.value, requests=wanted)
    answer = value.answers[RegionRequestKind.DRAIN]
    assert (answer.request_id, answer.outcome, answer.seq_id) == ("q1", RegionOutcome.DONE, 1)
    assert led(value, replace(WELL, requests=wanted)) == []
    later = led(value, replace(WELL, requests=asks(RegionRequestKind.DRAIN, "q2")))[-1].value
    later = drained(later, requests=asks(RegionRequestKind.DRAIN, "q2"))
    changes = [
        change_of(each, asked.happened, WrittenBy("c", 1, at)) for at, each in enumerate((value, later))
    ]
    view = read_on(RegionLogView(), changes)
    assert [view.answer(name) == answer for name in ("q1", "q2", "q3")] == [True, False, False]
    assert view.answer("q3") is None


def test_a_drain_that_was_interrupted_is_asked_for_again_under_another_number() -> None:
    wanted = asks(RegionRequestKind.DRAIN)
    value = led(settled(), replace(WELL, requests=wanted))[-1].value
    value = taken_over(value, "another").value
    assert (value.drain_for, value.region.state) == ("", RegionState.STARTED)
    value = led(value, replace(WELL, requests=wanted))[-1].value
    assert (value.region.state, value.drain_for, value.region.current_seq_id) == (
        RegionState.DRAINING,
        "q1",
        2,
    )


def test_a_drain_that_comes_while_another_is_under_way_gets_one_of_its_own() -> None:
    value = led(settled(), replace(WELL, requests=asks(RegionRequestKind.DRAIN)))[-1].value
    later = asks(RegionRequestKind.DRAIN, "q2")
    value = drained(value, requests=later)
    assert value.answers[RegionRequestKind.DRAIN].request_id == "q1"
    assert (value.drain_for, value.region.current_seq_id) == ("q2", 2)


def test_a_drain_fails_once_no_attempt_is_left() -> None:
    wanted = asks(RegionRequestKind.DRAIN)
    value = led(settled(), replace(WELL, requests=wanted))[-1].value
    held = replace(WELL, requests=wanted, in_line=frozenset())
    value = led(value, replace(held, alarm=value.region.timer))[-1].value
    assert value.region.state is RegionState.RESETTING
    value = led(value, replace(held, alarm=value.region.timer))[-1].value
    assert value.region.state is RegionState.SPENT
    answer = value.answers[RegionRequestKind.DRAIN]
    assert answer.outcome is RegionOutcome.FAILED
    assert "reset --force" in answer.why
    value = led(value, replace(WELL, requests=asks(RegionRequestKind.RESET, "q2", force=True)))[-1].value
    assert value.region.state is RegionState.PROCESSING


def test_what_is_held_stays_so_until_it_is_resumed() -> None:
    value = led(settled(), replace(WELL, requests=asks(RegionRequestKind.DRAIN, hold=True)))[-1].value
    value = drained(value)
    assert value.region.is_held
    value = led(value, replace(WELL, requests=asks(RegionRequestKind.DRAIN, "q2")))[-1].value
    assert value.answers[RegionRequestKind.DRAIN].outcome is RegionOutcome.REFUSED
    value = led(value, replace(WELL, requests=asks(RegionRequestKind.RESUME, "q3")))[-1].value
    assert not value.region.is_held
    again = led(value, replace(WELL, requests=asks(RegionRequestKind.RESUME, "q4")))[-1]
    assert again.happened.kind is RegionEventKind.ANSWERED
    assert again.value.answers[RegionRequestKind.RESUME].outcome is RegionOutcome.REFUSED


def test_another_definition_counts_at_once_and_all_are_brought_into_line() -> None:
    settings = replace(SETTINGS, members=("b", "c"), max_reset_attempts=7)
    value = led(drained(led(settled(), replace(WELL, alarm=settled().region.timer))[-1].value), WELL, DEFINED)
    assert value == []
    newer = RegionDefinition("orders", settings, "ana", 9, "d2")
    steps = led(settled(), replace(WELL, lives={"b": 4, "c": 9}, in_line=frozenset("bc")), newer)
    assert [step.happened.kind for step in steps][:2] == ["defined", "member_joined"]
    region = steps[-1].value.region
    assert (region.settings, dict(region.lives), region.state) == (
        settings,
        {"b": 4, "c": 9},
        RegionState.PROCESSING,
    )
    assert (region.reset_attempt, region.max_reset_attempts) == (1, 7)


def test_the_log_is_folded_and_forgets_what_is_old() -> None:
    changes = [
        change_of(began(DEFINED).value, began(DEFINED).happened, WrittenBy("c", 1, number))
        for number in (1, 2, 3)
    ]
    cuts = [RegionCut("orders", number, 1, ()) for number in (1, 2)]
    view = read_on(RegionLogView(), [*changes, *cuts, RegionBeat("orders", "d", 3, 9, (), True)])
    assert (view.newest, view.cut, view.owner, view.has_ended) == (changes[-1], cuts[-1], "d", True)
    forgotten = view.forgotten(2, 1)
    assert forgotten == ("change/1", "cut/1")
    view = read_on(view, map(RegionTombstone, forgotten))
    assert (set(view.changes), set(view.cuts)) == ({2, 3}, {2})
    assert read_on(view, [RegionTombstone("beat"), RegionTombstone("cut/x")]) == view


@pytest.mark.parametrize("kind", [kind for kind in RegionEventKind if kind not in ("defined", "answered")])
def test_every_event_is_written_as_it_is_read(kind: RegionEventKind) -> None:
    event = event_of(RegionHappening(kind, "a", 3, 4, 5, 1, hold=True, force=True, timer=6))
    assert event is not None
    assert event_of(happening_of(event)) == event


def test_records_lie_under_their_keys_and_foreign_bytes_are_refused() -> None:
    request = RegionRequest("orders", RegionRequestKind.DRAIN, "ana", 1, "q")
    assert region_key(request) == "orders/request/drain"
    assert region_key(DEFINED) == "orders/definition"
    assert region_record(region_bytes(DEFINED), "here") == DEFINED
    with pytest.raises(UnknownRecordError, match="here"):
        region_record(b"hello", "here")
    with pytest.raises(DamagedRecordError):
        region_record(region_bytes(DEFINED)[:-1], "here")

"""What a controller of a region makes of what it sees, by worked examples; what it does under fire is the simulator's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.regions.events import RollbackAbandoned
from kcontrol.core.regions.leading import (
    NOT_CHECKED,
    LedStep,
    RegionSeen,
    RollbackChecked,
    began,
    is_to_be_checked,
    next_change,
    refused_cut,
    taken_over,
)
from kcontrol.core.regions.log_view import RegionLogView, RegionTombstone, read_on
from kcontrol.core.regions.model import RegionSettings, RegionState, Trigger
from kcontrol.core.regions.records import (
    CutPipeline,
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


def test_a_member_that_may_asks_for_a_drain_in_its_own_name_and_others_are_refused() -> None:
    settings = replace(SETTINGS, trigger=Trigger.OPERATOR_DRIVEN, triggers=("a",))
    defined = replace(DEFINED, settings=settings)
    drain = asks(RegionRequestKind.DRAIN)[RegionRequestKind.DRAIN]

    def asked(member: str, name: str) -> LedStep:
        wanted = {RegionRequestKind.DRAIN: replace(drain, request_id=name, member=member)}
        (step,) = led(settled(settings=settings), replace(WELL, requests=wanted), defined)
        return step

    begun = asked("a", "q1")
    assert (begun.happened.member, begun.value.drain_for) == ("a", "q1")
    assert begun.value.region.state is RegionState.DRAINING
    refused = asked("b", "q2").value
    answer = refused.answers[RegionRequestKind.DRAIN]
    assert (answer.request_id, answer.outcome) == ("q2", RegionOutcome.REFUSED)
    assert "'b' may not ask for drains of region 'orders'" in answer.why
    assert refused.region.state is RegionState.PROCESSING
    assert asked("", "q3").happened.member == "", "a person always may"


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
    begun = change_of(began(DEFINED).value, began(DEFINED).happened, WrittenBy("c", 1, 1))
    changes = [replace(begun, number=number, last_completed_seq_id=2) for number in (1, 2, 3)]
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


# --- back to a cut ------------------------------------------------------------------------------------------


def back(to_cut: int, name: str = "r1", as_of: int = 0) -> dict[RegionRequestKind, RegionRequest]:
    kind = RegionRequestKind.ROLLBACK
    return {kind: RegionRequest("orders", kind, "ana", 1, name, to_cut=to_cut, why="wrong", as_of=as_of)}


def cut_of(number: int, *pipelines: str) -> RegionCut:
    """pipelines: those that the region has, if none are named."""
    return RegionCut(
        "orders", number, 1, tuple(CutPipeline(name, 1, (), ()) for name in pipelines or SETTINGS.pipelines)
    )


def looked_at(name: str = "r1", why: str = "", definition: str = "d1") -> RollbackChecked:
    return RollbackChecked(name, definition, why)


def with_cuts() -> RegionValue:
    """1 and 2."""
    value = settled()
    for name in ("q1", "q2"):
        wanted = asks(RegionRequestKind.DRAIN, name)
        value = drained(led(value, replace(WELL, requests=wanted))[-1].value, requests=wanted)
    assert value.region.last_completed_seq_id == 2
    return value


def test_a_rollback_is_begun_once_it_was_looked_at_and_is_over_once_all_are_back() -> None:
    seen = replace(WELL, requests=back(1), healthy=False)
    value = led(with_cuts(), seen)[-1].value
    asked = is_to_be_checked(value, seen)
    assert asked is not None
    assert value.rollback is None, "not before it was looked at"
    checked = replace(seen, checked=looked_at(), cut=cut_of(1))
    assert is_to_be_checked(value, checked) is None
    value = led(value, checked)[-1].value
    assert (value.region.state, value.region.going_back_to) == (RegionState.GOING_BACK, 1)
    assert led(value, checked) == [], "it waits for those that take back"
    other = replace(DEFINED, request_id="d2", settings=replace(SETTINGS, members=("a",)))
    assert led(value, checked, other) == [], "who is taken back is whom it was begun with"
    value = led(value, replace(checked, back=("r1", frozenset("a"))))[-1].value
    value = taken_over(value, "c2").value
    steps = led(value, replace(checked, back=("r1", frozenset("ab"))))
    value = steps[-1].value
    assert steps[0].happened == RegionHappening(RegionEventKind.ROLLED_BACK, "b", seq_id=1)
    assert (value.region.state, value.region.last_completed_seq_id) == (RegionState.STARTED, 1)
    answer = value.answers[RegionRequestKind.ROLLBACK]
    assert (answer.request_id, answer.outcome, answer.seq_id) == ("r1", RegionOutcome.DONE, 1)
    assert value.rollback is None
    assert led(value, replace(checked, back=("r1", frozenset("ab")))) == [], "it is not begun again"


@pytest.mark.parametrize(
    ("request_", "checked", "led_from", "why"),
    [
        (back(1), looked_at(why="a works"), 0, "a works"),
        (back(3), looked_at(), 0, "no cut that can be gone back to"),
        (back(1, as_of=8), NOT_CHECKED, 9, "is so no more"),
    ],
)
def test_a_rollback_that_can_not_be_is_refused_and_changes_nothing(
    request_: dict[RegionRequestKind, RegionRequest], checked: RollbackChecked, led_from: int, why: str
) -> None:
    before = with_cuts()
    to_cut = request_[RegionRequestKind.ROLLBACK].to_cut
    seen = replace(WELL, requests=request_, checked=checked, cut=cut_of(to_cut), led_from=led_from)
    (refused,) = led(before, seen)
    answer = refused.value.answers[RegionRequestKind.ROLLBACK]
    assert answer.outcome is RegionOutcome.REFUSED
    assert why in answer.why
    assert refused.value.region == before.region
    assert is_to_be_checked(before, seen) is None


def test_on_the_way_back_it_can_be_gone_back_further_and_what_is_refused_then_is_not_asked_again() -> None:
    seen = replace(WELL, requests=back(2), checked=looked_at(), cut=cut_of(2))
    value = led(with_cuts(), seen)[-1].value
    value = led(value, replace(seen, back=("r1", frozenset("a"))))[-1].value
    further = replace(
        seen, requests=back(1, "r2"), checked=looked_at("r2"), cut=cut_of(1), back=("r1", frozenset("ab"))
    )
    value = led(value, further)[-1].value
    assert (value.region.going_back_to, dict(value.region.completions)) == (1, {})
    later = replace(seen, requests=back(2, "r3"), checked=looked_at("r3"))
    value = led(value, later)[-1].value
    assert value.answers[RegionRequestKind.ROLLBACK].outcome is RegionOutcome.REFUSED
    assert led(value, replace(later, back=("r1", frozenset("ab")))) == [], "that was another one"
    value = led(value, replace(later, back=("r2", frozenset("ab"))))[-1].value
    assert value.region.last_completed_seq_id == 1
    assert value.answers[RegionRequestKind.ROLLBACK].request_id == "r3", "the newest keeps its answer"


def test_a_definition_and_a_rollback_in_one_look_are_looked_at_one_after_the_other() -> None:
    """What was found by the definition before says nothing of whom this one names: a new member was never back."""
    seen = replace(WELL, requests=back(1), checked=looked_at(), cut=cut_of(1))
    newer = replace(DEFINED, request_id="d2", settings=replace(SETTINGS, members=("a", "b", "c")))
    steps = led(with_cuts(), seen, newer)
    assert steps[0].happened.kind is RegionEventKind.DEFINED
    value = steps[-1].value
    assert (value.rollback, RegionRequestKind.ROLLBACK in value.answers) == (None, False)
    assert is_to_be_checked(value, seen) is not None, "it is looked at anew"
    for found, why in (("nobody knows c", "nobody knows c"), ("", "is of the pipelines a, b, and")):
        checked = looked_at(why=found, definition="d2")
        (refused,) = led(value, replace(seen, checked=checked), newer)
        answer = refused.value.answers[RegionRequestKind.ROLLBACK]
        assert (answer.outcome, why in answer.why) == (RegionOutcome.REFUSED, True)


def test_a_cut_that_the_log_forgets_with_a_definition_is_not_gone_back_to() -> None:
    seen = replace(WELL, requests=back(1), checked=looked_at(), cut=cut_of(1))
    newer = replace(DEFINED, request_id="d2", settings=replace(SETTINGS, keep_cuts=1))
    value = led(with_cuts(), seen, newer)[-1].value
    assert value.rollback is None
    (refused,) = led(value, replace(seen, checked=looked_at(definition="d2"), cut=None), newer)
    assert "cut 1 is not in the log" in refused.value.answers[RegionRequestKind.ROLLBACK].why


def test_a_cut_that_is_being_gone_back_to_stays_in_the_log() -> None:
    seen = replace(WELL, requests=back(1), checked=looked_at(), cut=cut_of(1))
    begun = led(with_cuts(), seen)[-1]
    change = change_of(begun.value, begun.happened, WrittenBy("c", 1, 1))
    view = read_on(RegionLogView(), [change, cut_of(1), cut_of(2)])
    assert view.forgotten(9, 1) == ()
    assert read_on(view, [replace(change, rollback=None)]).forgotten(9, 1) == ("cut/1",)


def test_a_rollback_under_way_is_given_up_and_who_is_back_is_written() -> None:
    seen = replace(WELL, requests=back(1), checked=looked_at(), cut=cut_of(1))
    value = led(with_cuts(), seen)[-1].value
    asked = replace(seen, requests=back(0, "r2"), cut=None, back=("r1", frozenset("a")))
    assert is_to_be_checked(value, asked) is not None, "once nobody is taken back any more"
    steps = led(value, replace(asked, checked=looked_at("r2")))
    first, last = steps[0], steps[-1].value
    assert event_of(first.happened) == RollbackAbandoned()
    assert first.happened.why == "by ana: wrong; back at cut 1: a; not: b"
    region = first.value.region
    assert (region.state, region.last_completed_seq_id, region.going_back_to) == (RegionState.STARTED, 1, 0)
    answer = first.value.answers[RegionRequestKind.ROLLBACK]
    assert (answer.request_id, answer.outcome, answer.seq_id) == ("r2", RegionOutcome.DONE, 1)
    assert (last.rollback, last.region.state) == (None, RegionState.PROCESSING), "it goes on"
    (refused,) = led(last, replace(asked, requests=back(0, "r3"), checked=looked_at("r3")))
    assert "no rollback of it is under way" in refused.value.answers[RegionRequestKind.ROLLBACK].why


def test_who_gives_a_rollback_up_means_the_one_that_was_seen() -> None:
    """Another one, to an older cut, has taken its place since."""
    kind = RegionRequestKind.ROLLBACK
    begun = led(with_cuts(), replace(WELL, requests=back(2), checked=looked_at(), cut=cut_of(2)))[-1].value
    other = replace(WELL, requests=back(1, "r2"), checked=looked_at("r2"), cut=cut_of(1))
    value = led(begun, other)[-1].value
    named = {kind: replace(back(0, "r3")[kind], gives_up="r1")}
    asked = replace(WELL, requests=named, checked=looked_at("r3"))
    (refused,) = led(value, asked)
    answer = refused.value.answers[kind]
    assert answer.outcome is RegionOutcome.REFUSED
    assert "another one is under way, to cut 1, asked for by ana" in answer.why
    assert refused.value.rollback == value.rollback
    given_up = led(begun, replace(asked, led_from=9))[0]
    assert event_of(given_up.happened) == RollbackAbandoned(), "whoever is in charge by now"


def test_a_cut_is_of_those_that_the_region_has_now() -> None:
    a, b = CutPipeline("a", 1, (), ()), CutPipeline("b", 2, (), ())
    assert "is not in the log of region 'orders'" in refused_cut(7, None, SETTINGS)
    assert refused_cut(7, RegionCut("orders", 7, 1, (a, b)), SETTINGS) == ""
    assert "is of the pipelines a" in refused_cut(7, RegionCut("orders", 7, 1, (a,)), SETTINGS)


def test_whoever_has_a_cut_that_is_void_can_tell() -> None:
    (asked,) = led(settled(), replace(WELL, requests=asks(RegionRequestKind.DRAIN)))
    newest = change_of(drained(asked.value), asked.happened, WrittenBy("c", 1, 1))
    cuts = [RegionCut("orders", 1, 1, (), 0), RegionCut("orders", 4, 1, (), 1)]
    gone = read_on(RegionLogView(), [newest, cuts[0], RegionCut("orders", 3, 1, (), 1)])
    assert (gone.gone_back(3), gone.gone_back(1)) == (1, None)
    assert gone.forgotten(9, 9) == ("cut/3",)
    later = read_on(gone, [replace(newest, number=2, last_completed_seq_id=4), cuts[1]])
    later = read_on(later, map(RegionTombstone, gone.forgotten(9, 9)))
    assert (later.gone_back(3), later.gone_back(1), later.gone_back(4), later.gone_back(2)) == (
        1,
        None,
        None,
        1,
    )
    assert later.forgotten(9, 1) == ("cut/1",)

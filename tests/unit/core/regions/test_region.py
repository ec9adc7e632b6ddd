"""The state machine of a region, by worked examples; what it does under fire is the simulator's."""

from __future__ import annotations

import pytest

from kcontrol.core.regions import Region, RegionSettings, decide_region, refused_settings, told
from kcontrol.core.regions.decide import WhyIgnored
from kcontrol.core.regions.events import (
    PERSON,
    AlarmWentOff,
    BlockingCheckpointDone,
    CheckpointDone,
    DrainAsked,
    HealthSeen,
    MemberJoined,
    RegionEvent,
    ResetAsked,
    ResetDone,
    ResumeAsked,
    RollbackAsked,
    RolledBack,
    TookOver,
)
from kcontrol.core.regions.model import Alarm, RegionState, Told, Trigger, Word, refused_asker

SETTINGS = RegionSettings("orders", ("a", "b"), max_reset_attempts=2)
JOINED = (MemberJoined("a", 1), MemberJoined("b", 1))


def after(region: Region, *events: RegionEvent) -> Region:
    """Each of them must count."""
    for event in events:
        decision = decide_region(region, event)
        assert decision.ignored is None, (event, decision.ignored)
        region = decision.region
    return region


def processing(settings: RegionSettings = SETTINGS) -> Region:
    return after(Region.started(settings), *JOINED, HealthSeen(True))


def draining() -> Region:
    region = processing()
    return after(region, AlarmWentOff(region.timer))


def test_a_clean_start_goes_on_without_a_reset() -> None:
    region = processing()
    assert (region.state, region.alarm, region.reset_attempt) == (
        RegionState.PROCESSING,
        Alarm.DRAIN_PERIOD,
        0,
    )
    assert told(region, "a", 1) == Told(Word.RESUME_SUBMISSION, 1, 0, 0)
    before = after(Region.started(SETTINGS), *JOINED)
    seen = [each.is_healthy_first_time for each in (before, region, after(region, TookOver()))]
    assert seen == [False, True, False], "by whoever is in charge"


def test_a_drain_that_all_complete() -> None:
    region = draining()
    assert told(region, "b", 1) == Told(Word.TRIGGER_DRAIN, 1, 0, 0)
    region = after(region, CheckpointDone("a", 1, 1), CheckpointDone("b", 1, 1))
    assert (region.state, region.last_completed_seq_id, region.current_seq_id) == (
        RegionState.PROCESSING,
        1,
        2,
    )
    assert told(region, "a", 1) == Told(Word.RESUME_SUBMISSION, 2, 0, 1)


def test_members_go_on_while_they_save() -> None:
    region = after(draining(), BlockingCheckpointDone("a", 1, 1), CheckpointDone("b", 1, 1))
    assert (region.state, region.pending_seq_id, region.alarm) == (
        RegionState.PENDING,
        1,
        Alarm.DRAIN_TIMEOUT,
    )
    assert told(region, "a", 1) == Told(Word.RESUME_SUBMISSION, 1, 0, 0, saving=True)
    again = decide_region(region, BlockingCheckpointDone("b", 1, 1))
    assert (again.region, again.ignored) == (region, WhyIgnored.DOUBLED)
    region = after(region, CheckpointDone("a", 1, 1))
    assert (region.state, region.last_completed_seq_id, region.to_retire_seq_id) == (
        RegionState.PROCESSING,
        1,
        0,
    )


def test_a_drain_that_is_late_is_followed_by_a_reset_and_another_number() -> None:
    region = draining()
    region = after(region, AlarmWentOff(region.timer))
    assert told(region, "a", 1) == Told(Word.TRIGGER_RESET, 0, 0, 0, reset_attempt=0)
    region = after(region, ResetDone("a", 1, 0, 0), ResetDone("b", 1, 0, 0))
    assert (region.state, region.current_seq_id, region.reset_attempt) == (RegionState.PROCESSING, 2, 1)


def test_attempts_are_spent_until_somebody_forces_a_reset() -> None:
    region = processing()
    for _ in range(3):
        region = after(region, ResetAsked(force=False))
    assert (region.state, region.alarm) == (RegionState.SPENT, None)
    assert decide_region(region, ResetAsked(force=False)).ignored is WhyIgnored.SPENT
    forced = after(region, ResetAsked(force=True))
    assert (forced.state, forced.max_reset_attempts) == (RegionState.RESETTING, 4)
    ill = after(region, HealthSeen(False), ResetAsked(force=True))
    assert ill.state is RegionState.UNHEALTHY


def test_who_takes_over_resets_before_the_next_drain() -> None:
    region = after(draining(), CheckpointDone("a", 1, 1), TookOver())
    assert told(region, "a", 1) is None
    region = after(region, HealthSeen(True))
    assert region.state is RegionState.RESETTING
    region = after(region, ResetDone("a", 1, 0, 0), ResetDone("b", 1, 0, 0))
    assert region.current_seq_id == 2


def test_a_new_life_is_told_nothing_before_it_is_known_and_then_is_reset() -> None:
    region = processing()
    assert told(region, "a", 2) is None
    region = after(region, MemberJoined("a", 2))
    assert (region.state, told(region, "a", 1)) == (RegionState.UNHEALTHY, None)
    region = after(region, HealthSeen(True))
    assert told(region, "a", 2) == Told(Word.TRIGGER_RESET, 0, 0, 0, reset_attempt=0)


@pytest.mark.parametrize(
    ("event", "why"),
    [
        (CheckpointDone("a", 1, 2), WhyIgnored.LATE),
        (CheckpointDone("a", 0, 1), WhyIgnored.OLD_LIFE),
        (CheckpointDone("c", 1, 1), WhyIgnored.FOREIGN),
        (ResetDone("a", 1, 0, 0), WhyIgnored.LATE),
        (HealthSeen(None), WhyIgnored.AS_BEFORE),
        (AlarmWentOff(0), WhyIgnored.OLD_ALARM),
        (DrainAsked("a", 1), WhyIgnored.NO_TRIGGER),
        (MemberJoined("a", 0), WhyIgnored.OLD_LIFE),
    ],
    ids=str,
)
def test_what_means_nothing_changes_nothing(event: RegionEvent, why: WhyIgnored) -> None:
    region = draining()
    decision = decide_region(region, event)
    assert (decision.region, decision.ignored) == (region, why)


def test_an_operator_drives_the_drains() -> None:
    settings = RegionSettings("orders", ("a", "b"), Trigger.OPERATOR_DRIVEN, triggers=("a",))
    region = processing(settings)
    assert region.alarm is None
    assert decide_region(region, DrainAsked("b", 1)).ignored is WhyIgnored.NO_TRIGGER
    assert decide_region(region, DrainAsked("a", 2)).ignored is WhyIgnored.LATE
    assert after(region, DrainAsked("a", 1)).state is RegionState.DRAINING
    early = after(Region.started(settings), *JOINED, DrainAsked("a", 1), HealthSeen(True))
    assert early.state is RegionState.RESETTING


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        (RegionSettings("r", ()), "0 members"),
        (RegionSettings("r", ("a", "a")), "more than once"),
        (RegionSettings("r", ("a",), triggers=("b",)), "no member"),
        (RegionSettings("r", ("a",), triggers=("a",)), "make it operator_driven"),
        (RegionSettings("r", ("a",), keep_cuts=0), "keep_cuts is 0"),
        (RegionSettings("r", ("a",), reset_timeout_ms=0), "reset_timeout_ms is 0"),
    ],
)
def test_settings_that_can_not_be_used(settings: RegionSettings, word: str) -> None:
    assert word in refused_settings(settings)
    assert refused_settings(SETTINGS) == ""
    assert refused_settings(RegionSettings("r", ("a",), Trigger.OPERATOR_DRIVEN)) == "", "persons ask"


@pytest.mark.parametrize(
    ("settings", "member", "word"),
    [
        (RegionSettings("r", ("a", "b"), Trigger.OPERATOR_DRIVEN, ("a",)), "b", "a may, by its triggers"),
        (RegionSettings("r", ("a", "b"), Trigger.OPERATOR_DRIVEN), "b", "none of its members may"),
        (RegionSettings("r", ("a", "b")), "b", "is periodic"),
        (RegionSettings("r", ("a", "b"), Trigger.OPERATOR_DRIVEN, ("a",)), "ana", "'ana' is no member"),
    ],
)
def test_who_may_not_ask_for_a_drain_is_told_why(settings: RegionSettings, member: str, word: str) -> None:
    assert word in refused_asker(settings, member)
    assert refused_asker(settings, "") == "", "a person always may"
    for name in settings.triggers:
        assert refused_asker(settings, name) == ""


# --- held, and rolled back ----------------------------------------------------------------------------------


def held() -> Region:
    region = after(processing(), DrainAsked(PERSON, 1, hold=True))
    return after(region, CheckpointDone("a", 1, 1), CheckpointDone("b", 1, 1))


def test_a_person_may_ask_for_a_drain_after_which_all_stay() -> None:
    region = held()
    assert (region.state, region.is_held, region.alarm) == (RegionState.PROCESSING, True, None)
    assert told(region, "a", 1) == Told(Word.HOLD, 1, 0, 1)
    assert decide_region(region, DrainAsked(PERSON, 2)).ignored is WhyIgnored.HELD
    region = after(region, ResumeAsked())
    assert (region.is_held, region.alarm) == (False, Alarm.DRAIN_PERIOD)
    assert told(region, "a", 1) == Told(Word.RESUME_SUBMISSION, 2, 0, 1)
    assert decide_region(region, ResumeAsked()).ignored is WhyIgnored.AS_BEFORE


def test_nobody_goes_on_while_others_still_save_what_is_held() -> None:
    region = after(processing(), DrainAsked(PERSON, 1, hold=True), BlockingCheckpointDone("a", 1, 1))
    region = after(region, CheckpointDone("b", 1, 1))
    assert told(region, "b", 1) == Told(Word.HOLD, 1, 0, 0, saving=True)
    assert after(region, CheckpointDone("a", 1, 1)).is_held


def test_who_is_held_stays_so_over_a_reset() -> None:
    region = after(held(), MemberJoined("a", 2), HealthSeen(True))
    assert region.state is RegionState.RESETTING
    region = after(region, ResetDone("a", 2, 1, 0), ResetDone("b", 1, 1, 0))
    assert (region.state, region.is_held, region.alarm) == (RegionState.PROCESSING, True, None)
    assert told(region, "a", 2) == Told(Word.HOLD, 1, 0, 1)


def test_the_wish_to_hold_a_drain_ends_with_it() -> None:
    region = after(processing(), DrainAsked(PERSON, 1, hold=True), HealthSeen(False), HealthSeen(True))
    region = after(region, ResetDone("a", 1, 0, 0), ResetDone("b", 1, 0, 0))
    assert (region.is_held, region.holds_next, region.alarm) == (False, False, Alarm.DRAIN_PERIOD)


def test_after_a_rollback_all_are_brought_into_line_and_numbers_go_on() -> None:
    region = draining()
    for number in (1, 2):
        region = after(region, CheckpointDone("a", 1, number), CheckpointDone("b", 1, number))
        region = after(region, AlarmWentOff(region.timer))
    region = after(region, RollbackAsked(1))
    assert (region.state, region.alarm, told(region, "a", 1)) == (RegionState.GOING_BACK, None, None)
    assert decide_region(region, RollbackAsked(2)).ignored is WhyIgnored.UNREACHABLE, "only further back"
    assert decide_region(region, ResetAsked(force=True)).ignored is WhyIgnored.GOING_BACK
    assert decide_region(region, RolledBack("a", 2)).ignored is WhyIgnored.LATE
    region = after(region, RolledBack("a", 1), TookOver())
    assert region.state is RegionState.GOING_BACK, "whoever takes over goes on with it"
    assert decide_region(region, RolledBack("a", 1)).ignored is WhyIgnored.DOUBLED
    region = after(region, RolledBack("b", 1))
    assert (region.state, region.last_completed_seq_id, region.to_retire_seq_id) == (
        RegionState.STARTED,
        1,
        0,
    )
    assert region.current_seq_id == 4
    region = after(region, MemberJoined("a", 2), MemberJoined("b", 2), HealthSeen(True))
    assert told(region, "a", 2) == Told(Word.TRIGGER_RESET, 1, 0, 1, reset_attempt=0)


@pytest.mark.parametrize("number", [-1, 0, 2])
def test_nobody_goes_back_to_what_never_was(number: int) -> None:
    assert decide_region(held(), RollbackAsked(number)).ignored is WhyIgnored.UNREACHABLE

"""Controllers of a region under fire; and rules of theirs, switched off: the simulator must then find what they are for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from kcontrol.core.regions import decide, leading
from kcontrol.core.regions.events import (
    BlockingCheckpointDone,
    CheckpointDone,
    RegionEvent,
    RollbackAbandoned,
)
from kcontrol.core.regions.model import Region
from kcontrol.core.regions.participants import ParticipantSaid
from kcontrol.core.regions.pods import PodsHeard
from kcontrol.errors import FencedError
from kcontrol.sessions import region as session
from kcontrol.sessions.region import RegionSession
from tests.fakes.memory_regions import MemoryRegionTopic
from tests.simulation.invariants import Violation
from tests.simulation.regions.controllers import (
    AFTER,
    AGAIN,
    ANSWERED,
    BACK,
    FOLDS,
    MAY,
    MEANT,
    ONE_WRITES,
    STANDS,
    RegionWorld,
)
from tests.simulation.regions.definer import BEGINS_FREE, STAYS_HELD

_SCHEDULES = 12
_UNTIL_FOUND = 60
"""Schedules in which a rule is missed at the latest; the first ends the test."""


def play(schedules: int) -> Counter[str]:
    counts: Counter[str] = Counter()
    for seed in range(schedules):
        try:
            RegionWorld(seed, counts).run()
        except BaseException as error:
            error.add_note(f"seed {seed} of controllers of a region")
            raise
    return counts


def test_no_schedule_of_controllers_breaks_an_invariant() -> None:
    counts = play(_SCHEDULES)
    assert counts["killed"] > _SCHEDULES
    assert counts["hung"] > _SCHEDULES
    assert counts["taken over"] > _SCHEDULES
    assert counts["cuts"] > 3, counts
    assert counts["participants begun again"] > 3, counts
    assert counts["pods away"] > 3, counts
    assert counts["drains of members"] > 3, counts
    assert counts["deleted while held"] > 3, counts
    assert counts["defined anew"] > 3, counts
    assert counts["given up"] > 3, counts
    assert counts["stopped drains"] > 3, counts
    assert counts["alarms lost"] > 2 * _SCHEDULES, counts


def test_a_beat_says_where_drains_begin() -> None:
    world = RegionWorld(1, Counter())
    world.run()
    beat = world.view().beat
    assert beat is not None
    assert beat.starts == ("p",)


def _nobody_is_fenced() -> AbstractContextManager[object]:
    def commit(self: MemoryRegionTopic, epoch: int, position: int, records: object) -> None:
        if epoch < 0:
            raise FencedError("not taken")
        self.records += records  # type: ignore[arg-type]

    return patch.object(MemoryRegionTopic, "commit", commit)


def _who_was_pushed_aside_goes_on() -> AbstractContextManager[object]:
    return patch.object(RegionSession, "_refuse_other", lambda self, error: None)


def _whoever_takes_over_says_nothing() -> AbstractContextManager[object]:
    """And goes on with the drain that was under way."""
    went_on = session.taken_over

    def taken_over(value: object, controller: str) -> object:
        led = went_on(value, controller)  # type: ignore[arg-type]
        return session.LedStep(led.happened, value)  # type: ignore[arg-type]

    return patch.object(session, "taken_over", taken_over)


def _what_is_held_fast_is_saved() -> AbstractContextManager[object]:
    counts = leading.said_event

    def said_event(region: Region, name: str, said: ParticipantSaid) -> RegionEvent | None:
        event = counts(region, name, said)
        if isinstance(event, BlockingCheckpointDone):
            return CheckpointDone(event.member, event.life, event.seq_id)
        return event

    return patch.object(leading, "said_event", said_event)


def _a_word_of_pods_counts_for_ever() -> AbstractContextManager[object]:
    doubts = PodsHeard.doubts
    return patch.object(PodsHeard, "doubts", lambda self, now_ms, lease_ms: doubts(self, now_ms, 10**9))


def _whoever_asks_may() -> AbstractContextManager[object]:
    rules = ExitStack()
    rules.enter_context(patch.object(leading, "refused_asker", lambda settings, member: ""))
    rules.enter_context(patch.object(decide, "_must_be_trigger", lambda region, member: None))
    return rules


def _all_drains_are_persons() -> AbstractContextManager[object]:
    """As they were: who is a trigger, and who is none, had the same drains."""
    asked = leading.DrainAsked
    return patch.object(leading, "DrainAsked", lambda _, number, hold: asked("", number, hold))


def _an_alarm_is_set_before_it_is_written() -> AbstractContextManager[object]:
    """As it was: by what was decided, whether it could be written or not."""
    rules, decided, set_alarm = ExitStack(), RegionSession._changes, RegionSession._set_alarm

    def changes(self: RegionSession, *seen: Any) -> Iterator[session.LedStep]:
        for led in decided(self, *seen):
            set_alarm(self, led.value)
            yield led

    rules.enter_context(patch.object(RegionSession, "_changes", changes))
    rules.enter_context(patch.object(RegionSession, "_set_alarm", lambda self, value: None))
    return rules


def _who_gives_up_keeps_later_cuts() -> AbstractContextManager[object]:
    """Of which some pipelines have no steps any more."""
    right = decide._on_rollback_abandoned

    def abandoned(region: Region, event: RollbackAbandoned) -> Region:
        return replace(right(region, event), last_completed_seq_id=region.last_completed_seq_id)

    return patch.object(decide, "_on_rollback_abandoned", abandoned)


def _whichever_is_under_way_is_given_up() -> AbstractContextManager[object]:
    """As it was: also one that was begun since."""
    right = leading.refused_abandon
    rules = ExitStack()
    for of in (leading, session):
        rules.enter_context(
            patch.object(
                of, "refused_abandon", lambda request, now: right(replace(request, gives_up=""), now)
            )
        )
    return rules


def _only_who_is_held_stands() -> AbstractContextManager[object]:
    """As it was: whatever the region's settings say."""
    return patch.object(Region, "stands", property(lambda region: region.holds_next))


def _one_that_was_deleted_goes_on() -> AbstractContextManager[object]:
    return patch.object(leading, "_is_another", lambda value, definition: False)


def _whoever_defines_it_anew_lets_all_go() -> AbstractContextManager[object]:
    return patch.object(leading, "_is_another", lambda value, definition: True)


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (_nobody_is_fenced, (FOLDS, ONE_WRITES)),
        (_who_was_pushed_aside_goes_on, (ONE_WRITES,)),
        (_whoever_takes_over_says_nothing, (FOLDS,)),
        (_what_is_held_fast_is_saved, (AFTER,)),
        (_a_word_of_pods_counts_for_ever, (ANSWERED,)),
        (_whoever_asks_may, (MAY,)),
        (_all_drains_are_persons, (MAY,)),
        (_an_alarm_is_set_before_it_is_written, (AGAIN,)),
        (_who_gives_up_keeps_later_cuts, (BACK,)),
        (_whichever_is_under_way_is_given_up, (MEANT,)),
        (_only_who_is_held_stands, (STANDS,)),
        (_one_that_was_deleted_goes_on, (BEGINS_FREE,)),
        (_whoever_defines_it_anew_lets_all_go, (STAYS_HELD,)),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_without_a_rule_something_breaks(rule: object, found: tuple[str, ...]) -> None:
    with ExitStack() as stack:
        stack.enter_context(rule())  # type: ignore[operator]
        with pytest.raises(Violation, match="|".join(found)):
            play(_UNTIL_FOUND)

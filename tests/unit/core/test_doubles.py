"""A log that records a step twice: the newest record counts, a person is told, and nothing ends for ever."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import Assigned, EndsReached, InitProducer, ProducerReady, ReadToEnds
from kcontrol.core.log.keys import accepted_key
from kcontrol.core.log.steps_view import Boundaries, Double, StepsView, evolve
from kcontrol.core.model import Claim, LoggedStep, PipelinePhase, Resume, Status, StepRecord, Tombstone
from kcontrol.errors import DamagedRecordError
from kcontrol.views.doubles import doubles_of
from kcontrol.views.pipeline_projection import PipelineProjection
from tests.unit.core.drive import CoordinatorDriver, published
from tests.unit.core.made import SPEC, boundary
from tests.unit.core.saving import checkpoint


def fold(*records: StepRecord | Tombstone) -> StepsView:
    view = StepsView("p")
    for offset, record in enumerate(records):
        view = evolve(view, LoggedStep(offset, record))
    return view


def test_the_newest_record_of_a_step_counts_and_what_followed_the_first_never_was() -> None:
    view = fold(
        boundary(1, (5, 0), (6, 0)),
        boundary(2, (6, 0), (7, 0)),
        boundary(3, (7, 0), (8, 0)),
        boundary(2, (6, 0), (9, 1)),
    )
    assert (view.step, view.next_from[("in", 0)], view.last_offset) == (2, 9, 3)
    assert view.doubles == (Double("step", 2, 3, 3),)
    assert fold(boundary(1, (5, 0), (6, 0)), boundary(1, (5, 0), (6, 0))).doubles == (
        Double("step", 1, 1, 1),
    )


def test_the_same_is_left_when_compaction_has_removed_the_older_records() -> None:
    whole = fold(boundary(1, (5, 0), (6, 0)), boundary(2, (6, 0), (7, 0)), boundary(2, (6, 0), (9, 1)))
    compacted = evolve(fold(boundary(1, (5, 0), (6, 0))), LoggedStep(2, boundary(2, (6, 0), (9, 1))))
    assert (whole.last, whole.next_from, whole.step) == (compacted.last, compacted.next_from, compacted.step)
    assert compacted.doubles == ()


def test_a_step_that_is_left_out_is_still_an_error() -> None:
    with pytest.raises(DamagedRecordError, match="holds step 3 after step 1"):
        fold(boundary(1, (5, 0), (6, 0)), boundary(3, (7, 0), (8, 0)))


def test_a_checkpoint_that_is_recorded_twice_is_a_double_and_no_end() -> None:
    view = fold(boundary(1, (5, 0), (6, 0)), checkpoint(1, 0), checkpoint(1, 0))
    assert ([one.step for one in view.checkpoints], view.doubles) == ([1], (Double("checkpoint", 1, 1, 2),))


def test_what_a_person_accepts_is_no_double_any_more_and_what_comes_later_is() -> None:
    once = (boundary(1, (5, 0), (6, 0)), boundary(1, (5, 0), (6, 0)), Tombstone(accepted_key(1)))
    assert fold(*once).doubles == ()
    assert fold(*once, boundary(1, (5, 0), (6, 0))).doubles == (Double("step", 1, 1, 3),)


def test_a_node_replays_by_the_newest_records() -> None:
    held = Boundaries()
    for made in (boundary(1, (5, 0), (6, 0)), boundary(2, (6, 0), (7, 0)), boundary(3, (7, 0), (8, 0))):
        held = held.extended(made)
    again = boundary(2, (6, 0), (9, 1))
    held = held.extended(again)
    assert (held.get(1), held.get(2), held.get(3)) == (boundary(1, (5, 0), (6, 0)), again, None)


def test_what_is_shown_goes_by_the_newest_records() -> None:
    seen = PipelineProjection("p")
    records = [boundary(1, (5, 0), (6, 0)), boundary(2, (6, 0), (7, 0)), boundary(2, (6, 0), (9, 0))]
    seen.see_steps(LoggedStep(offset, record) for offset, record in enumerate(records))
    assert [each.offset for each in seen.recent] == [0, 2]
    assert (seen.index.offset_of(2), seen.index.reader_of("in", 0, 8), seen.index.offset_of(3)) == (
        2,
        2,
        None,
    )


def test_it_is_told_what_readers_have_seen() -> None:
    first, second, third = (
        boundary(1, (5, 0), (6, 0)),
        boundary(2, (6, 0), (7, 0)),
        boundary(1, (5, 0), (7, 0)),
    )
    log = [LoggedStep(offset, record) for offset, record in enumerate((first, second, third))]
    (twice,) = doubles_of("p", log)
    assert [(one.step, one.offset) for one in twice.void] == [(1, 0), (2, 1)]
    assert not twice.accepted
    (twice,) = doubles_of("p", [*log, LoggedStep(3, Tombstone(accepted_key(2)))])
    assert twice.accepted


def _take_over(driver: CoordinatorDriver, records: Sequence[StepRecord | Tombstone]) -> list[object]:
    driver.see(
        published(Claim, driver.feed(Assigned("c", "host", 1, driver.log.now_ms, driver.log.wall_ms)))[0]
    )
    driver.feed(ProducerReady(7, 1, driver.log.now_ms))
    for record in records:
        driver.see_step(record)
    return driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms))


def test_a_coordinator_halts_names_it_and_goes_on_once_it_is_accepted() -> None:
    driver = CoordinatorDriver(SPEC)
    twice = (boundary(1, (5, 0), (6, 0)), boundary(1, (5, 0), (6, 0)))
    effects = _take_over(driver, twice)
    (status,) = published(Status, effects)
    assert status.phase is PipelinePhase.HALTED
    assert "records step 1 again at offset 1" in status.reason
    assert "kcontrol repair p" in status.reason

    # Nobody has accepted it: resumed, it reads again and halts again.
    assert ReadToEnds(settled=False) in driver.see(Resume("p", "r1"))
    driver.see(published(Claim, driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms)))[0])
    driver.feed(ProducerReady(7, 2, driver.log.now_ms))
    driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms))
    assert driver.state.at is State.DENIED

    driver.see(Resume("p", "r2"))
    claim = published(Claim, driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms)))[0]
    assert any(isinstance(effect, InitProducer) for effect in driver.see(claim))
    driver.feed(ProducerReady(7, 3, driver.log.now_ms))
    driver.see_step(Tombstone(accepted_key(1)))
    driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms))
    assert driver.state.at is State.ASSEMBLING
    assert driver.status.phase is not PipelinePhase.HALTED

"""A step that takes back others: what the log of steps then says, what can be gone back to, and what nodes and coordinators
make of it."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pytest

from kcontrol.core.coordinator.checkpointing import making_room
from kcontrol.core.events import EngineOpened, Exit, OpenEngine, RunStep
from kcontrol.core.log.resets import VoidSteps, kept, next_after, resets_in, with_reset
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import (
    CheckpointSpec,
    CommandKind,
    ExchangeLayout,
    Layout,
    LoggedStep,
    OutputSlice,
    Replaying,
    Reset,
    StepBoundary,
    StepRecord,
    Tombstone,
    Watermark,
)
from kcontrol.core.node.table import NodeStage
from kcontrol.core.step.resetting import (
    begins_at,
    crossed,
    going_back,
    lost_rows,
    passed_over,
    refused_exchanges,
    refused_standing,
    refused_step,
    void_checkpoints,
    void_ends,
)
from kcontrol.core.step.watermarks import after_step, moved
from kcontrol.errors import DamagedRecordError
from tests.unit.core.drive import NodeDriver, only, published
from tests.unit.core.made import LIMITS, SPEC, boundary, checkpoint
from tests.unit.core.staged import DELIVERED, SHARED, STAGED, run, sent


def step(number: int) -> StepBoundary:
    """The one that reads record `number` of each partition, where none was taken back."""
    return boundary(number, (4 + number, number - 1), (5 + number, number))


def reset(last: StepBoundary, back: StepBoundary, to_step: int = 0) -> StepBoundary:
    """Of the step after `last`."""
    asked = Reset(to_step or back.step, "why", "me", "r", ())
    return going_back(last, back, asked, (7, 9), 3, 5_000)


def after(number: int, back: StepBoundary) -> StepBoundary:
    """A step that reads on from where `back` has ended."""
    ends = tuple(piece.to for piece in back.inputs)
    return replace(boundary(number, ends, tuple(end + 1 for end in ends)), now_ms=10_000 + number)


def fold(*records: StepRecord | Tombstone) -> StepsView:
    return reduce(evolve, (LoggedStep(at, one) for at, one in enumerate(records)), StepsView("p"))


THREE = (step(1), step(2), step(3))


def test_the_next_step_begins_where_the_one_that_is_gone_back_to_has_ended() -> None:
    marked = replace(step(1), watermarks=(Watermark("q", (5,), 5),), watermark_moved=True)
    made = reset(step(3), marked)
    view = fold(marked, step(2), step(3), made)
    assert (view.step, view.is_reset, view.resets) == (4, True, (VoidSteps(1, 4),))
    assert view.next_from == {("in", 0): 6, ("in", 1): 1}
    assert (made.watermarks, made.watermark_moved, made.outputs) == (marked.watermarks, True, ())
    assert made.now_ms > step(3).now_ms
    assert [number for number in range(5) if view.can_begin_at(number, 1)] == [0, 1, 4]
    assert fold(marked, step(2), step(3), made, after(5, marked)).next_from["in", 0] == 7


@pytest.mark.parametrize(
    "wrong",
    [
        replace(reset(step(3), step(1)), step=5),
        replace(reset(step(3), step(1)), now_ms=1),
        reset(step(3), step(3), to_step=4),
        reset(step(3), step(1), to_step=-1),
        replace(step(4), reset=Reset(2, "", "", "", ())),
    ],
)
def test_what_can_be_no_reset_is_damage(wrong: StepBoundary) -> None:
    with pytest.raises(DamagedRecordError):
        fold(*THREE, wrong)


def test_what_is_void_is_not_gone_back_to_or_saved() -> None:
    made = reset(step(3), step(1))
    with pytest.raises(DamagedRecordError, match="that is void itself"):
        fold(*THREE, made, after(5, step(1)), reset(after(5, step(1)), step(2)))
    with pytest.raises(DamagedRecordError, match="is void since step 4"):
        fold(*THREE, made, after(5, step(1)), checkpoint(3, 1))
    view = fold(step(1), checkpoint(1, 1), step(2), checkpoint(2, 1), step(3), made)
    assert [one.step for one in view.checkpoints] == [1]
    assert void_checkpoints(fold(step(1), checkpoint(1, 1), step(2), checkpoint(2, 1)), 1) == (
        "checkpoint/2",
    )


def test_stretches_of_void_steps_lie_apart_or_within_each_other() -> None:
    apart = with_reset(with_reset((), 1, 4), 6, 9)
    assert apart == (VoidSteps(1, 4), VoidSteps(6, 9))
    assert with_reset(apart, 1, 12) == (VoidSteps(1, 12),)
    assert with_reset(apart, 4, 12) == (VoidSteps(1, 4), VoidSteps(4, 12))
    assert [next_after(apart, number) for number in (0, 1, 2, 4, 6, 9)] == [1, 5, 5, 5, 10, 10]
    log = [*THREE, reset(step(3), step(1)), after(5, step(1))]
    assert (resets_in(log), [one.step for one in kept(log)]) == ((VoidSteps(1, 4),), [1, 5])


def test_who_begins_to_read_at_a_checkpoint_lets_nobody_begin_before_a_reset_that_it_has_not_read() -> None:
    made, five = reset(step(3), step(1)), after(5, step(1))
    view = fold(*THREE, made, five)
    saved, _ = making_room(
        view, replace(checkpoint(5, 1), boundary_offset=4), CheckpointSpec("file:///c", 1, 1, -1), LIMITS
    )
    begun = evolve(StepsView.begun_at("p", saved), LoggedStep(4, five))
    begun = evolve(begun, LoggedStep(5, saved))
    whole = evolve(view, LoggedStep(5, saved))
    assert begun == whole
    # 4 is the reset, which holds what a step does that it does not know of: no node says that it could open that.
    assert [number for number in range(6) if begun.can_begin_at(number, 1)] == [4, 5]


@pytest.mark.parametrize(
    ("to_step", "why"),
    [
        (0, "numbered from 1"),
        (7, "has no step 7: its last one is 6"),
        (3, "is void since step 4"),
        (2, "is void since step 4, which was a reset: go back to step 1"),
    ],
)
def test_why_a_step_can_not_be_gone_back_to(to_step: int, why: str) -> None:
    five = after(5, step(1))
    steps = fold(*THREE, reset(step(3), step(1)), five, after(6, five))
    assert why in refused_step(SPEC, steps, to_step)
    assert "is at step 6 already" in refused_standing(SPEC, steps, 6)
    assert refused_standing(SPEC, steps, 5) == ""
    assert refused_step(SPEC, steps, 1) == refused_step(SPEC, steps, 4) == refused_step(SPEC, steps, 5) == ""


def test_who_goes_back_with_others_passes_over_what_they_wrote_in_void_steps() -> None:
    wrote = OutputSlice("out", "input", 1, 3, 9, 2, "0" * 32)
    unwritten = replace(wrote, partition=0, from_=90, to=90, records=0)
    void = void_ends((replace(step(2), outputs=(wrote, unwritten)), step(3)))
    assert void == {("input", 1): 9}, "where nothing was written nothing is passed over"
    passed = passed_over(step(1), void, "ana", 7, "r1")
    assert [(one.input, one.partition, one.from_, one.to, one.request_id) for one in passed] == [
        ("in", 1, 1, 9, "r1")
    ]
    made = going_back(step(3), step(1), Reset(1, "", "ana", "r1", ()), (7, 9), -1, 5_000, passed)
    view = fold(*THREE, made, replace(boundary(5, (6, 9), (7, 10)), now_ms=10_005))
    assert view.next_from == {("in", 0): 7, ("in", 1): 10}
    with pytest.raises(DamagedRecordError, match="the step before ended at 9"):
        fold(*THREE, made, replace(boundary(5, (6, 1), (7, 2)), now_ms=10_005))
    assert passed_over(step(1), {("input", 1): 1}, "ana", 7, "r1") == (), "it was read already"


def test_state_must_be_had_from_somewhere() -> None:
    steps = fold(*THREE, checkpoint(3, 1), step(4))
    assert "its oldest checkpoint is of step 3. Go back to step 3 or later" in refused_step(SPEC, steps, 2)
    assert refused_step(replace(SPEC, stateful=False), steps, 2) == ""
    assert (begins_at(steps, 3), begins_at(fold(*THREE), 2), begins_at(steps, 2)) == (3, 0, None)
    gone = fold(*THREE, Tombstone("step/1"))
    assert "is no longer in the log: the oldest that is left is 2" in refused_step(SPEC, gone, 1)
    assert "its log begins with step 2" in refused_step(SPEC, gone, 2)
    assert "no committed step" in refused_step(SPEC, StepsView("p"), 1)
    resized = fold(step(1), replace(step(2), nodes=2))
    assert "made by other nodes" in refused_step(replace(SPEC, stateful=False), resized, 1)


CROSSES = Layout((), 4, (), (ExchangeLayout("x", 1, 1),))


def test_what_nodes_take_once_more_lies_between_what_the_steps_that_are_run_again_name() -> None:
    first = replace(step(2), exchanges=(sent(0, run(0, 4, 6), run(1, 6, 7)), sent(2)), layout=CROSSES)
    # Between the two steps lies what void ones have sent, with their markers.
    later = replace(step(5), exchanges=(sent(0, run(1, 20, 22)), sent(1, run(0, 3, 4))), layout=CROSSES)
    assert crossed(()) == {}
    assert crossed((first, later)) == {"x": {0: (4, 22), 1: (3, 4)}}
    wanted = crossed((first, later))["x"]
    assert lost_rows(wanted, (4, 0), (23, 5)) is None
    assert lost_rows(wanted, (5, 0), (23, 5)) == (0, 4, 22), "its retention has deleted it"
    assert lost_rows(wanted, (4, 0), (23, 3)) == (1, 3, 4), "another topic of that name"
    assert lost_rows(wanted, (4,), (23,)) == (1, 3, 4)


def test_rows_can_only_be_taken_once_more_through_the_exchanges_that_they_were_sent_by() -> None:
    again = (replace(step(1), layout=CROSSES), replace(step(2), layout=CROSSES))
    assert refused_exchanges(SPEC, THREE) == refused_exchanges(STAGED, again) == ""
    assert refused_exchanges(replace(STAGED, exchanges=()), ()) == "", "from its checkpoint any code goes on"
    more = "made with exchange 'x', and its definition has exchange 'x', 'y' now"
    assert more in refused_exchanges(DELIVERED, again)
    assert "made with no exchange, and" in refused_exchanges(STAGED, (*again, step(3)))


def test_a_reset_has_crossed_nothing_and_has_the_watermark_of_what_it_goes_back_to() -> None:
    reached = (Watermark("q", (70, 90), 70),)
    back = replace(step(1), exchanges=(sent(0, run(0, 0, 2)),), layout=CROSSES, watermarks=reached)
    far = replace(
        step(2),
        exchanges=(sent(0, run(0, 3, 9)),),
        layout=CROSSES,
        watermarks=(Watermark("q", (9_000,) * 2, 9_000),),
    )
    made = reset(far, back)
    assert (made.exchanges, made.layout.exchanges, made.watermarks) == ((), (), reached)
    assert after_step(SHARED, made.watermarks, ())[0].ms == 70
    assert not moved(made.watermarks, after_step(SHARED, made.watermarks, ()))


# --- nodes --------------------------------------------------------------------------------------------------


def joined(*log: StepRecord, openable: tuple[int, ...]) -> NodeDriver:
    driver = NodeDriver()
    for record in log:
        driver.see_step(record)
    driver.joined(*openable)
    return driver


def test_a_node_opens_what_a_reset_goes_back_to_and_counts_on_from_there() -> None:
    driver = joined(*THREE, reset(step(3), step(1)), after(5, step(1)), openable=(3, 2, 1))
    assert driver.state.said is not None
    assert driver.state.said.openable == (1,)
    assert only(OpenEngine, driver.command(CommandKind.OPEN, 1)).step == 1
    run = only(RunStep, driver.feed(EngineOpened(1, driver.log.now_ms)))
    assert (run.work.step, driver.state.step) == (5, 4)


def test_a_node_that_is_told_to_open_a_void_step_says_what_it_has_read() -> None:
    driver = joined(*THREE, reset(step(3), step(1)), openable=())
    effects = driver.command(CommandKind.OPEN, 3)
    assert not [one for one in effects if isinstance(one, OpenEngine)]
    assert [one.step for one in published(Replaying, effects)] == [4]
    assert driver.state.at is NodeStage.CLOSED


def test_an_incarnation_does_not_outlive_a_reset() -> None:
    driver = joined(*THREE, openable=(3,))
    driver.command(CommandKind.OPEN, 3)
    driver.feed(EngineOpened(3, driver.log.now_ms))
    ended = only(Exit, driver.see_step(reset(step(3), step(1))))
    assert "is a reset to step 1" in ended.reason

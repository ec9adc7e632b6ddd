"""The log of steps, compacted in any way that a cleaner may choose, folds to what the whole log folds to."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from kcontrol.core.coordinator.checkpointing import making_room
from kcontrol.core.log.keys import key_of
from kcontrol.core.log.resets import kept, resets_in, void_by
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import (
    Checkpoint,
    CheckpointSpec,
    LoggedStep,
    Reset,
    StepBoundary,
    StepRecord,
    Tombstone,
)
from kcontrol.core.step.resetting import going_back, refused_step, void_checkpoints
from tests.unit.core.made import LIMITS, SPEC, boundary, checkpoint


def fold(log: list[LoggedStep]) -> StepsView:
    return reduce(evolve, log, StepsView("p"))


@st.composite
def logs(draw: st.DrawFn) -> list[LoggedStep]:
    """Steps, checkpoints of any of them in their order, and what each makes needless; and resets, to wherever one can be."""
    policy = CheckpointSpec("file:///c", 1, draw(st.integers(1, 3)), draw(st.integers(-1, 4)))
    limits = replace(LIMITS, max_forgotten=draw(st.integers(1, 5)))
    log: list[LoggedStep] = []
    view, step, nodes = StepsView("p"), 0, 1
    offsets: dict[int, int] = {}
    made: dict[int, StepBoundary] = {}
    end = (5, 0)

    def append(record: StepRecord | Tombstone) -> None:
        nonlocal view
        log.append(LoggedStep(len(log), record))
        view = evolve(view, log[-1])

    for kind in draw(st.lists(st.sampled_from(("step", "step", "save", "save", "reset")), max_size=25)):
        back = [one for one in made if not refused_step(SPEC, view, one)]
        if kind == "reset" and back:
            to = draw(st.sampled_from(back))
            asked = Reset(to, "", "me", f"r{step}", ())
            record = going_back(made[step], made[view.made_by(to)], asked, (1, 1), 0, 1_000 + step + 1)
            step, nodes, end = step + 1, record.nodes, _ends(record)
            made[step], offsets[step] = record, len(log)
            gone = void_checkpoints(view, to)
            append(record)
        elif kind == "save" and (saves := _may_be_saved(view, made)):
            saved = draw(st.sampled_from(saves))
            record = replace(checkpoint(saved, 2), boundary_offset=offsets[saved])
            record, gone = making_room(view, record, policy, limits)
            append(record)
        else:
            step, begin, end, gone = step + 1, end, (end[0] + 1, end[1] + 1), ()
            nodes = draw(st.sampled_from((nodes, nodes, nodes, 1, 2)))
            made[step], offsets[step] = boundary(step, begin, end, nodes=nodes), len(log)
            append(made[step])
        for key in gone:
            append(Tombstone(key))
    return log


def _ends(one: StepBoundary) -> tuple[int, int]:
    first, second = (piece.to for piece in one.inputs)
    return first, second


def _may_be_saved(view: StepsView, made: dict[int, StepBoundary]) -> list[int]:
    later = range(view.checkpoint + 1, view.step + 1)
    return [one for one in later if view.void_by(one) is None and made[one].reset is None]


@given(logs(), st.data())
def test_a_compacted_log_folds_to_the_same(log: list[LoggedStep], data: st.DataObject) -> None:
    cleaned = data.draw(st.integers(0, len(log)), "tombstones before this have been carried out")
    removed = data.draw(st.integers(0, cleaned), "tombstones before this are gone themselves")
    gone = {one.record.key for one in log[:cleaned] if isinstance(one.record, Tombstone)}
    left = [
        one
        for one in log
        if (one.offset >= removed if isinstance(one.record, Tombstone) else key_of(one.record) not in gone)
    ]
    assert fold(left) == fold(log)


@given(logs(), st.data())
def test_a_reader_that_begins_at_a_checkpoint_finds_what_one_from_the_beginning_finds(
    log: list[LoggedStep], data: st.DataObject
) -> None:
    """It looks the newest checkpoint up; more may come before it reads."""
    seen = data.draw(st.integers(0, len(log)), "records when it looks")
    newest = next((one.record for one in reversed(log[:seen]) if isinstance(one.record, Checkpoint)), None)
    if newest is None:
        return
    read = [one for one in log if one.offset >= newest.begin_offset]
    assert reduce(evolve, read, StepsView.begun_at("p", newest)) == fold(log)


@given(logs())
def test_what_is_left_can_be_replayed_from_the_oldest_checkpoint(log: list[LoggedStep]) -> None:
    view = fold(log)
    assert all(view.can_replay_after(one.step) for one in view.checkpoints)
    assert view.first == 1 or view.checkpoints
    gone = {one.record.key for one in log if isinstance(one.record, Tombstone)}
    kept = [
        one.record.step
        for one in log
        if isinstance(one.record, StepBoundary) and key_of(one.record) not in gone
    ]
    assert kept == list(range(view.first, view.step + 1))


@given(logs())
def test_a_node_begins_only_where_all_later_steps_were_made_by_as_many(log: list[LoggedStep]) -> None:
    view = fold(log)
    sizes = {one.record.step: one.record.nodes for one in log if isinstance(one.record, StepBoundary)}
    there = [one.record for one in log if isinstance(one.record, StepBoundary)]
    known = resets_in(there)
    oldest = view.checkpoints[0].step if view.checkpoints else 0
    for step in range(view.step + 2):
        for nodes in (1, 2):
            later = [sizes[one] == nodes for one in range(step + 1, view.step + 1)]
            # Before a reset that lies before the oldest checkpoint nobody has to begin.
            behind = any(step < each.reset <= oldest for each in known) or void_by(known, step) is not None
            expected = step == view.step or (view.first - 1 <= step < view.step and all(later) and not behind)
            assert view.can_begin_at(step, nodes) == expected, (step, nodes)


@given(logs())
def test_a_fold_with_resets_is_that_of_the_steps_that_are_not_void_but_for_their_numbers(
    log: list[LoggedStep],
) -> None:
    """Void steps never were: neither for who reads on, nor for what is saved, nor for who begins where."""
    there = [one.record for one in log if isinstance(one.record, StepBoundary)]
    left = kept(there)
    number = {one.step: at for at, one in enumerate(left, 1)}
    plain: list[StepRecord] = []
    for one in left:
        plain.append(replace(one, step=number[one.step]))
        plain += [
            replace(each.record, step=number[one.step])
            for each in log
            if isinstance(each.record, Checkpoint) and each.record.step == one.step
        ]
    with_resets, without = fold(log), fold([LoggedStep(at, one) for at, one in enumerate(plain)])
    assert with_resets.next_from == without.next_from
    assert number.get(with_resets.made_by(with_resets.step), 0) == without.step
    for one in with_resets.checkpoints:
        assert number[one.step] in {each.step for each in without.checkpoints}
    for one in left:
        if with_resets.can_begin_at(one.step, one.nodes):
            assert without.can_begin_at(number[one.step], one.nodes)

"""The log of steps, compacted in any way that a cleaner may choose, folds to what the whole log folds to."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from hypothesis import given
from hypothesis import strategies as st

from kcontrol.core.coordinator.checkpointing import making_room
from kcontrol.core.log.keys import key_of
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import Checkpoint, CheckpointSpec, LoggedStep, StepBoundary, StepRecord, Tombstone
from tests.unit.core.made import LIMITS, boundary, checkpoint


def fold(log: list[LoggedStep]) -> StepsView:
    return reduce(evolve, log, StepsView("p"))


@st.composite
def logs(draw: st.DrawFn) -> list[LoggedStep]:
    """Steps, checkpoints of any of them in their order, and what each makes needless."""
    policy = CheckpointSpec("file:///c", 1, draw(st.integers(1, 3)), draw(st.integers(-1, 4)))
    limits = replace(LIMITS, max_forgotten=draw(st.integers(1, 5)))
    log: list[LoggedStep] = []
    view, step, nodes = StepsView("p"), 0, 1
    offsets: dict[int, int] = {}

    def append(record: StepRecord | Tombstone) -> None:
        nonlocal view
        log.append(LoggedStep(len(log), record))
        view = evolve(view, log[-1])

    for saves in draw(st.lists(st.booleans(), min_size=1, max_size=25)):
        if not saves or view.checkpoint == step:
            step += 1
            nodes = draw(st.sampled_from((nodes, nodes, nodes, 1, 2)))
            offsets[step] = len(log)
            append(boundary(step, (4 + step, step - 1), (5 + step, step), nodes=nodes))
            continue
        saved = draw(st.integers(view.checkpoint + 1, step))
        made = replace(checkpoint(saved, 2), boundary_offset=offsets[saved])
        made, gone = making_room(view, made, policy, limits)
        append(made)
        for key in gone:
            append(Tombstone(key))
    return log


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
    for step in range(view.step + 2):
        for nodes in (1, 2):
            later = [sizes[one] == nodes for one in range(step + 1, view.step + 1)]
            expected = step == view.step or (view.first - 1 <= step < view.step and all(later))
            assert view.can_begin_at(step, nodes) == expected, (step, nodes)

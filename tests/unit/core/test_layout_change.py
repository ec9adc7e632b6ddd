"""A layout that was changed: as a record of the log of steps, in definitions, and for coordinators and nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.coordinator.checkpointing import saved_checkpoint
from kcontrol.core.coordinator.parts.checkpoint import Saving
from kcontrol.core.coordinator.table import State
from kcontrol.core.events import (
    EndsReached,
    EngineOpened,
    Exit,
    Joined,
    OpenEngine,
    RunStep,
    TransactionFailed,
)
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import (
    Assignment,
    CheckpointSpec,
    Claim,
    Command,
    CommandKind,
    FailureKind,
    LoggedStep,
    NodePhase,
    NodeState,
    PartitionNodes,
    PipelineSpec,
    Resume,
    StepRecord,
)
from kcontrol.core.step.assignment import owners_of, saved_owners
from kcontrol.core.step.layout import writers_of
from kcontrol.core.step.layout_change import (
    LayoutChange,
    as_made,
    assigned,
    assigned_fingerprint,
    changed,
    refused_change,
    refused_live,
)
from kcontrol.errors import DamagedRecordError
from tests.unit.core.drive import CoordinatorDriver, NodeDriver, only, published
from tests.unit.core.made import SPEC, boundary, checkpoint
from tests.unit.core.staged import STAGED

SAVED = replace(STAGED, checkpoint=CheckpointSpec("file:///c", 60_000, 2, -1))
FOUR = replace(
    SAVED,
    nodes=2,
    layout=replace(SAVED.layout, shuffle_partitions=6),
    inputs=(replace(SAVED.inputs[0], start_offsets=(0,) * 4, node_of=(0, 1, 0, 1)),),
    outputs=(replace(SAVED.outputs[0], partitions=3),),
)


def given(
    number: int = 1, step: int = 1, nodes: int = 2, owners: tuple[int, ...] = (1, 0, 1, 0)
) -> Assignment:
    """For the pipeline of `STAGED`."""
    inputs = (PartitionNodes("in", tuple((1 + p) % nodes for p in range(2))),)
    outputs = (PartitionNodes("out", (0,) * 2),)
    return Assignment("p", number, step, nodes, owners, inputs, outputs, 2, 9, "r", 1)


def folded(*records: StepRecord, view: StepsView | None = None) -> StepsView:
    """The records, one after the other."""
    view = StepsView("p") if view is None else view
    for offset, record in enumerate(records):
        view = evolve(view, LoggedStep(offset, record))
    return view


# --- the log ------------------------------------------------------------------------------------------------


def test_the_newest_assignment_counts_for_the_steps_after_it() -> None:
    """H1."""
    first, second = given(1, 1), given(2, 2)
    view = folded(
        boundary(1, nodes=2),
        first,
        boundary(2, (6, 1), (7, 2), nodes=2),
        second,
        boundary(3, (7, 2), (8, 3), nodes=2),
    )
    assert view.assignment == second
    assert [view.assignment_of(step) for step in (1, 2, 3, 4)] == [None, first, second, second]


def test_nobody_begins_before_an_assignment_and_goes_on_after_it() -> None:
    """H6, also where the number of nodes is as it was."""
    view = folded(boundary(1, nodes=2), boundary(2, (6, 1), (7, 2), nodes=2), given(1, 2))
    after = folded(boundary(3, (7, 2), (8, 3), nodes=2), view=view)
    assert [step for step in range(4) if after.can_begin_at(step, 2)] == [2, 3]
    assert [step for step in range(3) if view.can_begin_at(step, 2)] == [2]


def test_a_reader_that_begins_at_a_checkpoint_knows_what_one_from_the_beginning_knows() -> None:
    first, second = given(1, 1), given(2, 3)
    saved = replace(checkpoint(2, 2), assignment=first, first_step=2, resized_step=0)
    rest = (boundary(3, (7, 2), (8, 3), nodes=2), second)
    whole = folded(boundary(1, nodes=2), first, boundary(2, (6, 1), (7, 2), nodes=2), saved, *rest)
    later = StepsView.begun_at("p", saved)
    later = folded(first, boundary(2, (6, 1), (7, 2), nodes=2), saved, *rest, view=later)
    assert (later.assignment, later.resized) == (whole.assignment, whole.resized) == (second, 3)


def test_a_reader_that_begins_before_a_change_of_nodes_reads_the_steps_of_those_before() -> None:
    """More checkpoints are kept than were made since the change, so reading begins at one of other nodes."""
    change = given(2, 3, nodes=2)
    newest = replace(checkpoint(4, 2), assignment=change, first_step=1, resized_step=3)
    records = (
        boundary(1, nodes=1),
        replace(checkpoint(1, 1), first_step=1),
        boundary(2, (6, 1), (7, 2), nodes=1),
        boundary(3, (7, 2), (8, 3), nodes=1),
        replace(checkpoint(3, 1), first_step=1),
        change,
        boundary(4, (8, 3), (9, 4), nodes=2),
        newest,
    )
    late = folded(*records, view=StepsView.begun_at("p", newest))
    assert (late.step, late.assignment, late.resized) == (4, change, 3)
    assert late.checkpoints == folded(*records).checkpoints


def test_an_assignment_of_another_step_or_a_step_of_other_nodes_is_no_log_of_ours() -> None:
    with pytest.raises(DamagedRecordError, match="assignment 1, made for what follows step 7, after step 1"):
        folded(boundary(1, nodes=2), given(1, 7))
    with pytest.raises(DamagedRecordError, match="made by 1 nodes, but by assignment 1 there are 2"):
        folded(boundary(1, nodes=2), given(1, 1), boundary(2, (6, 1), (7, 2), nodes=1))


def test_an_assignment_that_followed_a_void_step_is_void() -> None:
    view = folded(
        boundary(1, nodes=2),
        boundary(2, (6, 1), (7, 2), nodes=2),
        given(1, 2),
        boundary(2, (6, 1), (8, 2), nodes=2),
    )
    assert (view.assignment, view.doubles[0].step) == (None, 2)


# --- what moves ---------------------------------------------------------------------------------------------


def test_one_node_more_takes_its_share_and_nothing_else_moves() -> None:
    change = changed(FOUR, 3)
    assert [(move.shard, move.from_, move.to) for move in change.moves] == [(4, 0, 2), (5, 1, 2)]
    assert change.owners == (0, 1, 0, 1, 2, 2)
    assert change.inputs == (PartitionNodes("in", (0, 1, 0, 2)),)
    assert (change.moved_inputs, change.moved_outputs, change.renumbered) == (1, 1, None)
    assert change.outputs == (PartitionNodes("out", (0, 1, 2)),)


def test_the_node_with_the_highest_number_takes_the_place_of_one_that_is_left_out() -> None:
    three = assigned(replace(FOUR, nodes=3), _as_record(changed(FOUR, 3)))
    change = changed(three, 2, without=0)
    assert [(move.shard, move.from_) for move in change.moves] == [(0, 0), (2, 0)]
    assert change.renumbered == (2, 0)
    # What node 2 had is still with it, under its new number; node 1 kept all that it had.
    assert [change.owners[shard] for shard in (4, 5)] == [0, 0]
    assert [change.owners[shard] for shard in (1, 3)] == [1, 1]
    assert sorted(change.owners) == [0, 0, 0, 1, 1, 1]


def test_an_output_with_as_many_partitions_as_an_input_goes_where_that_is_read() -> None:
    wide = replace(FOUR, outputs=(replace(FOUR.outputs[0], partitions=4),))
    change = changed(wide, 3)
    assert change.outputs[0].nodes == change.inputs[0].nodes


def _as_record(change: LayoutChange) -> Assignment:
    return Assignment(
        *("p", 1, 1, change.nodes, change.owners, change.inputs, change.outputs, len(change.moves), 0, "r", 1)
    )


@pytest.mark.parametrize(
    ("spec", "nodes", "without", "why"),
    [
        (FOUR, 7, None, "has 6 shards"),
        (FOUR, 2, None, "has nodes = 2 already"),
        (FOUR, 1, 5, "has no node 5: they are numbered from 0 to 1"),
        (replace(FOUR, exchanges=(), stateful=True), 5, None, "its inputs have at most 4 partitions"),
        (FOUR, 4, None, "topic 'output' of output 'out' has 3 partitions"),
        (replace(FOUR, kept_in_place=("q",)), 3, None, "query 'q' keeps state of the partitions"),
        (replace(FOUR, exchanges=(), stateful=False), 3, None, "so nothing is to be moved"),
        (replace(FOUR, inputs=(replace(FOUR.inputs[0], node=1),)), 1, None, "input 'in' is node 1's alone"),
    ],
)
def test_what_can_not_be_done_right_is_refused(
    spec: PipelineSpec, nodes: int, without: int | None, why: str
) -> None:
    assert why in refused_change(spec, spec, nodes, without)


def test_what_can_be_done_is_not_refused() -> None:
    assert refused_change(FOUR, FOUR, 3) == ""
    # A fifth node reads no input, as one that is there from the start may: rows come to it by the exchange.
    wide = replace(FOUR, outputs=(replace(FOUR.outputs[0], partitions=6),))
    assert refused_change(wide, wide, 5) == ""
    assert refused_change(FOUR, FOUR, 1, without=0) == ""


def test_without_state_it_is_changed_while_it_runs_or_once_it_was() -> None:
    free = replace(FOUR, exchanges=(), stateful=False, layout=replace(FOUR.layout, shuffle_partitions=2))
    assert "start it again" in refused_change(free, free, 3)
    for nodes in (1, 3):
        assert refused_live(free, nodes, 1) == "", "it has no shards that nodes could own"
        table = changed(free, nodes)
        made = Assignment("p", 1, 1, nodes, table.owners, table.inputs, table.outputs, 0, -1, "r", 1)
        since = as_made(free, nodes, made)
        assert refused_change(since, since, 2) == ""
        assert refused_live(since, 2, 1) == ""


# --- a definition -------------------------------------------------------------------------------------------


def test_a_definition_has_the_tables_of_its_assignment_and_a_fingerprint_of_its_own() -> None:
    spec = assigned(STAGED, given())
    assert (spec.assignment, owners_of(spec), spec.inputs[0].node_of) == (1, (1, 0, 1, 0), (1, 0))
    assert spec.fingerprint == assigned_fingerprint("f1", 1) not in ("f1", assigned_fingerprint("f1", 2))
    layout = replace(boundary(1).layout, outputs=())
    assert writers_of(spec, layout, 0) == ((),)
    assert as_made(spec, 2, given()) == spec
    before = as_made(spec, 2, None)
    assert (owners_of(before), before.inputs[0].node_of, before.outputs[0].node_of) == (
        owners_of(STAGED),
        (0, 1),
        (),
    )


def test_a_partition_that_was_added_since_is_dealt_out_in_turn() -> None:
    grown = replace(STAGED, inputs=(replace(STAGED.inputs[0], start_offsets=(0,) * 3, node_of=(0, 1, 0)),))
    assert assigned(grown, given()).inputs[0].node_of == (1, 0, 0)


def test_a_checkpoint_says_by_which_table_it_was_saved() -> None:
    assert saved_owners(checkpoint(1, 2), 4) == (0, 1, 0, 1)
    assert saved_owners(replace(checkpoint(1, 2), assignment=given()), 4) == (1, 0, 1, 0)
    driver = CoordinatorDriver(assigned(SAVED, given()))
    driver.see_step(boundary(1, nodes=2))
    driver.see_step(given())
    saving = Saving(1, 0, SAVED.checkpoint, (), 0, "")
    assert saved_checkpoint(driver.state, saving).assignment == given()


# --- coordinators and nodes ---------------------------------------------------------------------------------


def taken_over(spec: PipelineSpec) -> CoordinatorDriver:
    """A coordinator whose log has a step, its checkpoint, and a change of the layout over it."""
    driver = CoordinatorDriver(spec)
    driver.see_step(boundary(1, nodes=1))
    driver.see_step(checkpoint(1, 1))
    driver.see_step(given())
    driver.take_over()
    return driver


def test_a_definition_of_another_layout_makes_no_step() -> None:
    driver = taken_over(SPEC)
    driver.see(Resume("p", "r1"))
    driver.join()
    assert published(Command, driver.say(phase=NodePhase.CLOSED, openable=(1,), checkpoint=1)) == []
    assert "has 2 nodes and 4 shards since" in driver.status.reason
    submitted = assigned(replace(SAVED, compatible_with=("f1",)), given())
    assert published(Command, driver.see(submitted)) == []
    assert "node 0 has not joined by the newest definition, node 1 has not joined" in driver.status.reason
    driver.join()
    (command,) = published(Command, driver.say(phase=NodePhase.CLOSED, openable=(1,), checkpoint=1))
    assert (command.kind, command.step) == (CommandKind.OPEN, 1)


def test_a_definition_for_a_layout_that_the_log_does_not_have_halts() -> None:
    driver = CoordinatorDriver(assigned(SAVED, given()))
    driver.see_step(boundary(1, nodes=2))
    driver.take_over()
    assert driver.state.at is State.HALTED
    assert "its layout 1, which the log of steps, with 0 changes up to step 1" in driver.status.reason


def test_a_coordinator_that_rested_meanwhile_reads_of_the_change_before_it_halts() -> None:
    """Seed 9201 of chaos: it had recorded the last checkpoint, so that it took what it had read for the end of the log."""
    driver = CoordinatorDriver(replace(SAVED, nodes=1, exchanges=(), stages=()))
    driver.see_step(boundary(1, nodes=1))
    driver.see_step(checkpoint(1, 1))
    driver.take_over()
    driver.state.transaction = driver.state.transaction.acknowledged()
    driver.proves = False
    driver.see(assigned(replace(SAVED, compatible_with=("f1",)), given()))
    assert (driver.state.at, driver.state.trouble.halt) == (State.PROVING, "")
    driver.feed(TransactionFailed(FailureKind.FENCED, "by the command", driver.log.now_ms))
    (again,) = published(Claim, driver.feed(EndsReached(driver.log.steps_end, driver.log.now_ms)))
    driver.see(again)
    driver.see_step(given())
    driver.ready()
    assert (driver.state.at, driver.state.trouble.halt) == (State.ASSEMBLING, "")


def test_nodes_of_a_new_layout_begin_at_the_checkpoint_that_it_was_made_over() -> None:
    driver = taken_over(assigned(replace(SAVED, compatible_with=("f1",)), given()))
    for number in (0, 1):
        driver.join(number)
        (command,) = published(
            Command, driver.say(number, phase=NodePhase.CLOSED, openable=(1,), checkpoint=1)
        )
        assert (command.kind, command.step) == (CommandKind.OPEN, 1)


def test_a_node_opens_a_checkpoint_without_a_part_of_its_own_if_it_was_handed_over() -> None:
    driver = NodeDriver(assigned(SAVED, given()))
    part = checkpoint(1, 2).parts[1 - driver.state.node]
    handed = replace(checkpoint(1, 1), parts=(part,))
    driver.see_step(boundary(1, nodes=1))
    driver.see_step(handed)
    driver.see_step(given())
    effects = driver.feed(Joined(driver.incarnation, (), driver.log.now_ms, driver.log.wall_ms, (1,)))
    assert published(NodeState, effects)[-1].openable == (1,)
    assert only(OpenEngine, driver.command(CommandKind.OPEN, 1)).checkpoint == handed


def test_a_node_does_not_run_again_what_was_made_by_another_layout() -> None:
    """The log of steps may tell it of the change before the control log does."""
    driver = NodeDriver(STAGED)
    driver.see_step(boundary(1, nodes=2))
    driver.joined(1)
    driver.command(CommandKind.OPEN, 1)
    driver.see_step(given())
    driver.see_step(boundary(2, (6, 1), (7, 2), nodes=2))
    effects = driver.feed(EngineOpened(1, driver.log.now_ms))
    assert [each for each in effects if isinstance(each, RunStep)] == []
    assert "before or after the layout was changed" in only(Exit, effects).reason


def test_a_node_ends_when_its_pipeline_is_submitted_with_another_layout() -> None:
    driver = NodeDriver(STAGED)
    driver.joined()
    driver.see_step(boundary(1, nodes=2))
    driver.see_step(given())
    assert not only(Exit, driver.see(assigned(STAGED, given()))).relaid

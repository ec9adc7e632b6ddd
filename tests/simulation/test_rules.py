"""Each rule of the protocol that lives in the core, switched off: the simulator must then
find what the rule is there for.

A rule whose absence goes unnoticed is either not needed or not tested; both would be worth knowing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from kcontrol.core.coordinator import (
    attempt,
    between_steps,
    checkpointing,
    node_progress,
    stopping,
    takeover,
    without_steps,
)
from kcontrol.core.coordinator import decide as coordinator
from kcontrol.core.coordinator import standing as standings
from kcontrol.core.coordinator.parts.checkpoint import Saving
from kcontrol.core.coordinator.parts.current import Plan
from kcontrol.core.coordinator.standing import Readiness, Standing
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.table import TABLE, Cause, State
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import DropParts, EngineFailed, FinishStep, Resign
from kcontrol.core.log import control_view
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import (
    Checkpoint,
    CheckpointSpec,
    Command,
    CommandKind,
    FailureKind,
    Layout,
    LimitsSpec,
    PipelineSpec,
    StepBoundary,
    Written,
)
from kcontrol.core.node import announce as node_voice
from kcontrol.core.node import checkpoints as node_checkpoints
from kcontrol.core.node import commands as node_commands
from kcontrol.core.node import decide as node
from kcontrol.core.node.table import NodeCause as NodeCause
from kcontrol.core.node.table import NodeStage as NodeState
from kcontrol.core.node.turn import NodeTurn
from kcontrol.core.step import division
from tests.simulation import world
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.engine import SimulatedEngine
from tests.simulation.faults import number_of_nodes_changed, user_asks
from tests.simulation.invariants import AWAKE, OPENABLE, ZOMBIE
from tests.simulation.states import PARTS
from tests.simulation.witness import CoordinatorWitness


def _no_reading_after_init_producer() -> Patches:
    """And without the look at where a boundary came to lie, which would notice by itself."""
    blind = patch.object(CoordinatorWitness, "check", lambda self, effect, after, resigned: None)
    anywhere = patch.object(world, "lies_at_the_end", lambda offset, expected_offset: True)
    return blind, anywhere, patch.dict(TABLE, {(State.FENCING, Cause.PRODUCER_READY): State.ASSEMBLING})


def _bare_init_producer_after_fencing() -> Patches:
    causes = (Cause.FENCED, Cause.FENCED_AGAIN)
    return (patch.dict(TABLE, {row: State.FENCING for row in TABLE if row[1] in causes}),)


def _zombies_fence_and_go_on() -> Patches:
    """Although they have read that somebody else is in charge, and their nodes may have."""
    causes = (Cause.FENCED, Cause.FENCED_AGAIN)
    return (
        patch.object(CoordinatorWitness, "check", lambda self, effect, after, resigned: None),
        patch.dict(TABLE, {row: State.FENCING for row in TABLE if row[1] in causes}),
        *_no_resignation(),
        *_states_need_no_echo(),
    )


def _the_boundary_says_something_else_than_the_plan() -> Patches:
    right = attempt.boundary_of

    def boundary_of(*given: Any) -> StepBoundary:
        made = right(*given)
        return replace(made, now_ms=made.now_ms + 1)

    return (patch.object(coordinator, "boundary_of", boundary_of),)


def _no_resignation() -> Patches:
    return (patch.object(coordinator, "_resign", lambda turn, claim: None),)


def _no_new_claim_after_fencing() -> Patches:
    return (patch.dict(TABLE, {(State.CHECKING_CLAIM, Cause.CLAIM_HOLDS): State.FENCING}),)


def _any_token_counts() -> Patches:
    def written_by(state: CoordinatorState, current: attempt.Attempt, number: int) -> Written | None:
        written = state.view.written(number)
        return written if written is not None and written.step == current.works[number].step else None

    return patch.object(coordinator, "written_by", written_by), patch.object(
        attempt, "written_by", written_by
    )


def _commands_of_old_coordinators_count() -> Patches:
    def command(self: PipelineView, number: int) -> Command | None:
        found = [
            one
            for one in self.latest.values()
            if isinstance(one.record, Command) and one.record.node == number
        ]
        record = max(found, key=lambda one: one.offset).record if found else None
        assert record is None or isinstance(record, Command)
        return record

    return (patch.object(PipelineView, "command", command),)


def _any_boundary_ends_an_attempt() -> Patches:
    def on_boundary(turn: NodeTurn, boundary: Any, work: Any) -> None:
        if turn.state.at is NodeState.WRITTEN:
            turn.go(NodeCause.OWN_BOUNDARY, FinishStep(boundary.step))

    return (patch.object(node, "_on_boundary", on_boundary),)


def _with_standing(
    change: Callable[[CoordinatorState, int, LimitsSpec, Standing], Standing],
) -> Patches:
    right = standings.standing

    def standing(state: CoordinatorState, number: int, limits: LimitsSpec) -> Standing:
        return change(state, number, limits, right(state, number, limits))

    users = (standings, node_progress, without_steps)
    return tuple(patch.object(each, "standing", standing) for each in users)


def _states_need_no_echo() -> Patches:
    def change(state: CoordinatorState, number: int, limits: LimitsSpec, found: Standing) -> Standing:
        said = state.view.node_state(number)
        return (
            found
            if found.place is not Readiness.UNAWARE or said is None
            else standings._at_rest(state, said, limits)
        )

    return _with_standing(change)


def _no_rollback_of_what_was_not_committed() -> Patches:
    def change(state: CoordinatorState, number: int, limits: LimitsSpec, found: Standing) -> Standing:
        return standings._IN_PLACE if found.place is Readiness.DANGLING else found

    return _with_standing(change)


def _restarted_nodes_go_unnoticed() -> Patches:
    right = attempt.trouble

    def trouble(state: CoordinatorState, plan: Plan, current: attempt.Attempt, limits: LimitsSpec) -> Any:
        found = right(state, plan, current, limits)
        return None if found is not None and "restarted" in found[1] else found

    return (patch.object(coordinator, "trouble", trouble),)


def _time_may_stand_still() -> Patches:
    right = attempt.make_plan

    def make_plan(state: CoordinatorState, *rest: Any) -> Plan:
        return replace(right(state, *rest), now_ms=state.wall(state.now_ms))

    return (patch.object(between_steps, "make_plan", make_plan),)


def _two_writers_of_a_partition() -> Patches:
    def writers_of(spec: PipelineSpec, cut: Layout, number: int) -> tuple[tuple[int, ...], ...]:
        return tuple(tuple(range(output.partitions)) for output in spec.outputs)

    return (patch.object(attempt, "writers_of", writers_of),)


def _input_is_read_from_the_start() -> Patches:
    right = division.received_ranges

    def received_ranges(spec: PipelineSpec, steps: StepsView, view: PipelineView) -> Any:
        return right(spec, StepsView(steps.pipeline), view)

    return (patch.object(between_steps, "received_ranges", received_ranges),)


def _the_newest_claim_is_forgotten() -> Patches:
    def superseded_keys(view: PipelineView) -> tuple[str, ...]:
        return (*control_view.superseded_keys(view), *(key for key in view.latest if "/claim/" in key))

    return (patch.object(takeover, "superseded_keys", superseded_keys),)


def _replays_are_not_needed() -> Patches:
    return (patch.object(node, "_replay", lambda turn: None),)


def _later_steps_stay_openable_after_a_rollback() -> Patches:
    """And an engine that fails can't tell what its directory holds: if it can, it mends what the node
    believes."""
    right, failed = node_commands.open_at, SimulatedEngine._failed

    def open_(turn: NodeTurn, cause: NodeCause, step: int, create: bool) -> None:
        openable = turn.state.openable
        right(turn, cause, step, create)
        turn.state.openable = openable

    def untold(self: SimulatedEngine, kind: FailureKind, error: str) -> EngineFailed:
        return replace(failed(self, kind, error), openable=None)

    opens = (patch.object(module, "open_at", open_) for module in (node, node_commands))
    return *opens, patch.object(SimulatedEngine, "_failed", untold)


def _answers_of_an_earlier_tenure_count() -> Patches:
    def resign(turn: Turn, claim: Any) -> None:
        turn.go(Cause.NEWER_CLAIM, Resign(""))

    return (patch.object(coordinator, "_resign", resign),)


def _nodes_that_are_behind_are_in_place() -> Patches:
    def change(state: CoordinatorState, number: int, limits: LimitsSpec, found: Standing) -> Standing:
        return standings._IN_PLACE if found.what[:1] == ("replay",) else found

    return _with_standing(change)


def _a_checkpoint_needs_no_parts() -> Patches:
    def is_saved(state: CoordinatorState) -> bool:
        return state.checkpointing.saving is not None and state.checkpointing.saving.pinned

    return (patch.object(checkpointing, "is_saved", is_saved),)


def _parts_of_other_checkpoints_count() -> Patches:
    def part(state: CoordinatorState, saving: Saving, number: int) -> Any:
        return state.view.checkpoint_part(number)

    return (patch.object(checkpointing, "_part", part),)


def _steps_are_dropped_that_a_checkpoint_needs() -> Patches:
    def making_room(
        steps: StepsView, made: Checkpoint, policy: CheckpointSpec, limits: LimitsSpec
    ) -> tuple[Checkpoint, tuple[str, ...]]:
        return made, tuple(f"step/{step}" for step in range(steps.first, steps.step - policy.keep_steps + 1))

    return (patch.object(checkpointing, "making_room", making_room),)


def _a_step_may_be_saved_twice() -> Patches:
    return (patch.object(checkpointing, "on_recorded", lambda state, made: None),)


def _requests_are_answered_by_the_newest_checkpoint() -> Patches:
    def answer_request(turn: Turn, spec: PipelineSpec) -> None:
        request = checkpointing.pending_request(turn.state)
        if request is not None and turn.state.steps.checkpoint:
            checkpointing._answer(turn.state, request.request_id, turn.state.steps.checkpoint, "")

    return (patch.object(checkpointing, "answer_request", answer_request),)


def _files_are_dropped_before_their_checkpoint() -> Patches:
    def drop_parts(turn: NodeTurn) -> None:
        if turn.state.steps.checkpoints:
            turn.effects.append(DropParts(turn.state.steps.checkpoints[-1:]))

    return patch.object(node_checkpoints, "drop_parts", drop_parts), patch.object(
        node, "drop_parts", drop_parts
    )


def _checkpoints_are_not_openable() -> Patches:
    return (patch.object(node_voice, "all_openable", lambda state: state.openable),)


def _a_node_runs_on_by_a_definition_that_was_replaced() -> Patches:
    def go_on(turn: NodeTurn, reason: str) -> None:
        if "runs elsewhere" in reason or "by command" in reason:
            right(turn, reason)

    right = node_commands.end
    ends = (patch.object(module, "end", go_on) for module in (node, node_commands))
    return *ends, *_a_node_runs_again_what_another_number_made()


def _a_node_runs_again_what_another_number_made() -> Patches:
    return (patch.object(node, "can_rerun", lambda boundary, spec, steps: True),)


def _steps_of_another_size_are_run_again() -> Patches:
    def can_begin_at(self: StepsView, step: int, nodes: int) -> bool:
        return self.can_replay_after(step)

    return patch.object(
        StepsView, "can_begin_at", can_begin_at
    ), *_a_node_runs_again_what_another_number_made()


def _state_is_not_needed() -> Patches:
    right = node_progress._open

    def open_(turn: Turn, number: int) -> list[Command]:
        said = turn.state.view.node_state(number)
        if said is not None and said.openable:
            return right(turn, number)
        return [node_progress.give(turn, number, CommandKind.CREATE, turn.state.steps.step)]

    return (patch.object(node_progress, "_open", open_),)


def _state_is_needed_by_all() -> Patches:
    right = node_progress._open

    def open_(turn: Turn, number: int) -> list[Command]:
        commands = right(turn, number)
        steps = turn.state.steps
        if all(one.kind is CommandKind.OPEN or steps.can_begin_at(0, 0) for one in commands):
            return commands
        if steps.can_replay_after(0):
            return [node_progress.give(turn, number, CommandKind.CREATE, 0)]
        turn.state.trouble = turn.state.trouble.halted(node_progress._nothing_to_open(turn.state, number, ()))
        return []

    return (patch.object(node_progress, "_open", open_),)


def _who_begins_at_a_checkpoint_forgets_what_was_before() -> Patches:
    return (patch.object(StepsView, "begun_at", staticmethod(lambda pipeline, newest: StepsView(pipeline))),)


def _a_stop_saves_nothing() -> Patches:
    return (patch.object(stopping, "saves_first", lambda turn, spec: False),)


_ASKED = "a step is asked only of a node that echoes the claim and has nothing in flight"
_OPENABLE = OPENABLE
_SIZE = "a step is run again only by as many nodes as made it"
_PROGRESS = "without faults the pipeline makes progress"
_ONCE = "every input record is in exactly one committed step or in a recorded skip"
RULES = (
    Rule(_no_reading_after_init_producer, "no two committed attempts", 918),
    Rule(
        _bare_init_producer_after_fencing,
        "a fencing error is followed by reading and a claim, not by InitProducer",
        580,
    ),
    Rule(
        _no_new_claim_after_fencing,
        "a fencing error is followed by reading and a claim, not by InitProducer",
        580,
    ),
    Rule(_no_resignation, _PROGRESS, 1000),
    Rule(_zombies_fence_and_go_on, ZOMBIE, 10728),
    Rule(_the_boundary_says_something_else_than_the_plan, "one division per committed step"),
    Rule(_any_token_counts, "a step is whole: what was written is what its boundary says", 60),
    Rule(_commands_of_old_coordinators_count, "a node obeys the newest coordinator that it knows of", 330),
    Rule(_any_boundary_ends_an_attempt, "a node keeps only the attempt that the boundary names", 530),
    Rule(_states_need_no_echo, _ASKED, 18),
    Rule(_no_rollback_of_what_was_not_committed, _ASKED, 65),
    Rule(_restarted_nodes_go_unnoticed, AWAKE, 16),
    Rule(_time_may_stand_still, "time strictly grows", 75),
    Rule(_two_writers_of_a_partition, "one writer a partition"),
    Rule(_input_is_read_from_the_start, _ONCE),
    Rule(_the_newest_claim_is_forgotten, _PROGRESS),
    Rule(_replays_are_not_needed, _PROGRESS, 19),
    Rule(_later_steps_stay_openable_after_a_rollback, _PROGRESS, 970),
    Rule(_answers_of_an_earlier_tenure_count, "no event is unexpected", 630),
    Rule(_nodes_that_are_behind_are_in_place, "nobody beyond the slowest by more than one step", 800),
    Rule(_no_reading_after_init_producer, "checkpoint monotone", 252),
    Rule(_a_checkpoint_needs_no_parts, PARTS),
    Rule(_parts_of_other_checkpoints_count, PARTS),
    Rule(_steps_are_dropped_that_a_checkpoint_needs, "retained steps cover the oldest checkpoint"),
    Rule(_a_step_may_be_saved_twice, "checkpoint monotone"),
    Rule(
        _requests_are_answered_by_the_newest_checkpoint,
        "what was committed when a checkpoint was asked for is saved when the request is answered",
    ),
    Rule(_files_are_dropped_before_their_checkpoint, "the files of a checkpoint in the log are there"),
    Rule(_checkpoints_are_not_openable, _OPENABLE, 380),
    Rule(_a_node_runs_on_by_a_definition_that_was_replaced, _SIZE, 3512),
    Rule(_a_node_runs_again_what_another_number_made, _SIZE, 2470, (number_of_nodes_changed,)),
    Rule(_steps_of_another_size_are_run_again, _SIZE, 568),
    Rule(_state_is_not_needed, "state is never left out", 28),
    Rule(_state_is_needed_by_all, _OPENABLE, 190),
    Rule(
        _who_begins_at_a_checkpoint_forgets_what_was_before,
        "whoever begins at a checkpoint knows all that counts",
        80,
    ),
    Rule(_a_stop_saves_nothing, "a stop saves the last step, or says why not", 885, likely=(user_asks,)),
)


PROMISED = (
    "one division per committed step",
    "no two committed attempts",
    "nobody beyond the slowest by more than one step",
    "checkpoint monotone",
    "retained steps cover the oldest checkpoint",
    ZOMBIE,
)
"""What kcontrol promises of its simulation, in these words."""


def test_every_promised_invariant_is_seen_to_be_checked() -> None:
    assert set(PROMISED) <= {rule.invariant for rule in RULES}


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_an_invariant_breaks(rule: Rule) -> None:
    check_breaks(rule)

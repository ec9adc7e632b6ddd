"""The next step is told to the nodes before the last one is known to be committed.

What a step is made of, if it takes as much input as it may, is known before the last one is committed: its input, its layout,
who takes part in it, and, where Kafka gives each transaction an epoch of its own, under which. So nodes are given the command
while the commit is under way, or while they still make the one before. They read and compute by it, and write nothing before
they have read the boundary of the step before: see docs/decisions/192-told-while-committed.md.
"""

from __future__ import annotations

from kcontrol.core.coordinator.attempt import boundary_of
from kcontrol.core.coordinator.between_steps import rest
from kcontrol.core.coordinator.node_progress import give
from kcontrol.core.coordinator.parts.current import ToldStep
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.table import Cause, State
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import AddPartitions, CommitStep, Publish, StepCommitted, Tick, WakeAt
from kcontrol.core.log import steps_view
from kcontrol.core.machine import Look
from kcontrol.core.model import CommandKind, LoggedStep
from kcontrol.core.step.division import offsets_in
from kcontrol.core.step.exchange import stages_of

SHORT_MS = 2_000
"""Steps that take no longer are short."""
LAST_EPOCH = 32_000
"""Beyond it, long before the epochs of a producer id are used up, the next one is not guessed."""
LOOKING_ON = (State.ATTEMPTING, State.COMMITTING)
"""Where others are at work, and what comes next is looked at on each tick."""
_TAKEN_NOTE_OF = ("asked", "holding", "stop", "checkpointing", "changing", "balancing", "trouble")
"""Parts of the state by which one sees that a look was for more than the next step."""


def tell_next(turn: Turn) -> None:
    """Give nodes the command for the step that follows the one under way, if nothing but that would be decided once this one is
    committed, and if it can't hold more: else what comes until then would have to wait for the step after it.

    While this one is still being made they are told only where steps are short: what a user wishes for then waits for one step
    more. All must have said that they are at it, or the look would find them behind: of two
    commands a node knows the newer.
    """
    state, current = turn.state, turn.state.current
    if current.told is not None or not state.transaction.followed:
        return
    if state.at is State.ATTEMPTING and not _are_short(state):
        return
    told = _foreseen(state)
    if told is None or not _is_full(told):
        return
    state.current = state.current.telling(told)
    commands = (
        give(turn, node, CommandKind.STEP, told.plan.step, work) for node, work in enumerate(told.works)
    )
    turn.effects.append(Publish(tuple(commands)))


def _are_short(state: CoordinatorState) -> bool:
    return 0 <= state.current.took_ms <= SHORT_MS


def _is_full(told: ToldStep) -> bool:
    return offsets_in(told.plan.division) >= told.plan.spec.policy.max_records


def _foreseen(state: CoordinatorState) -> ToldStep | None:
    """What would be told if all had written by now, and the commit were answered; None: nothing, or more than that."""
    producer_id, epoch = state.transaction.owner()
    spec, plan, attempt = state.view.spec(), state.current.plan, state.current.attempt
    if spec is None or plan is None or attempt is None or stages_of(spec) > 1 or epoch >= LAST_EPOCH:
        return None
    boundary = boundary_of(state, plan, attempt, ())
    turn = Turn(state.copy(), Tick)
    after = turn.state
    if after.at is State.ATTEMPTING:
        turn.go(Cause.ALL_WRITTEN, CommitStep(producer_id, epoch, boundary, state.transaction.steps_end))
        turn.effects.clear()
    turn.occasion = StepCommitted
    after.transaction = after.transaction.acknowledged().following(
        producer_id, epoch + 1, state.transaction.steps_end
    )
    turn.go(Cause.FOLLOWED)
    offset = max(state.transaction.steps_end, after.steps.last_offset + 1)
    after.steps = steps_view.evolve(after.steps, LoggedStep(offset, boundary))
    after.current, after.trouble = after.current.aborted().over(), after.trouble.progressed()
    after.arrivals = after.arrivals.committed(after.steps.next_from)
    before = after.copy()
    turn.occasion = Look
    rest(turn)
    current = after.current
    if after.at is not State.ADDING or current.attempt is None or current.plan is None:
        return None
    if _is_more_than_that(turn, before):
        return None
    return ToldStep(current.plan, current.attempt.works, state.now_ms, state.nodes.commands)


def _is_more_than_that(turn: Turn, before: CoordinatorState) -> bool:
    said = [each for each in turn.effects if not isinstance(each, WakeAt | AddPartitions)]
    return len(said) != 1 or any(
        getattr(before, part) != getattr(turn.state, part) for part in _TAKEN_NOTE_OF
    )

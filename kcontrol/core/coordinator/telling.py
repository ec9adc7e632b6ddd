"""The next step is told to the nodes while the last one is being committed.

What a step is made of, but for the last one's being committed, is known as soon as that is written: its input, its layout, who
takes part in it, and, where Kafka gives each transaction an epoch of its own, under which. So nodes are given the command
then. They read and compute by it, and write nothing before they have read the boundary of the step before: see
docs/decisions/192-told-while-committed.md.
"""

from __future__ import annotations

from kcontrol.core.coordinator.between_steps import rest
from kcontrol.core.coordinator.node_progress import give
from kcontrol.core.coordinator.parts.current import ToldStep
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.table import Cause, State
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import AddPartitions, Publish, StepCommitted, WakeAt
from kcontrol.core.log import steps_view
from kcontrol.core.machine import Look
from kcontrol.core.model import CommandKind, LoggedStep, StepBoundary
from kcontrol.core.step.exchange import stages_of

LAST_EPOCH = 32_000
"""Beyond it, long before the epochs of a producer id are used up, the next one is not guessed."""
_TAKEN_NOTE_OF = ("asked", "holding", "stop", "checkpointing", "changing", "balancing", "trouble", "shown")
"""Parts of the state by which one sees that a look was for more than the next step."""


def tell_next(turn: Turn, boundary: StepBoundary) -> None:
    """Give nodes the command for the step that follows, if nothing but its number would be decided once the boundary is
    committed."""
    state = turn.state
    if state.current.told is not None or not state.transaction.followed:
        return
    told = _foreseen(state, boundary)
    if told is None:
        return
    state.current = state.current.telling(told)
    commands = (
        give(turn, node, CommandKind.STEP, told.plan.step, work) for node, work in enumerate(told.works)
    )
    turn.effects.append(Publish(tuple(commands)))


def _foreseen(state: CoordinatorState, boundary: StepBoundary) -> ToldStep | None:
    """What would be told if the commit were answered now; None: nothing, or more than that."""
    producer_id, epoch = state.transaction.owner()
    spec = state.view.spec()
    if spec is None or stages_of(spec) > 1 or epoch >= LAST_EPOCH:
        return None
    turn = Turn(state.copy(), StepCommitted)
    after = turn.state
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
    attempt, plan = after.current.attempt, after.current.plan
    if after.at is not State.ADDING or attempt is None or plan is None or _is_more_than_that(turn, before):
        return None
    return ToldStep(plan, attempt.works, state.now_ms)


def _is_more_than_that(turn: Turn, before: CoordinatorState) -> bool:
    said = [each for each in turn.effects if not isinstance(each, WakeAt | AddPartitions)]
    return len(said) != 1 or any(
        getattr(before, part) != getattr(turn.state, part) for part in _TAKEN_NOTE_OF
    )

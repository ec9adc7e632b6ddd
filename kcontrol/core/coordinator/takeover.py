"""What a coordinator does once with what its predecessors left."""

from __future__ import annotations

from kcontrol.core.coordinator import checkpointing
from kcontrol.core.coordinator.state import Failure
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import Publish
from kcontrol.core.log.control_view import superseded_keys
from kcontrol.core.model import FailureKind, PipelinePhase

_SHOWN_DOUBLES = 3


def take_over(turn: Turn) -> None:
    """Their commands go; their halt and what they acknowledged stays."""
    state = turn.state
    state.cleared = True
    gone = superseded_keys(state.view)
    if gone:
        turn.effects.append(Publish((), gone))
    if state.inherited:
        return
    state.inherited = True
    checkpointing.start_timer(state)
    left = state.view.status()
    if left is not None:
        state.acknowledged = left.acknowledged
        state.answers = left.answers
        state.saving_failure = left.checkpoint_failure
        state.halt = left.reason if left.phase is PipelinePhase.HALTED else ""
        state.unsaved = left.reason if left.phase is PipelinePhase.STOPPED else ""


def refuse_doubles(turn: Turn) -> None:
    """What readers have seen twice no coordinator can take back: a person has to know of it before more rests on it."""
    state = turn.state
    which = ", ".join(f"{one.kind} {one.step} again at offset {one.offset}" for one in state.steps.doubles[:_SHOWN_DOUBLES])
    more = len(state.steps.doubles) - _SHOWN_DOUBLES
    state.halt = (
        f"the log of steps ({state.steps_topic}) records {which}{f' and {more} more' if more > 0 else ''}: what these steps "
        f"wrote is in the outputs more than once. `kcontrol repair {state.pipeline}` lists it by offset, and says how to go on"
    )
    state.failure = Failure(FailureKind.BROKER, state.halt)
    state.caught_up_ms = -1

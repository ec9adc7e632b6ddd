"""What a coordinator does once with what its predecessors left."""

from __future__ import annotations

from kcontrol.core.coordinator import checkpointing
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import Publish
from kcontrol.core.log.control_view import superseded_keys
from kcontrol.core.model import FailureKind, PipelinePhase

_SHOWN_DOUBLES = 3


def take_over(turn: Turn) -> None:
    """Their commands go; their halt and what they acknowledged stays."""
    state = turn.state
    state.tenure = state.tenure.cleared_up()
    gone = superseded_keys(state.view)
    if gone:
        turn.effects.append(Publish((), gone))
    if state.tenure.inherited:
        return
    state.tenure = state.tenure.took_over()
    checkpointing.start_timer(state)
    left = state.view.status()
    if left is not None:
        state.asked = state.asked.inherited(left.acknowledged, left.answers)
        state.checkpointing = state.checkpointing.inherited(left.checkpoint_failure)
        state.trouble = state.trouble.halted(left.reason if left.phase is PipelinePhase.HALTED else "")
        state.holding = state.holding.inherited(left.hold)
        if left.layout is not None:
            state.changing = state.changing.telling(left.layout)
        request = state.view.layout_request()
        if request is not None and state.view.hides_status():
            state.changing = state.changing.doubting(request.request_id)
        state.stop = state.stop.without(left.reason if left.phase is PipelinePhase.STOPPED else "")


def refuse_doubles(turn: Turn) -> None:
    """What readers have seen twice no coordinator can take back: a person has to know of it before more rests
    on it."""
    state = turn.state
    which = ", ".join(
        f"{one.kind} {one.step} again at offset {one.offset}" for one in state.steps.doubles[:_SHOWN_DOUBLES]
    )
    more = len(state.steps.doubles) - _SHOWN_DOUBLES
    text = (
        f"the log of steps ({state.steps_topic}) records {which}{f' and {more} more' if more > 0 else ''}: "
        f"what these steps wrote is in the outputs more than once. `kcontrol repair {state.pipeline}` lists "
        "it by offset, and says how to go on"
    )
    state.trouble = state.trouble.refused(FailureKind.BROKER, text)
    state.hearing = state.hearing.deaf()

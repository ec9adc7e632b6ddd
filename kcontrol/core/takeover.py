"""What a coordinator does once with what its predecessors left."""

from __future__ import annotations

from kcontrol.core import checkpointing
from kcontrol.core.coordinator_state import Turn
from kcontrol.core.events import Publish
from kcontrol.core.model import PipelinePhase
from kcontrol.core.pipeline_view import superseded_keys


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

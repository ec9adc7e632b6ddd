"""Whether a pipeline can be deleted: not while anybody works for it."""

from __future__ import annotations

from kcontrol.core.model import DesiredMode, NodePhase, PipelinePhase
from kcontrol.runtime.durations import span_text
from kcontrol.runtime.life import life_of
from kcontrol.runtime.projection import PipelineProjection
from kcontrol.runtime.requests import NotNowError


def refuse_while_alive(projection: PipelineProjection, now_ms: int) -> None:
    """Raises NotNowError, with everybody who works for the pipeline and how to end it.

    A coordinator that only stands by a stopped pipeline may live: it looks after others, too. now_ms: by the wall clock of this
    machine; who is heard of is known as `PipelineReader.listen` leaves it.
    """
    pipeline, view = projection.pipeline, projection.view
    life, desired = life_of(projection, now_ms), view.desired()
    is_stopped = life.phase == PipelinePhase.STOPPED and desired is not None and desired.mode is DesiredMode.STOPPED
    alive = []
    if life.is_led and not is_stopped:
        alive.append(f"coordinator {life.coordinator} is in charge of it (it is {life.phase})")
    for node in sorted(view.lives):
        state = view.node_state(node)
        if is_stopped and state is not None and state.phase is NodePhase.CLOSED:
            continue
        limit_ms = projection.spec().limits.heartbeat_timeout_ms
        if not projection.signs.is_silent(node, now_ms, limit_ms):
            heard, limit = span_text(projection.signs.silent_ms(node, now_ms) or 0), span_text(limit_ms)
            alive.append(f"node {node} was heard of {heard} ago (one that was killed is taken for dead after {limit})")
    if alive:
        raise NotNowError(
            f"pipeline {pipeline!r} can't be deleted: {'; '.join(alive)}. Stop it first: kcontrol stop {pipeline}. Nothing was "
            "deleted"
        )

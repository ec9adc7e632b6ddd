"""Whether a pipeline can be deleted, or its layout changed: not while anybody works for it."""

from __future__ import annotations

from kcontrol.core.model import DesiredMode, NodePhase, PipelinePhase
from kcontrol.definition.durations import span_text
from kcontrol.requests.record import NotNowError
from kcontrol.views.life import coordinator_limit_ms, life_of
from kcontrol.views.pipeline_projection import PipelineProjection


def refuse_while_alive(
    projection: PipelineProjection,
    now_ms: int,
    what: str = "can't be deleted",
    nothing: str = "Nothing was deleted",
) -> None:
    """Raises NotNowError, with everybody who works for the pipeline and how to end it. what, nothing: of the sentence.

    A coordinator that only stands by a stopped pipeline may live: it looks after others, too. now_ms: by the
    wall clock of this machine; who is heard of is known as `PipelineReader.listen` leaves it.
    """
    pipeline, view = projection.pipeline, projection.view
    life, desired = life_of(projection, now_ms), view.desired()
    is_stopped = (
        life.phase == PipelinePhase.STOPPED and desired is not None and desired.mode is DesiredMode.STOPPED
    )
    alive = []
    if life.is_led and not is_stopped:
        heard, limit = span_text(life.silent_ms or 0), span_text(coordinator_limit_ms(projection))
        alive.append(
            f"coordinator {life.coordinator} is in charge of it (it is {life.phase}): {_heard(heard, limit)}"
        )
    limit_ms = projection.spec().limits.heartbeat_timeout_ms
    for node in sorted(view.incarnations):
        state = view.node_state(node)
        is_over = is_stopped and state is not None and state.phase is NodePhase.CLOSED
        if not is_over and not projection.signs.is_silent(node, now_ms, limit_ms):
            heard = span_text(projection.signs.silent_ms(node, now_ms) or 0)
            alive.append(f"node {node}: {_heard(heard, span_text(limit_ms))}")
    if alive:
        raise NotNowError(
            f"pipeline {pipeline!r} {what}: {'; '.join(alive)}. Stop it first: kcontrol stop {pipeline}. {nothing}"
        )


def _heard(heard: str, limit: str) -> str:
    return f"heard of {heard} ago, taken for dead after {limit}"

"""Whether somebody is in charge of a pipeline, and the phase that may be said of it: what was
said last is no news for ever."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.coordinator.status import STATUS_BEAT_MS
from kcontrol.core.model import DesiredMode, NodePhase, PipelinePhase
from kcontrol.definition.durations import span_text
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.signs_of_life import COORDINATOR, FEW_BEATS

NOBODY_YET = "no coordinator has looked after it yet"
UNKNOWN = "unknown"
"""The phase of a pipeline that ran when its coordinator was last heard of, and that was too long ago."""
SILENT = "silent"
"""What is said of a node that has not spoken for longer than it may."""


@dataclass(frozen=True, slots=True)
class Life:
    """phase, reason: what can be said of the pipeline now. coordinator: host and process id of
    the newest, '' before the first.
    silent_ms: since when it was not heard of; None if it never was. is_led: whether it was heard of
    lately."""

    phase: str
    reason: str
    coordinator: str
    silent_ms: int | None
    is_led: bool


def life_of(projection: PipelineProjection, now_ms: int) -> Life:
    """now_ms: by the wall clock of this machine. Raises NotFoundError when there is no such pipeline."""
    view = projection.view
    said, claim, desired = view.status(), view.claim(), view.desired()
    coordinator = f"{claim.host}:{claim.process_id}" if claim else ""
    silent_ms = projection.signs.silent_ms(COORDINATOR, now_ms)
    is_led = claim is not None and not projection.signs.is_silent(
        COORDINATOR, now_ms, coordinator_limit_ms(projection)
    )
    phase = said.phase if said is not None else PipelinePhase.STARTING
    reason = said.reason if said is not None else NOBODY_YET
    if claim is None or is_led:
        return Life(phase.value, reason, coordinator, silent_ms, is_led)
    gone = f"no coordinator has been heard of for {span_text(silent_ms or 0)} (the last: {coordinator})"
    if phase in (PipelinePhase.STARTING, PipelinePhase.RUNNING):
        last = f"; it said {phase.value}{f': {reason}' if reason else ''}"
        return Life(UNKNOWN, f"{gone}; start one: kcontrol coordinator{last}", coordinator, silent_ms, is_led)
    mode = DesiredMode.RUNNING if desired is None else desired.mode
    if phase.value != mode.value:
        # Somebody asked for another mode, or for the end of a halt, and nobody is there to see to it.
        reason = "; ".join(text for text in (reason, f"{gone}; start one: kcontrol coordinator") if text)
    return Life(phase.value, reason, coordinator, silent_ms, is_led)


def coordinator_limit_ms(projection: PipelineProjection) -> int:
    """A coordinator that is silent for longer is taken for gone."""
    return max(projection.spec().limits.heartbeat_timeout_ms, FEW_BEATS * STATUS_BEAT_MS)


def is_silent(projection: PipelineProjection, node: int, now_ms: int) -> bool:
    """Whether a node that has said how it is has been silent since, for too long. One
    that was closed by a stop may be."""
    if projection.view.node_state(node) is None or _has_left(projection, node):
        return False
    return projection.signs.is_silent(node, now_ms, projection.spec().limits.heartbeat_timeout_ms)


def is_doubtful(projection: PipelineProjection, now_ms: int) -> bool:
    """Whether listening for a while may show somebody alive of whom the times in the log say
    otherwise, or that they can't."""
    signs, limits = projection.signs, projection.spec().limits
    if signs.is_doubtful(COORDINATOR, now_ms, coordinator_limit_ms(projection)):
        return True
    return any(
        signs.is_doubtful(node, now_ms, limits.heartbeat_timeout_ms)
        for node in projection.view.incarnations
        if not _has_left(projection, node)
    )


def _has_left(projection: PipelineProjection, node: int) -> bool:
    """Whether a stop has closed it: it is silent for good, and nobody need listen for it."""
    state, said = projection.view.node_state(node), projection.view.status()
    is_stopped = said is not None and said.phase is PipelinePhase.STOPPED
    return is_stopped and state is not None and state.phase is NodePhase.CLOSED

"""Waits until the layout of a pipeline has a place for a process, and says what place there is."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.heard_logs import HeardLogs
from kcontrol.apps.passing_on import PassedOn
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.apps.relaying import LOOK_EVERY_S, Preparation, Prepared, WouldBe
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import DesiredMode, PipelineSpec
from kcontrol.errors import NotFoundError
from kcontrol.sessions.retrying import DEFAULT_DEADLINE_MS, until_deadline
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.holder import why_free
from kcontrol.views.upgrades import SizeNow, nodes_in_force, size_now

_log = logging.getLogger("kcontrol.node")

SOON_S = 0.05
"""How often the logs are read once all is ready: what is read next is the change."""


@dataclass(frozen=True)
class NodeSeat:
    """By the newest layout there is such a node. prepared: None: for another change than this process made ready for. replaced:
    nodes that are other processes by it than before."""

    nodes: int
    prepared: Prepared | None
    replaced: tuple[int, ...] = ()


def seat(view: PipelineView, steps: StepsView, preparation: Preparation) -> NodeSeat:
    """By what was read of both logs."""
    made, ready = steps.assignment, preparation.prepared
    fits = made is not None and ready is not None and ready.request_id == made.request_id
    replaced = () if made is None else made.replaced
    return NodeSeat(nodes_in_force(view, steps), ready if fits else None, replaced)


def first_seat(view: PipelineView, steps: StepsView, preparation: Preparation, who: WouldBe) -> NodeSeat:
    """As `seat`, of a process that waits for its first. Where there is no pipeline, because it was deleted since its job was
    there last, who was placed is one of as many nodes as were asked for."""
    found = seat(view, steps, preparation)
    return NodeSeat(who.pipeline.nodes, None) if who.placed and found.nodes == 0 else found


async def until_placed(
    who: WouldBe, preparation: Preparation, say: Callable[[str], None], deadline_ms: int = DEFAULT_DEADLINE_MS
) -> tuple[NodeSeat, PassedOn]:
    """For a process that is to be a node: make ready for what is asked for, until there is a place for it.

    say: tells people. deadline_ms: how long Kafka may be away meanwhile. Raises RetriableError when it is away for longer.
    """
    async with pipeline_logs(who.settings, who.pipeline.name) as logs:
        found = await _until_placed(logs, who, preparation, say, deadline_ms)
        return found, PassedOn(logs.hand_on_control(), logs.view, who.root.name)


async def _until_placed(
    logs: PipelineLogs, who: WouldBe, preparation: Preparation, say: Callable[[str], None], deadline_ms: int
) -> NodeSeat:
    said, heard = "", HeardLogs(logs)
    while True:
        await until_deadline(heard.read, "waiting for a place", _log, deadline_ms)
        found = first_seat(logs.view, logs.committed, preparation, who)
        nodes = found.nodes
        free = _why_free(who, logs, heard) if who.instead and nodes > who.node else ""
        if free:
            say(f"takes the number: {free}")
        if nodes > who.node and (not who.instead or free or _is_instead(logs, who, preparation)):
            return found
        asked = await preparation.look(logs.view, logs.committed)
        text = (
            "makes ready to be a node"
            if asked
            else f"waits for a place: pipeline {who.pipeline.name} has {nodes} nodes"
        )
        if text != said:
            said = text
            say(text)
        await asyncio.sleep(SOON_S if preparation.is_ready else LOOK_EVERY_S)


def _is_instead(logs: PipelineLogs, who: WouldBe, preparation: Preparation) -> bool:
    """Whether the newest change made this process the node."""
    made, ready = logs.committed.assignment, preparation.prepared
    if made is None or ready is None or who.node not in made.replaced:
        return False
    return ready.request_id == made.request_id


def _why_free(who: WouldBe, logs: PipelineLogs, hearing: HeardLogs) -> str:
    """Why a process that is to be a node in place of another need not wait to be asked for: that one has died, or was this one
    before it began again. ''  while it lives, and while nobody is to work."""
    desired = logs.view.desired()
    if desired is not None and desired.mode is not DesiredMode.RUNNING:
        return ""
    return why_free(logs, who.node, SystemClock().now_ms(), hearing.heard_ms, who.gone)


async def size_that_goes_on(settings: ClusterSettings, pipeline: str) -> SizeNow | None:
    """How many nodes a pipeline has whose layout was changed while it ran; None: it was not, or there is no such pipeline.

    Whoever starts one of its nodes goes by that, whatever his file says.
    """
    async with pipeline_logs(settings, pipeline) as logs:
        if not await logs.is_there():
            return None
        await logs.read_steps_on()
        return size_now(logs.view, logs.committed)


async def submit_prepared(passed: PassedOn, prepared: Prepared) -> PipelineSpec | None:
    """The definition by the newest layout: the one in the log, or this process's own, which is there afterwards. None: somebody
    has submitted another one since this process made ready, so that it has to be compared as if the process were started now.
    Raises RetriableError, and NotFoundError: the pipeline was deleted meanwhile."""
    await passed.read_on()
    if _in_log(passed, prepared) == prepared.over:
        # What was acknowledged meanwhile must not be replaced.
        await passed.read_on(to_barrier=True)
    spec = _in_log(passed, prepared)
    if spec.fingerprint == prepared.spec.fingerprint:
        return spec
    if spec != prepared.over:
        return None
    await passed.control.append([prepared.spec])
    return prepared.spec


def _in_log(passed: PassedOn, prepared: Prepared) -> PipelineSpec:
    spec = passed.view.spec()
    if spec is None:
        raise NotFoundError(f"pipeline {prepared.pipeline.name!r} was deleted: end this process")
    return spec

"""An agent sees to it that pipelines get as many nodes as the cluster's log wants for them, and users say how many."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.agent.fitting import Nodes, set_bounds
from kcontrol.apps.agent.levels import need_level
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.looks import side_by_side
from kcontrol.apps.live_layout import LOOK_EVERY_S, followed
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.backoff import Backoff, Deadline
from kcontrol.core.cluster.entries import ResizeJob
from kcontrol.core.cluster.model import RESIZE_LEVEL, RESUMED_LEVEL, ClusterJob, Replica
from kcontrol.core.cluster.resize_wards import Resizing
from kcontrol.core.model import AgentPlacement, LayoutPhase, LayoutRequest, LayoutStatus
from kcontrol.errors import KcontrolError, TopicError
from kcontrol.requests.layout_requests import is_at_work
from kcontrol.requests.record import NotNowError
from kcontrol.requests.resizing import goes_on_with, layout_seen
from kcontrol.sessions.retrying import until_deadline
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import LoggedEntry
from kcontrol.views.upgrades import fate_of, nodes_in_force

_log = logging.getLogger("kcontrol.agent")

TIMEOUT_S = 20.0
"""For one look at the logs of one pipeline."""
EVERY_MS = 2_000
AGAIN = Backoff(first_ms=60_000, longest_ms=900_000)
"""After a change was refused or given up."""
ASKED_MS = 60_000
"""For an agent to ask a pipeline for the layout that a user wants."""
_Answer = TypeVar("_Answer")
_Key = tuple[str, int, int]
"""A job, its revision, and the entry that wants what is asked for."""


# --- by the warden ------------------------------------------------------------------------------------------


@dataclass
class _Asking:
    """next_ms: no look before. times: so often it was asked for. not_before_ms: nor asked for again."""

    next_ms: int
    not_before_ms: int
    times: int = 0


class ResizeWarden:
    """Of one agent. may_ask: whether what it knows of the cluster is new enough."""

    def __init__(
        self, settings: ClusterSettings, may_ask: Callable[[], bool], every_ms: int = EVERY_MS
    ) -> None:
        self._settings, self._may_ask, self._every_ms = settings, may_ask, every_ms
        self._clock = SystemClock()
        self._all: dict[_Key, _Asking] = {}

    async def seen(self, resizings: Collection[Resizing]) -> list[tuple[Resizing, int]]:
        """Those of whose pipelines no change is under way, with how many nodes they have. What can't be looked at now is
        looked at again."""
        keys = {_key(one) for one in resizings}
        self._all = {key: asked for key, asked in self._all.items() if key in keys}
        found = zip(resizings, await side_by_side(self._nodes, resizings), strict=True)
        return [(one, nodes) for one, nodes in found if nodes is not None]

    async def _nodes(self, one: Resizing) -> int | None:
        now_ms = self._clock.monotonic_ms()
        asked = self._all.setdefault(_key(one), _Asking(now_ms, now_ms))
        if now_ms < asked.next_ms:
            return None
        asked.next_ms = now_ms + self._every_ms
        try:
            async with asyncio.timeout(TIMEOUT_S), pipeline_logs(self._settings, one.job) as logs:
                return await self._look(logs, one, asked)
        except (KcontrolError, TimeoutError) as error:
            _log.info("job %s: how many nodes it has can't be told now: %s", one.job, error or "no answer")
            return None

    async def _look(self, logs: PipelineLogs, one: Resizing, asked: _Asking) -> int | None:
        if not await logs.is_heard(self._clock):
            return None
        wish = AgentPlacement(one.founded_ms, one.wish)
        found = layout_seen(logs, one.nodes, wish, self._clock.now_ms())
        request, now_ms = found.request, self._clock.monotonic_ms()
        changes = request is not None and request.nodes > 0 and not found.is_last
        asks = request is not None and (not changes or now_ms >= asked.not_before_ms) and self._may_ask()
        if request is not None and asks:
            if changes:  # What is wanted is asked for as soon as a withdrawal is answered.
                asked.times += 1
                asked.not_before_ms = now_ms + AGAIN.wait_ms(asked.times)
            await logs.control.append([request])
        if found.why:
            _log.info("job %s is to have %d nodes: %s", one.job, one.nodes, found.why)
        return None if found.is_last and not asks else found.nodes


def _key(one: Resizing) -> _Key:
    return one.job, one.revision, one.wish


# --- by users -----------------------------------------------------------------------------------------------


async def resize(view: ClusterView, job: str, nodes: int) -> LoggedEntry:
    """Have an active job run with another number of nodes, while those that stay go on. Raises NotFoundError, ClusterError,
    NotNowError: some agent's version does not know that."""
    await _raise_level(view)

    def wish(value: Replica, request: str) -> ResizeJob:
        return ResizeJob(job, request, value.offset, nodes)

    return await view.ask(wish)


async def fix_nodes(view: ClusterView, job: str, nodes: int) -> LoggedEntry:
    """As `resize`, and from then on it has so many whatever the size of the cluster: a percentage that it had is left to
    other jobs."""
    known = (await view.look()).jobs.get(job)
    if known is not None and known.active and known.percentage:
        # First: what is asked of its pipeline names the newest entry about it, and whoever is ended here can ask again.
        await set_bounds(view, job, Nodes(known.nodes, known.nodes))
    return await resize(view, job, nodes)


async def _raise_level(view: ClusterView) -> None:
    """To the one at which jobs can be resized, once everybody supports it, and where everybody does to the next, at which that
    outlasts the end of a job."""
    cannot = "can't give a job another number of nodes while it runs"
    await need_level(view, RESIZE_LEVEL, cannot, to=RESUMED_LEVEL)


async def can_go_on_with(settings: ClusterSettings, pipeline: str, nodes: int) -> bool:
    """Whether a pipeline is given so many nodes while it runs; see `goes_on_with`. False: there is none."""
    found = await _of_pipeline(settings, pipeline, lambda logs, now_ms: goes_on_with(logs, nodes, now_ms))
    return bool(found)


async def nodes_at_work(settings: ClusterSettings, pipeline: str) -> int:
    """How many nodes a pipeline has that runs; 0: it does not."""

    def nodes(logs: PipelineLogs, now_ms: int) -> int:
        return nodes_in_force(logs.view, logs.committed) if is_at_work(logs, now_ms) else 0

    return await _of_pipeline(settings, pipeline, nodes) or 0


async def _of_pipeline(
    settings: ClusterSettings, pipeline: str, ask: Callable[[PipelineLogs, int], _Answer]
) -> _Answer | None:
    """None: nothing was submitted by that name."""
    clock = SystemClock()
    with suppress(TopicError):  # Nothing was ever submitted in this Kafka.
        async with pipeline_logs(settings, pipeline) as logs:
            if await logs.is_heard(clock):
                return ask(logs, clock.now_ms())
    return None


async def placed_job(settings: ClusterSettings, pipeline: str) -> ClusterJob | None:
    """The job by which agents run a pipeline, if they do."""
    view = ClusterView(settings)
    try:
        if not await view.exists():
            return None
        job = (await view.look()).jobs.get(pipeline)
    finally:
        await view.close()
    return job if job is not None and job.active else None


async def resize_and_follow(
    settings: ClusterSettings, pipeline: str, nodes: int, told: Callable[[LayoutStatus], None]
) -> LayoutStatus:
    """Have agents give a pipeline another number of nodes, until it has them. told: see `followed`. Raises what `resize` does,
    NotNowError: it was refused or given up, and agents ask for it again; RetriableError."""
    async with pipeline_logs(settings, pipeline) as logs:
        await logs.read()
        before = logs.view.layout_request()
        over = before is None or fate_of(logs.view, logs.committed, before) is not None
        view = ClusterView(settings)
        try:
            await fix_nodes(view, pipeline, nodes)
        finally:
            await view.close()
        request = await _by_agents(logs, nodes, before if over else None)
        status = await followed(logs, request, told)
    if status.phase is LayoutPhase.DONE:
        return status
    raise NotNowError(
        f"pipeline {pipeline!r}: {status.text}. Its agents ask again; kcontrol layout {pipeline} --withdraw has them leave it"
    )


async def _by_agents(logs: PipelineLogs, nodes: int, over: LayoutRequest | None) -> LayoutRequest:
    """The request of the agents. over: what was asked for before."""
    deadline = Deadline(ASKED_MS)
    while True:
        await until_deadline(logs.read_control, "reading the control topic", _log)
        request = logs.view.layout_request()
        if request is not None and request.nodes == nodes and request != over:
            return request
        deadline.check(
            f"pipeline {logs.pipeline!r}: the cluster of agents has taken it, and goes on with it; that an agent asks for the "
            "layout"
        )
        await asyncio.sleep(LOOK_EVERY_S)

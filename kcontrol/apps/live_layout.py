"""Asks for another number of nodes of a pipeline that runs, and follows what becomes of that.

What is written is a request; the coordinator makes the change, or says why not. So the command may end, or be killed, at any
time: what it has asked for goes on until it is made, given up, or withdrawn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.layout import LayoutPlan, bytes_by_shard, refuse_states_between
from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.core.model import LayoutPhase, LayoutRequest, LayoutStatus
from kcontrol.errors import KcontrolError, RetriableError
from kcontrol.requests.layout_requests import is_at_work as runs_now
from kcontrol.requests.layout_requests import live_change, next_number, refuse_lost
from kcontrol.requests.record import NotNowError
from kcontrol.sessions.retrying import until_deadline
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.holder import holder
from kcontrol.views.upgrades import OVER

_log = logging.getLogger("kcontrol.layout")

LOOK_EVERY_S = 0.2
ANSWER_S = 15.0
"""Beyond the request's own timeout: for a coordinator to say what became of it."""
LAST_MOMENT_S = 5.0
"""For what was asked for since to be answered: until then the change before it may be on its way into the log."""


class NumberTakenError(NotNowError):
    """A node that was to be replaced has died, and who waited for its place has taken its number, as anybody may."""

    def __init__(self, text: str, node: int) -> None:
        super().__init__(text)
        self.node = node


async def is_at_work(cluster: ClusterSettings, pipeline: str) -> bool:
    """Whether somebody looks after the pipeline, and it is to run. Raises NotFoundError, TopicError."""
    async with pipeline_logs(cluster, pipeline) as logs:
        await logs.read()
        clock = SystemClock()
        await logs.listen(clock)
        return runs_now(logs, clock.now_ms())


async def plan_live(
    cluster: ClusterSettings,
    pipeline: str,
    nodes: int | None,
    without: int | None,
    own: Path,
    replaced: tuple[int, ...] = (),
) -> LayoutPlan:
    """What another number of nodes, or leaving out one, would move now.

    replaced: nodes that are to be other processes instead, with all that they have. own: where nodes of this machine have
    their own checkpoints. Raises NotNowError, ConfigurationError: it can't be done, or not while the pipeline runs.
    """
    async with pipeline_logs(cluster, pipeline) as logs:
        await logs.read()
        if without is not None:
            clock = SystemClock()
            await logs.listen(clock)
            refuse_lost(logs, without, clock.now_ms())
        spec, steps = logs.spec(), logs.committed
        asked = live_change(logs, nodes, without, replaced)
        change = asked.change
        saved = steps.saved[-1] if spec.stateful and steps.saved else None
        if saved is not None and change.nodes == 1 and spec.nodes > 1:
            await asyncio.to_thread(refuse_states_between, spec, saved, own)
        sizes = (
            {} if saved is None else await asyncio.to_thread(bytes_by_shard, saved, change.shards_before, own)
        )
        lives = dict(logs.view.incarnations)
        return LayoutPlan(
            *(pipeline, asked.number, steps.step, change, spec.stateful, sizes, saved, lives),
            replaced=asked.replaced,
        )


async def change_live(
    cluster: ClusterSettings, plan: LayoutPlan, timeout_ms: int, told: Callable[[LayoutStatus], None]
) -> LayoutPlan:
    """Have a change made that was planned; the plan, with the last step before it.

    timeout_ms: for all who are to be nodes to be ready. told: how far it is, whenever there is news. Raises NotNowError: it
    was refused, given up, or another request took its place; RetriableError: nobody has answered.
    """
    renumbered = plan.change.renumbered
    request = LayoutRequest(
        *(plan.pipeline, uuid4().hex, plan.number, plan.change.nodes, timeout_ms, plan.replaced),
        without=-1 if renumbered is None else renumbered[1],
    )
    status = await _asked(cluster, request, told)
    if status.phase is LayoutPhase.DONE:
        return replace(plan, step=status.step, copied_bytes=status.total_bytes)
    raise NotNowError(f"pipeline {plan.pipeline!r}: {status.text}")


async def withdraw(cluster: ClusterSettings, pipeline: str) -> None:
    """Have what was asked for before given up, if it is not made yet. Raises KcontrolError: it is."""
    async with pipeline_logs(cluster, pipeline) as logs:
        await logs.read()
        number = next_number(logs.committed)
    request = LayoutRequest(pipeline, uuid4().hex, number, 0, 0)
    status = await _asked(cluster, request, lambda _: None)
    if "withdrawn" not in status.text:
        raise KcontrolError(f"pipeline {pipeline!r}: {status.text}")


def withdrawal(request: LayoutRequest, done: int | None = None) -> LayoutRequest:
    """What takes the place of a request, and asks for nothing: an upgrade that it is of goes on where it is. done: of the nodes
    that were to be replaced, one that is."""
    return LayoutRequest(
        *(request.pipeline, uuid4().hex, request.number, 0, 0),
        replaced=tuple(node for node in request.replaced if node != done),
        way=request.way,
        left=request.left,
        whole=request.whole,
    )


async def _asked(
    cluster: ClusterSettings, request: LayoutRequest, told: Callable[[LayoutStatus], None]
) -> LayoutStatus:
    """What became of it."""
    async with pipeline_logs(cluster, request.pipeline) as logs:
        await logs.control.append([request])
        return await followed(logs, request, told)


async def given_up(logs: PipelineLogs, request: LayoutRequest) -> LayoutStatus | None:
    """Withdraw a request; what became of it if it was made nevertheless, in that very moment; None: it was not."""
    asks = withdrawal(request)
    await logs.control.append([asks])
    with suppress(NotNowError, RetriableError, TimeoutError):
        async with asyncio.timeout(LAST_MOMENT_S):
            await followed(logs, asks, lambda _: None)
    return await _made(logs, request)


async def _made(logs: PipelineLogs, request: LayoutRequest) -> LayoutStatus | None:
    """What became of a request that nobody speaks of any more, if it is in the log of steps."""
    await until_deadline(logs.read_steps_on, "reading the log of steps", _log)
    made = logs.committed.assignment
    if made is None or made.request_id != request.request_id:
        return None
    moved, size = made.moved_shards, made.moved_bytes
    return LayoutStatus(
        request.request_id, LayoutPhase.DONE, made.nodes, made.step, moved, max(size, 0), size, 0, ""
    )


async def _nothing_more(_: PipelineLogs) -> None:
    """Of somebody who only looks on."""


async def followed(
    logs: PipelineLogs,
    request: LayoutRequest,
    told: Callable[[LayoutStatus], None],
    meanwhile: Callable[[PipelineLogs], Awaitable[None]] = _nothing_more,
) -> LayoutStatus:
    """What became of a request that is in the log. meanwhile: called whenever the control log was read on.

    Raises NotNowError: another request took its place; NumberTakenError: there is nothing to be changed any more, and it is
    withdrawn; RetriableError: nobody has answered; and what `meanwhile` raises.
    """
    said: LayoutStatus | None = None
    superseded = _Superseded()
    try:
        async with asyncio.timeout(request.timeout_ms / 1000 + ANSWER_S):
            while True:
                await until_deadline(logs.read_control, "reading the control topic", _log)
                newest, now = logs.view.layout_request(), logs.view.layout_told()
                if now is not None and now.request_id == request.request_id:
                    if now != said:
                        told(now)
                    said = now
                    if now.phase in OVER:
                        return now
                elif newest is not None and superseded.is_over(request, newest, now):
                    if (made := await _made(logs, request)) is not None:
                        return made
                    raise NotNowError(
                        f"pipeline {request.pipeline!r}: another layout was asked for since, which took this one's place"
                    )
                await _refuse_taken(logs, request)
                await meanwhile(logs)
                await asyncio.sleep(LOOK_EVERY_S)
    except TimeoutError:
        if (made := await _made(logs, request)) is not None:
            return made
        raise RetriableError(
            f"pipeline {request.pipeline!r}: the request for another layout is recorded, and no coordinator has said what "
            "became of it; look at kcontrol status"
        ) from None


class _Superseded:
    """Since when another request is the newest. The one before may be on its way into the log then: it is not over before the
    coordinator, who looks at requests between two transactions, speaks of the newer one, or could have."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def is_over(self, request: LayoutRequest, newest: LayoutRequest, told: LayoutStatus | None) -> bool:
        """Whether the request has had its time."""
        if newest.request_id == request.request_id:
            return False
        now_s = time.monotonic()
        self._since_s = now_s if self._since_s is None else self._since_s
        is_told = told is not None and told.request_id == newest.request_id
        return is_told or now_s - self._since_s >= LAST_MOMENT_S


async def _refuse_taken(logs: PipelineLogs, request: LayoutRequest) -> None:
    """Raise NumberTakenError if the process that waits to be a node has become it without a change."""
    for node in request.replaced:
        join, ready = holder(logs, node), logs.view.layout_ready(node)
        if join is None or ready is None or ready.request_id != request.request_id:
            continue
        if (join.host, join.process_id) != (ready.host, ready.process_id):
            continue
        await logs.read_steps_on()  # The record lies before the join that follows from it.
        made = logs.committed.assignment
        if made is None or made.request_id != request.request_id:
            await logs.control.append([withdrawal(request, done=node)])
            raise NumberTakenError(
                f"pipeline {request.pipeline!r}: the process that was node {node} is gone, and process {join.process_id} on "
                f"{join.host}, which waited for its place, has its number: the layout is as it was",
                node,
            )

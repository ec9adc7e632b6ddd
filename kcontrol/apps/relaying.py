"""What a process does for a change of the layout of a pipeline that runs: it makes ready to be a node of it, and goes on by it.

A node does so beside its steps, a process that is to be a node in place of them. It binds its queries for the new number of
nodes, looks whether its definition can go on by it, and copies from checkpoints the state that others still have. That, and
that it lives, it says again and again (`LayoutReady`), so that the coordinator begins the change when all can go on at
once. Nothing that is said here has to be true for what consumers read to be right.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from uuid import uuid4

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.spark.engine.node_work import NodeWork
from kcontrol.adapters.spark.engine.plans_ahead import PlansAhead
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.adapters.spark.state.ahead import AheadCopy, forget_ahead
from kcontrol.adapters.spark.state.assembling import Taker
from kcontrol.apps.held_tables import HeldTables, TableCare
from kcontrol.apps.past_cancelling import in_thread, warmed
from kcontrol.apps.submit import resolve
from kcontrol.apps.warm_up import can_be_opened_twice
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import (
    Assignment,
    Checkpoint,
    LayoutPhase,
    LayoutReady,
    LayoutRequest,
    NodeJoin,
    PipelineSpec,
    StepBoundary,
    UpgradeWay,
)
from kcontrol.core.step.assignment import owners_of
from kcontrol.core.step.layout_change import changed, left_out, refused_live
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import CheckpointError, ConfigurationError, KcontrolError, NotFoundError
from kcontrol.sessions.health import DEFAULT_LIMITS
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.holder import holder_in
from kcontrol.views.upgrades import OVER

_log = logging.getLogger("kcontrol.node")

LOOK_EVERY_S = 0.5
"""How often a process looks at what it has read of the logs while something is asked for."""
BEAT_S = 1.0
COPYING = frozenset({LayoutPhase.COPYING, LayoutPhase.SWITCHING})
COPY_TRIES = PLAN_TRIES = 3
"""A checkpoint that can't be copied, or planned by, may have been dropped meanwhile; the newest one, so many times in a row,
was not."""

Rebind = Callable[[Pipeline], BoundQueries]
"""The queries of a pipeline on another number of nodes. Raises what `bind` raises."""
Warm = Callable[[BoundQueries, PipelineSpec, Checkpoint | None, StepBoundary], Awaitable[None]]
"""See `open_once`. Whatever it raises, the node is only colder."""
Plan = Callable[[BoundQueries, PipelineSpec, Checkpoint, StepBoundary], PlansAhead]
"""See `plan_once`. Called in a thread. Whatever it raises, the node plans when it opens its queries."""
Read = tuple[PipelineView, StepsView]
"""Of both logs, as far as somebody has read them."""


@dataclass(frozen=True)
class Prepared:
    """What a process goes on with after the change that `request_id` asks for. over: the definition that was in the log when it
    made ready. ahead: plans of these queries, if some were made."""

    request_id: str
    pipeline: Pipeline
    over: PipelineSpec
    spec: PipelineSpec
    bound: BoundQueries
    ahead: PlansAhead | None = None


@dataclass(frozen=True)
class WouldBe:
    """Which node a process is or is to be, and with what. root: of its directories. own: where nodes of this machine have
    their own checkpoints. rebind: see `Rebind`. instead: of another process that is the node now. gone: whether the process
    that wrote this has certainly ended. beside: whether it lives and works in the same directory of this host. warm: opens the
    queries from a checkpoint that was copied, or from none if there is too much of it, and runs the input of the last step, so
    that their code is warm; None: nothing has to be. plan: plans the queries for the layout that is asked for; None:
    nobody does before they are opened. tables: see `HeldTables`. placed: an agent has started it, so that it is the node,
    too, where the pipeline is not there any more. binding_ms: queries that are still bound, or planned, for a layout that
    nobody wants any more are waited for so long, and so are those that were opened to be warm for it; Spark's session may
    hang."""

    settings: ClusterSettings
    pipeline: Pipeline
    node: int
    root: Path
    own: Path
    rebind: Rebind
    output_partitions: int | None = None
    instead: bool = False
    gone: Callable[[NodeJoin], bool] = lambda _: False
    beside: Callable[[NodeJoin], bool] = lambda _: False
    warm: Warm | None = None
    plan: Plan | None = None
    tables: TableCare | None = None
    placed: bool = False
    binding_ms: int = DEFAULT_LIMITS.binding_ms


def pending(view: PipelineView, steps: StepsView) -> LayoutRequest | None:
    """The change that is asked for and may still be made, as far as was read. By its number it may be one behind another that
    was not read yet."""
    request, told = view.layout_request(), view.layout_told()
    if request is None or request.nodes == 0 or request.number <= _number(steps):
        return None
    answered = told is not None and told.request_id == request.request_id and told.phase in OVER
    return None if answered else request


def _number(steps: StepsView) -> int:
    return 0 if steps.assignment is None else steps.assignment.number


def would_be(spec: PipelineSpec, steps: StepsView, request: LayoutRequest) -> Assignment:
    """The layout as the coordinator would record it now. Raises ConfigurationError: it would refuse."""
    refused = refused_live(
        spec, request.nodes, steps.step, request.replaced, left_out(request), request.owners
    )
    if refused:
        raise ConfigurationError(refused)
    change = changed(spec, request.nodes, left_out(request), owners=request.owners)
    number, step = request.number, steps.step
    return change.recorded(
        spec.pipeline, number, step, request_id=request.request_id, live=True, replaced=request.replaced
    )


class Preparation:
    """One process makes ready for whatever is asked for, again and again."""

    def __init__(self, who: WouldBe) -> None:
        self._who = who
        self._limit = who.pipeline.name, who.binding_ms
        self._uuid = uuid4().hex
        self._beat = self._tries = 0
        self.prepared: Prepared | None = None
        self._copy: AheadCopy | None = None
        self._work: asyncio.Task[None] | None = None
        self._forgotten: set[asyncio.Task[None]] = set()
        """Cancelled, and not over yet: a thread that binds queries goes on."""
        self._request_id = self._error = ""
        self._asked_at = 0
        """The last step when the request was seen."""
        self._is_warm = who.warm is None
        self._is_planned = False
        self._plan_tries = 0
        self._said: tuple[str, int, str] | None = None
        self._said_s = 0.0
        self._log: KafkaControlLog | None = None
        self._held = HeldTables(who.tables)

    def __str__(self) -> str:
        return f"node {self._who.node} of pipeline {self._who.pipeline.name}"

    async def close(self) -> None:
        """End what is under way, and wait for what goes on after it was forgotten."""
        self._forget()
        await self._forgotten_over()
        if self._log is not None:
            await self._log.close()

    @property
    def is_ready(self) -> bool:
        """Whether what it waits for is the change itself."""
        return self._copy is not None and self._copy.step > 0 and self._is_warm and self._work is None

    async def look(self, view: PipelineView, steps: StepsView) -> bool:
        """By what was read of both logs: do what is asked for, and say how far it is. False: nothing is asked for.

        Raises NotFoundError where there is no such pipeline, and RetriableError.
        """
        request = pending(view, steps)
        if request is None or not self._is_meant(request):
            self._forget()
            self._forget_plans(steps)
            return request is None and not await self._swept(steps)
        if request.request_id != self._request_id:
            self._forget()
        spec = view.spec()
        if spec is None:
            raise NotFoundError(f"pipeline {self._who.pipeline.name!r} has no definition in the log")
        if not spec.assignment == _number(steps) == request.number - 1:
            return True  # The log of steps, or the control log, was not read so far.
        if request.request_id != self._request_id:
            self._request_id, self._asked_at = request.request_id, steps.step
            before = holder_in(view, self._who.node)
            self._work = asyncio.create_task(self._prepare(spec, steps, request, before))
        elif self._work is None or self._work.done():
            self._finish_work()
            self._copy_newest(view, steps)
        if self._copy is not None:
            self._held.look(request.request_id, steps, is_ready=self.is_ready)
        await self._say(request)
        return True

    def _is_meant(self, request: LayoutRequest) -> bool:
        """Of two processes with the number of a node that is to be replaced, the one that is to be it makes ready."""
        who = self._who
        return who.node < request.nodes and (who.instead == (who.node in request.replaced))

    async def _swept(self, steps: StepsView) -> bool:
        """Whether what was copied is gone, once nobody can be about to open it, or has not closed it yet."""
        made = steps.assignment
        if self._forgotten or (made is not None and made.live and steps.step == made.step):
            return False
        who = self._who
        await asyncio.to_thread(forget_ahead, who.root, who.pipeline.name, who.node)
        return True

    def _forget(self) -> None:
        if self._work is not None:
            self._work.cancel()
            self._forgotten.add(self._work)
            self._work.add_done_callback(self._is_over)
        if self._copy is not None:
            self._copy.give_up()
        self._work = self._copy = None
        self._is_planned = False
        self._request_id = self._error = ""
        self._tries = self._plan_tries = 0

    def _forget_plans(self, steps: StepsView) -> None:
        """Unless they are for what has just been made: whoever goes on by it has yet to take them."""
        prepared, made = self.prepared, steps.assignment
        if prepared is not None and (made is None or made.request_id != prepared.request_id):
            self.prepared = replace(prepared, ahead=None)

    def _is_over(self, work: asyncio.Task[None]) -> None:
        """Nobody asks any more what became of it."""
        self._forgotten.discard(work)
        if not work.cancelled():
            work.exception()

    async def _forgotten_over(self) -> None:
        """Once nothing goes on that was forgotten before this."""
        if self._forgotten:
            await asyncio.wait(set(self._forgotten))

    def _finish_work(self) -> None:
        work, self._work = self._work, None
        if work is None or work.cancelled():
            return
        error = work.exception()
        if isinstance(error, CheckpointError) and self._tries < COPY_TRIES:
            _log.warning("state for the new layout was not copied, and is tried again: %s", error)
        elif error is not None:
            _log.warning("node %d can't go on by the new layout: %s", self._who.node, error)
            self._error = str(error)

    async def _prepare(
        self, spec: PipelineSpec, steps: StepsView, request: LayoutRequest, before: NodeJoin | None
    ) -> None:
        who = self._who
        await self._forgotten_over()
        if who.instead and request.way == UpgradeWay.IN_PLACE:
            _refuse_elsewhere(who, before)
        layout = would_be(spec, steps, request)
        prepared = self.prepared
        if prepared is None or prepared.pipeline.nodes != request.nodes:
            pipeline = who.pipeline.with_nodes(request.nodes)
            self._is_warm = who.warm is None
            queries = f"queries for {pipeline.nodes} nodes"
            bound = await in_thread(partial(who.rebind, pipeline), queries, "bound", *self._limit)
        else:
            pipeline, bound = prepared.pipeline, prepared.bound
        resolved = await resolve(
            *(who.settings, pipeline, bound.facts(), bound.exchanges),
            output_partitions=who.output_partitions,
            layout=layout,
        )
        self.prepared = Prepared(request.request_id, pipeline, spec, resolved, bound)
        if steps.saved and not await self._opens(steps.saved[-1]):
            # Before there is one to be copied: what changes between that and the last step is copied twice, and the second
            # time no steps are made.
            await self._warm(None, steps.last)
        needs = NodeWork(resolved, who.node, bound.on_node(resolved, who.node), {}).needs
        stateful = {name: need for name, need in needs.items() if need.stateful}
        taker = Taker(who.node, owners_of(resolved))
        self._copy = AheadCopy(who.root, pipeline.name, taker, stateful, who.own, whole=who.instead)
        if not stateful:
            self._copy.total_bytes = 0

    def _copy_newest(self, view: PipelineView, steps: StepsView) -> None:
        copy, found = self._copy, steps.saved
        if copy is None or self._error or not found:
            return
        if found[-1].step <= copy.step:
            self._is_planned = True  # Or it is not to be planned: there is no newer one to do it by.
            return
        if found[-1].step < self._asked_at and not self._is_copying(view):
            return  # Another one will be made for this, and what has changed in between would be copied twice.
        self._tries += 1
        self._work = asyncio.create_task(self._copied(copy, found[-1], steps.last))

    def _is_copying(self, view: PipelineView) -> bool:
        """Whether the coordinator says that there is a checkpoint that was made for this, or after all were there."""
        told = view.layout_told()
        return told is not None and told.request_id == self._request_id and told.phase in COPYING

    async def _copied(self, copy: AheadCopy, checkpoint: Checkpoint, last: StepBoundary | None) -> None:
        await asyncio.to_thread(copy.copy, checkpoint)
        self._tries = 0
        await self._warm(checkpoint if await self._opens(checkpoint) else None, last)
        self._is_planned = self._is_planned or last is None or await self._plan(checkpoint, last)

    async def _opens(self, checkpoint: Checkpoint) -> bool:
        """Whether the state is opened to be warm for it."""
        tables = self._who.tables
        if can_be_opened_twice(checkpoint):
            return True
        return tables is not None and await asyncio.to_thread(tables.links)

    async def _plan(self, checkpoint: Checkpoint, last: StepBoundary) -> bool:
        """Once for a request. False: the checkpoint was removed meanwhile, so there is a newer one, by which it is done."""
        who, prepared = self._who, self.prepared
        if who.plan is None or prepared is None:
            return True
        made = partial(who.plan, prepared.bound, prepared.spec, checkpoint, last)
        try:
            ahead = await in_thread(
                made, f"queries for {prepared.pipeline.nodes} nodes", "planned", *self._limit
            )
        except Exception as error:  # noqa: BLE001 - whatever Spark makes of it: they are planned when they are opened
            _log.warning(
                "node %d has no plans for the new layout: %s", who.node, error or type(error).__name__
            )
            self._plan_tries += 1
            return not isinstance(error, CheckpointError) or self._plan_tries >= PLAN_TRIES
        _log.info(
            "node %d has planned for the new layout: %s",
            who.node,
            ", ".join(sorted(ahead.names)) or "nothing",
        )
        self.prepared = replace(prepared, ahead=ahead)
        return True

    async def _warm(self, checkpoint: Checkpoint | None, last: StepBoundary | None) -> None:
        """Once for the queries that are bound."""
        who, prepared = self._who, self.prepared
        if not self._is_warm and who.warm is not None and prepared is not None and last is not None:
            try:
                await warmed(who.warm(prepared.bound, prepared.spec, checkpoint, last), *self._limit)
            except Exception as error:  # noqa: BLE001 - whatever Spark makes of it: the node is only colder
                _log.warning("node %d is not warm: %s", who.node, error or type(error).__name__)
        self._is_warm = True

    async def _say(self, request: LayoutRequest) -> None:
        who, copy = self._who, self._copy
        copied_step = 0 if copy is None or not (self._is_warm and self._is_planned) else copy.step
        news = (request.request_id, copied_step, self._error)
        if news == self._said and time.monotonic() < self._said_s + BEAT_S:
            return
        self._said, self._said_s = news, time.monotonic()
        self._beat += 1
        if self._log is None:
            self._log = await KafkaControlLog.open(who.settings, who.pipeline.name)
        ready = LayoutReady(
            pipeline=who.pipeline.name,
            node=who.node,
            host=socket.gethostname(),
            process_id=os.getpid(),
            uuid=self._uuid,
            request_id=request.request_id if copy is not None or self._error else "",
            copied_step=copied_step,
            copied_bytes=0 if copy is None else await asyncio.to_thread(copy.copied_bytes),
            total_bytes=-1 if copy is None else copy.total_bytes,
            error=self._error,
            beat=self._beat,
            linked_bytes=0 if copy is None else copy.linked_bytes,
        )
        await self._log.append([ready])


def _refuse_elsewhere(who: WouldBe, before: NodeJoin | None) -> None:
    """Raise ConfigurationError unless the process that is the node now is here, where its state can be linked."""
    if before is None or not who.beside(before):
        is_it = "nobody" if before is None else f"process {before.process_id} on {before.host}"
        raise ConfigurationError(
            f"the upgrade is in place, and {is_it} is node {who.node}, which does not work below {who.root.parent} of this "
            "host: start this process on its host, with the same --work-dir, or upgrade with --way replace"
        )


async def prepare_beside(read: Callable[[], Read], asked: asyncio.Event, preparation: Preparation) -> None:
    """For a node that makes steps: make ready for what is asked for, until cancelled.

    read: what the node has read of both logs, so that nobody reads them a second time: by now they may be long, and this may be
    the moment in which it goes on by a new layout. asked: set when a request was seen. What goes wrong here is logged, and is
    not the node's end.
    """
    while True:
        await asked.wait()
        asked.clear()
        try:
            await _while_asked(read, preparation)
        except KcontrolError as error:
            _log.warning("%s: it does not make ready for a new layout now: %s", preparation, error)
            await asyncio.sleep(BEAT_S)
            asked.set()


async def _while_asked(read: Callable[[], Read], preparation: Preparation) -> None:
    while True:
        if not await preparation.look(*read()):
            return
        await asyncio.sleep(LOOK_EVERY_S)

"""The shell around a node's state machine: one incarnation of one node of a pipeline.

It joins, reads both logs to their ends, and from then on turns what it hears (control records, boundaries,
arrived input, the engine's answers, time) into events. Spark works in threads inside the engine, so the loop
here always has time for a heartbeat.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, TypeVar, assert_never
from uuid import uuid4

from kcontrol.core.events import (
    AttemptWritten,
    CancelAttempt,
    CloseEngine,
    ControlSeen,
    DropParts,
    Exit,
    FinishStep,
    InputArrived,
    Joined,
    MakeReady,
    NodeEffect,
    NodeEvent,
    OpenEngine,
    PinStep,
    Publish,
    RunStage,
    RunStep,
    SavePart,
    StepFinished,
    StepSeen,
    Tick,
    WakeAt,
)
from kcontrol.core.log import control_view
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.definitions import is_deletion
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import (
    AgentPlacement,
    EndTimes,
    Environment,
    InputSlice,
    InputSpec,
    LayoutRequest,
    LimitsSpec,
    Logged,
    LoggedStep,
    NodeJoin,
    PipelineSpec,
    StepBoundary,
)
from kcontrol.core.node.decide import NodeMachine, decide
from kcontrol.core.step.offsets import node_of
from kcontrol.errors import NotFoundError
from kcontrol.sessions.arrivals import Pace, paced
from kcontrol.sessions.engine_jobs import GRACE_MS, EngineJobs, time_limit
from kcontrol.sessions.health import Health
from kcontrol.sessions.observers import NOBODY, NodeObserver
from kcontrol.sessions.ports import Arrival, Clock, ControlLog, Engine, EngineFactory, InputWatcher, StepsLog
from kcontrol.sessions.publisher import Publisher
from kcontrol.sessions.read_so_far import Read
from kcontrol.sessions.restorable import find_restorable
from kcontrol.sessions.retrying import DEFAULT_DEADLINE_MS, follow, until_deadline
from kcontrol.sessions.ticker import Ticker
from kcontrol.sessions.timeline import Timeline

DEFAULT_RECEIVED_EVERY_MS = 10

_Chunk = TypeVar("_Chunk")


@dataclass(frozen=True)
class NodePorts:
    """The world of one node. Readers stand at the beginning of their partitions; the session closes none of
    them.

    watch: a watcher of the given partitions of an input, from the given offsets on, and of
    those added later that it takes; given is also what the newest step that has found records in a partition has read of it.
    """

    clock: Clock
    control: ControlLog
    steps: StepsLog
    engine: EngineFactory
    watch: Callable[
        [InputSpec, Mapping[int, int], Callable[[int], bool], Mapping[int, InputSlice]], InputWatcher
    ]


class NodeSession:
    """Runs one node until it is told to exit."""

    def __init__(
        self,
        pipeline: str,
        node: int,
        ports: NodePorts,
        received_every_ms: int = DEFAULT_RECEIVED_EVERY_MS,
        deadline_ms: int = DEFAULT_DEADLINE_MS,
        observer: NodeObserver = NOBODY,
        listens: str = "",
        environment: Environment | None = None,
        planning: str = "",
        health: Health | None = None,
        new_id: Callable[[], str] = lambda: uuid4().hex,
        layout_asked: Callable[[], None] = lambda: None,
        heard: PipelineView | None = None,
        placement: AgentPlacement | None = None,
    ) -> None:
        """received_every_ms: arrivals of one input are gathered for so long at least after each that is published (`Pace`).
        deadline_ms: how long Kafka may be away before the node gives up.
        listens: URL of the process, for whoever looks for it in the log; '' if it has none.
        environment, planning: what it computes with, and when it plans its queries, for the same.
        health: told that the event loop turns, and what the engine does.
        new_id: names this incarnation, as nobody else is named.
        layout_asked: called, once both logs are read, when somebody has asked for another layout, maybe long ago, and whenever
        somebody does.
        heard: what the control log's reader has read, if it does not stand at the beginning.
        placement: by which an agent has started this process.
        """
        self.hung = False
        """The engine has not answered in time, not even to close."""
        self._log = logging.getLogger(f"kcontrol.node.{pipeline}.{node}")
        self._pipeline = pipeline
        self._node = node
        self._about = (socket.gethostname(), os.getpid(), listens, environment, planning, placement)
        self._new_id = new_id
        self._layout_asked = layout_asked
        self._health = health or Health()
        self._state = NodeMachine.initial(pipeline, node, placement)
        if heard is not None:
            self._state.view = heard
        self._closing: asyncio.Task[None] | None = None
        self._ports = ports
        self._pace = Pace(received_every_ms, self._now_ms)
        self._deadline_ms = deadline_ms
        self._publisher = Publisher(ports.control, self._log, deadline_ms)
        self._ticker = Ticker(ports.clock, self._tick)
        self._timeline = Timeline(self._log, time.monotonic_ns, observer)
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> Exit:
        """Join, work, and return when the state machine says that this incarnation is over.

        Raises: NotFoundError without a spec in the log; ExceptionGroup of whatever went wrong otherwise.
        """
        self._loop = asyncio.get_running_loop()
        self._exit: asyncio.Future[Exit] = self._loop.create_future()
        incarnation = await self._join()
        # Through its own join: it works by the newest definition that was there when it
        # joined, whatever a replica shows.
        control = await self._again(
            lambda: self._ports.control.read_through(incarnation), "reading the control topic"
        )
        view = reduce(control_view.evolve, control, self._state.view)
        if view.is_replaced(self._node, incarnation, self._state.placement):
            # Not even the engine is made: on the same host it would take the working directory of who is the node.
            return Exit(self._state.replaced_reason, replaced=True)
        spec = self._spec_of(view)
        if spec.checkpoint.location:
            await self._begin_at_checkpoint()
        steps = await self._again(self._ports.steps.read_to_end, "reading the steps topic")
        engine = self._ports.engine(spec, incarnation, self._on_engine_failure)
        self._jobs = EngineJobs(
            engine, self._ports.clock, self._dispatch, self._log, spec.limits, self._health
        )
        watchers = self._watchers(spec, steps)
        try:
            async with asyncio.TaskGroup() as self._group:
                # A deletion among these is of an earlier pipeline of this name.
                self._take_control(control)
                self._see_steps(steps)
                restorable = await self._restorable(engine, spec.limits)
                if self._needs_all_steps(spec, engine, restorable):
                    await self._read_all_steps()
                    restorable = await self._restorable(engine, spec.limits)
                joined = Joined(
                    incarnation, engine.openable(), self._now_ms(), self._ports.clock.now_ms(), restorable
                )
                self._dispatch(joined)
                self._start(watchers)
                if self._state.view.layout_request() is not None:
                    # Maybe long ago.
                    self._layout_asked()
                ended = await self._exit
                await self._publisher.drained()
                for task in list(self._tasks):
                    task.cancel()
        finally:
            engine.cancel()
            await self._jobs.parts.close()
            try:
                if self._exit.done() and not self._exit.cancelled() and self._exit.result().relaid:
                    # Whoever goes on in this process need not wait for that before it opens something else.
                    self._closing = asyncio.create_task(self._close(engine, spec.limits))
                else:
                    await self._close(engine, spec.limits)
            finally:
                for watcher in watchers.values():
                    await watcher.close()
        return ended

    @property
    def read(self) -> tuple[PipelineView, StepsView]:
        """What was read of both logs, of the control log all."""
        return self._state.view, self._state.steps

    async def closed(self) -> None:
        """After `run`: until the engine's queries have stopped, or are not waited for any more (`hung`)."""
        if self._closing is not None:
            await asyncio.shield(self._closing)

    async def _close(self, engine: Engine, limits: LimitsSpec) -> None:
        """An engine that hangs is left as it is: whoever has started Spark ends its JVM."""
        if self._jobs.hung:
            self.hung = True
            self._health.rests()
            return
        what, limit_ms = time_limit(CloseEngine(), limits)
        with self._health.at_work(what, limit_ms + GRACE_MS):
            try:
                async with asyncio.timeout(limit_ms / 1000):
                    await engine.close()
            except TimeoutError:
                self.hung = True
                self._log.warning(
                    "%s: Spark has not answered for %d ms and is not waited for", what, limit_ms
                )
            except Exception as error:  # noqa: BLE001 - why the session ends is known, and is not for this to change
                self._log.warning("%s failed: %s", what, error)
        self._health.rests()

    def _on_engine_failure(self, error: BaseException) -> None:
        self._loop.call_soon_threadsafe(self._jobs.failed_while_idle, error)

    async def _join(self) -> int:
        join = NodeJoin(self._pipeline, self._node, self._new_id(), *self._about)
        (incarnation,) = await self._again(lambda: self._ports.control.append([join]), "joining")
        return incarnation

    async def _again(self, action: Callable[[], Awaitable[_Chunk]], what: str) -> _Chunk:
        return await until_deadline(action, what, self._log, self._deadline_ms)

    async def _begin_at_checkpoint(self) -> None:
        newest = await self._again(self._ports.steps.begin_at_checkpoint, "looking for the newest checkpoint")
        if newest is not None:
            self._state = self._state.begun_at(newest)

    def _needs_all_steps(self, spec: PipelineSpec, engine: Engine, restorable: Sequence[int]) -> bool:
        """Whether steps that were left out may be of use: nothing can be opened from
        which those that were read go on."""
        steps, first_read = self._state.steps, self._state.boundaries.first
        if not spec.stateful or first_read <= steps.first:
            return False
        openable = engine.openable()
        if any(step >= first_read - 1 for step in (*openable, *restorable)):
            return False
        return any(steps.can_replay_after(step) for step in (0, *openable))

    async def _read_all_steps(self) -> None:
        self._log.warning("no checkpoint that is kept can be opened here: reading the whole log of steps")
        self._ports.steps.begin_at_start()
        self._state = self._state.unread()
        self._see_steps(await self._again(self._ports.steps.read_to_end, "reading the steps topic"))

    async def _restorable(self, engine: Engine, limits: LimitsSpec) -> tuple[int, ...]:
        return await find_restorable(engine, self._state.steps, limits, self._health, self._log)

    def _spec_of(self, view: PipelineView) -> PipelineSpec:
        """The newest definition."""
        spec = view.spec()
        if spec is None:
            raise NotFoundError(
                f"pipeline {self._pipeline!r} has no definition in the control topic: submit it first"
            )
        return spec

    def _watchers(self, spec: PipelineSpec, steps: Sequence[LoggedStep]) -> dict[str, InputWatcher]:
        read = Read.of(each.record for each in steps if isinstance(each.record, StepBoundary))
        watchers = {}
        for input_ in spec.inputs:
            takes = partial(self._reads, spec, input_)
            from_ = read.up_to(input_, takes)
            watchers[input_.name] = self._ports.watch(input_, from_, takes, read.last(input_, from_))
        return watchers

    def _reads(self, spec: PipelineSpec, input_: InputSpec, partition: int) -> bool:
        return node_of(input_, spec.nodes, partition) == self._node

    def _start(self, watchers: Mapping[str, InputWatcher]) -> None:
        self._spawn(self._publisher.run())
        self._spawn(self._ticker.run())
        self._spawn(self._jobs.run())
        self._follow(self._ports.control.tail, self._see_control, "reading the control topic")
        self._follow(self._ports.steps.tail, self._see_steps, "reading the steps topic")
        for name, watcher in watchers.items():
            arrivals = partial(paced, watcher.arrivals, self._pace.pause_s)
            self._follow(arrivals, partial(self._see_input, name), f"watching input {name}")

    def _follow(
        self, stream: Callable[[], AsyncIterator[_Chunk]], take: Callable[[_Chunk], None], what: str
    ) -> None:
        self._spawn(follow(stream, take, what, self._log, self._deadline_ms))

    def _see_input(self, name: str, arrival: Arrival) -> None:
        partitions, size_bytes = arrival
        self._dispatch(InputArrived(name, partitions, size_bytes, self._now_ms()))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _see_control(self, chunk: Sequence[Logged]) -> None:
        if any(is_deletion(logged.record, self._pipeline) for logged in chunk) and not self._exit.done():
            reason = (
                f"pipeline {self._pipeline} was deleted while node {self._node} was at work: end this process"
            )
            self._exit.set_result(Exit(reason, False, False))
            return
        self._take_control(chunk)
        if any(isinstance(logged.record, LayoutRequest) for logged in chunk):
            self._layout_asked()

    def _take_control(self, chunk: Sequence[Logged]) -> None:
        for logged in chunk:
            self._dispatch(ControlSeen(logged, self._now_ms()))

    def _see_steps(self, chunk: Sequence[LoggedStep]) -> None:
        for logged in chunk:
            if isinstance(logged.record, StepBoundary):
                self._timeline.mark(logged.record.step, "committed")
            self._dispatch(StepSeen(logged, self._now_ms()))

    async def _tick(self) -> None:
        self._health.beat()
        self._dispatch(Tick(self._now_ms(), self._ports.clock.now_ms()))

    def _dispatch(self, event: NodeEvent) -> None:
        if self._exit.done():
            if isinstance(event, ControlSeen):
                # For whoever goes on from here.
                self._state = self._state.copy()
                self._state.view = control_view.evolve(self._state.view, event.logged)
            return
        match event:
            case AttemptWritten(step):
                self._timeline.mark(step, "written")
            case StepFinished(step):
                self._timeline.end(step)
                self._pace.step_ends()
        decision = decide(self._state, event)
        ended = decision.state.ended
        if isinstance(event, AttemptWritten) and not event.stage and ended is not None:
            self._tell_recorded(event, ended)
        if decision.state.at is not self._state.at:
            self._log.debug(
                "%s -> %s on %s", self._state.at.value, decision.state.at.value, type(event).__name__
            )
        self._state = decision.state
        for effect in decision.effects:
            self._carry_out(effect)

    def _tell_recorded(self, event: AttemptWritten, ended: EndTimes) -> None:
        """Of the step before: only now is it known."""
        if event.result.recorded_ms is not None:
            self._timeline.add("recorded", ended.recorded_ms - ended.seen_ms)

    def _carry_out(self, effect: NodeEffect) -> None:
        match effect:
            case Publish():
                self._publisher.put(effect)
            case WakeAt(at_ms):
                self._ticker.wake_at(at_ms)
            case RunStep(work, expected):
                self._timeline.begin(work.step, expected is not None)
                self._pace.step_begins()
                self._jobs.put(effect)
            case OpenEngine() | RunStage() | FinishStep() | PinStep() | CloseEngine():
                self._jobs.put(effect)
            case MakeReady(work):
                self._jobs.make_ready(work)
            case SavePart():
                self._jobs.parts.save(effect)
            case DropParts(kept):
                self._jobs.parts.drop(kept)
            case CancelAttempt():
                self._jobs.cancel()
            case Exit():
                if not self._exit.done():
                    self._exit.set_result(effect)
            case _:
                assert_never(effect)

    def _now_ms(self) -> int:
        return self._ports.clock.monotonic_ms()

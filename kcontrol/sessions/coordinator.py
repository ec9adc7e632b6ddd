"""The shell around the coordinator's state machine for one pipeline: events in, effects carried out in order.

A session lives from one assignment (or crash) to the next. It is the only caller of its state machine, and it
calls it synchronously on the event loop, so no event can overtake another. What takes time runs as a task and
comes back as exactly one event. Control records reach it two ways, pushed by Faust's agent (fast) and read by
its own reader (certain); the offset says which of them is first, so each is seen once and in order.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, assert_never
from uuid import uuid4

from kcontrol.core.coordinator.clock import difference_text
from kcontrol.core.coordinator.decide import CoordinatorState, decide
from kcontrol.core.events import (
    AddPartitions,
    Assigned,
    CheckpointCommitted,
    CommitCheckpoint,
    CommitStep,
    ControlSeen,
    CoordinatorEffect,
    CoordinatorEvent,
    EndProved,
    EndsReached,
    Following,
    InitProducer,
    PartitionsAdded,
    ProducerReady,
    ProveEnd,
    Publish,
    ReadToEnds,
    Resign,
    StepCommitted,
    StepSeen,
    Tick,
    TransactionFailed,
    WakeAt,
)
from kcontrol.core.failures import kind_of
from kcontrol.core.log.definitions import is_deletion
from kcontrol.core.log.keys import numbered
from kcontrol.core.model import Checkpoint, FailureKind, Logged, LoggedStep, PipelineSpec
from kcontrol.errors import ClusterError, CommitUnknownError, FencedError, RetriableError
from kcontrol.sessions.observers import NOBODY, CoordinatorObserver
from kcontrol.sessions.ports import Clock, ControlLog, ExchangePurge, OwnedStepsLog, Transaction
from kcontrol.sessions.publisher import Publisher
from kcontrol.sessions.retrying import DEFAULT_DEADLINE_MS, until_deadline
from kcontrol.sessions.ticker import Ticker

_DELETED = "the pipeline was deleted"

QUIET_MS = 1_500
"""After so long without a control record (nodes speak every second) the session looks for
itself before it lets time pass."""


@dataclass(frozen=True)
class CoordinatorPorts:
    """The world of one session. Readers stand at the beginning of their partitions; the session closes none
    of them."""

    clock: Clock
    control: ControlLog
    steps: OwnedStepsLog
    transaction: Transaction
    purge: ExchangePurge | None = None
    """None: what nodes have sent each other is left to Kafka's retention."""


class CoordinatorSession:
    """Looks after one pipeline until it resigns, crashes or is cancelled."""

    def __init__(
        self,
        state: CoordinatorState,
        ports: CoordinatorPorts,
        deadline_ms: int = DEFAULT_DEADLINE_MS,
        observer: CoordinatorObserver = NOBODY,
        new_id: Callable[[], str] = lambda: uuid4().hex,
    ) -> None:
        """state: before anything was read. deadline_ms: how long Kafka may be away before the session gives
        up.
        new_id: names the session, as nobody else is named.
        """
        self._log = logging.getLogger(f"kcontrol.coordinator.{state.pipeline}")
        self._state = state
        self._ports = ports
        self._deadline_ms = deadline_ms
        self._observer = observer
        self._new_id = new_id
        self._publisher = Publisher(ports.control, self._log, deadline_ms, self._published)
        self._ticker = Ticker(ports.clock, self._tick)
        self._reading = asyncio.Lock()
        self._pushed: deque[tuple[int, Logged | None]] = deque()
        self._folded = False
        self._begun = False
        self._catching_up = False
        # Right after an assignment it has yet to seek and to fetch, which takes a second and more.
        self._agent_is_late = True
        self._next_offset = 0
        self._heard_ms = 0
        self._ticked_ms = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._group: asyncio.TaskGroup | None = None
        self._resigned: asyncio.Future[str] | None = None
        self.deleted_at = -1
        """The offset of the record by which the pipeline was deleted, if it was and has no definition since;
        else -1."""

    async def run(self) -> str:
        """Fold the logs, take over, and drive the pipeline; returns why it resigned.
        `deleted_at` says whether it was deleted.

        Raises: ExceptionGroup of whatever went wrong; the caller starts a new session, which claims again.
        """
        self._resigned = asyncio.get_running_loop().create_future()
        self._observer.began(self._state.pipeline)
        try:
            return await self._run(self._resigned)
        finally:
            self._observer.ended(self._state.pipeline)

    async def _run(self, resigned: asyncio.Future[str]) -> str:
        async with asyncio.TaskGroup() as self._group:
            await self._read_control()
            if self.deleted_at >= 0:
                return _DELETED
            self._folded = True
            self._take_pushed()
            wall_ms = self._ports.clock.now_ms()
            self._dispatch(
                Assigned(self._new_id(), socket.gethostname(), os.getpid(), self._now_ms(), wall_ms)
            )
            self._spawn(self._publisher.run())
            self._spawn(self._ticker.run())
            reason = await resigned
            for task in list(self._tasks):
                task.cancel()
        return reason

    def push(self, offset: int, logged: Logged | None) -> None:
        """Take in a record of the partition from Faust's agent; None for one that is nobody's (a schema,
        say)."""
        self._pushed.append((offset, logged))
        self._agent_is_late = self._agent_is_late and offset < self._next_offset
        if self._folded:
            self._take_pushed()

    def _take_pushed(self) -> None:
        while self._pushed and not self._catching_up:
            offset, logged = self._pushed[0]
            if offset > self._next_offset:
                # Compaction, or something that the agent was not given: our own reader knows which.
                self._catching_up = True
                self._spawn(self._catch_up(offset))
                return
            self._pushed.popleft()
            self._see(offset, logged)

    async def _catch_up(self, offset: int) -> None:
        # Through what was pushed, which is there: a broker that is behind would show an end before it.
        await self._read_control(partial(self._ports.control.read_through, offset))
        self._next_offset = max(self._next_offset, offset)
        self._catching_up = False
        self._take_pushed()

    def _published(self, offset: int) -> None:
        """What follows waits for the session's own words (the claim above all), not for Faust."""
        if self._agent_is_late and offset >= self._next_offset:
            self._spawn(self._read_control(partial(self._ports.control.read_through, offset)))

    def _see(self, offset: int, logged: Logged | None) -> None:
        if offset < self._next_offset:
            return
        self._next_offset = offset + 1
        self._heard_ms = self._now_ms()
        if logged is None:
            return
        if is_deletion(logged.record, self._state.pipeline):
            self.deleted_at = offset
        elif isinstance(logged.record, PipelineSpec) and logged.record.pipeline == self._state.pipeline:
            self.deleted_at = -1
        if self._folded and self.deleted_at >= 0:
            # Whoever said another word would write under keys of a pipeline that is not there any more.
            self._resign(_DELETED)
        else:
            self._dispatch(ControlSeen(logged, self._heard_ms))

    async def _read_control(self, read: Callable[[], Awaitable[list[Logged]]] | None = None) -> None:
        read = read or self._ports.control.read_to_end
        async with self._reading:
            records = await until_deadline(read, "reading the control topic", self._log, self._deadline_ms)
            for logged in records:
                self._see(logged.offset, logged)

    async def _tick(self) -> None:
        now_ms = self._now_ms()
        if self._agent_is_late or now_ms - min(self._heard_ms, self._ticked_ms) > QUIET_MS:
            # A process that was stopped for a while wakes up with old news: read before judging who is alive.
            # And while Faust waits for a broker that hangs, nothing is pushed: once our own reader was first,
            # it reads on at every tick.
            known = self._next_offset
            await self._read_control()
            self._agent_is_late = self._agent_is_late or self._next_offset > known
            self._heard_ms = self._now_ms()
        self._ticked_ms = self._now_ms()
        self._dispatch(Tick(self._ticked_ms, self._ports.clock.now_ms()))

    async def _look_on(self) -> None:
        """What comes next is seen to while a commit is on its way."""
        self._dispatch(Tick(self._now_ms(), self._ports.clock.now_ms()))

    def _dispatch(self, event: CoordinatorEvent) -> None:
        if self._resigned is None or self._resigned.done():
            return
        decision = decide(self._state, event)
        if decision.state.at is not self._state.at:
            self._log.debug(
                "%s -> %s on %s", self._state.at.value, decision.state.at.value, type(event).__name__
            )
        difference_ms = decision.state.step_clock.difference_ms
        if difference_ms and difference_ms != self._state.step_clock.difference_ms:
            self._log.warning("%s", difference_text(difference_ms))
        self._observer.moved(self._state, decision.state)
        self._state = decision.state
        for effect in decision.effects:
            self._carry_out(effect)

    def _carry_out(self, effect: CoordinatorEffect) -> None:
        match effect:
            case Publish():
                self._publisher.put(effect)
            case WakeAt(at_ms):
                self._ticker.wake_at(at_ms)
            case InitProducer():
                self._spawn(self._answer(partial(self._init_producer, effect)))
            case ReadToEnds(settled):
                self._spawn(self._answer(partial(self._read_to_ends, settled)))
            case AddPartitions():
                self._spawn(self._answer(partial(self._add_partitions, effect)))
            case CommitStep():
                self._spawn(self._answer(partial(self._commit_step, effect)))
                self._spawn(self._look_on())
            case CommitCheckpoint():
                self._spawn(self._answer(partial(self._commit_checkpoint, effect)))
            case ProveEnd():
                self._spawn(self._answer(partial(self._prove_end, effect)))
            case Resign(reason):
                self._resign(reason)
            case _:
                assert_never(effect)

    def _resign(self, reason: str) -> None:
        if self._resigned is not None and not self._resigned.done():
            self._resigned.set_result(reason)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        if self._group is None:
            raise RuntimeError("the session is not running")
        task = self._group.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, work: Callable[[], Awaitable[CoordinatorEvent]]) -> None:
        try:
            event = await work()
        except (FencedError, RetriableError, CommitUnknownError, ClusterError) as error:
            kind = kind_of(error)
            if kind is FailureKind.DENIED:
                self._log.error("%s", error)
            # A topic that is gone, too, is worth waiting for: the status says what is
            # wrong until somebody puts it right.
            event = TransactionFailed(
                FailureKind.BROKER if kind is FailureKind.QUERY else kind, str(error), self._now_ms()
            )
        self._dispatch(event)

    async def _init_producer(self, effect: InitProducer) -> CoordinatorEvent:
        producer_id, producer_epoch = await self._ports.transaction.init_producer(effect.timeout_ms)
        return ProducerReady(producer_id, producer_epoch, self._now_ms())

    async def _read_to_ends(self, settled: bool) -> CoordinatorEvent:
        await self._read_control()
        await self._begin_steps()
        steps = self._ports.steps
        for logged in await (
            steps.read_settled(self._ports.transaction.log_end) if settled else steps.read_to_end()
        ):
            self._dispatch(StepSeen(logged, self._now_ms()))
        return EndsReached(steps.position, self._now_ms())

    async def _begin_steps(self) -> None:
        """Once, before the first step is read: what is before the oldest checkpoint that is kept need not
        be."""
        spec = self._state.view.spec()
        if not self._begun and spec is not None and spec.checkpoint.location:
            newest = await self._ports.steps.begin_at_checkpoint()
            if newest is not None:
                self._state = self._state.begun_at(newest)
        self._begun = True

    async def _add_partitions(self, effect: AddPartitions) -> CoordinatorEvent:
        await self._ports.transaction.add_partitions(
            effect.producer_id, effect.producer_epoch, effect.partitions
        )
        return PartitionsAdded(self._now_ms())

    async def _commit_step(self, effect: CommitStep) -> CoordinatorEvent:
        boundary = replace(effect.boundary, committed_ms=self._ports.clock.now_ms())
        producer = effect.producer_id, effect.producer_epoch
        found = await self._ports.transaction.commit_step(*producer, boundary, effect.expected_offset)
        if found is None:
            return StepCommitted(boundary.step, self._now_ms())
        self._ports.steps.pass_over(found.offset + 1)
        following = Following(*found.producer, LoggedStep(found.offset, boundary), found.end)
        return StepCommitted(boundary.step, self._now_ms(), following)

    async def _commit_checkpoint(self, effect: CommitCheckpoint) -> CoordinatorEvent:
        made, at = effect.checkpoint, effect.expected_offset
        producer = effect.producer_id, effect.producer_epoch
        await self._ports.transaction.commit_checkpoint(*producer, made, at, effect.forget, effect.assignment)
        if made is not None:
            self._purge(made, effect.forget)
        return CheckpointCommitted(0 if made is None else made.step, self._now_ms())

    def _purge(self, made: Checkpoint, forgotten: Collection[str]) -> None:
        """Once the log has dropped steps, nobody reads any more what nodes sent each other in them."""
        spec, purge = self._state.view.spec(), self._ports.purge
        if purge is not None and spec is not None and spec.exchanges and made.first_step > 1 and forgotten:
            dropped = [step for kind, step in map(numbered, forgotten) if kind == "step"]
            self._spawn(purge.purge(spec.exchanges, made.first_step, dropped))

    async def _prove_end(self, effect: ProveEnd) -> CoordinatorEvent:
        await self._ports.transaction.prove_end(effect.producer_id, effect.producer_epoch)
        return EndProved(self._now_ms())

    def _now_ms(self) -> int:
        return self._ports.clock.monotonic_ms()

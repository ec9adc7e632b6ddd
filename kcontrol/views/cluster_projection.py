"""All pipelines of a cluster, followed as their logs grow: what an HTTP server answers from.

A process that has just started folds every control partition and the log of steps of each pipeline that it
finds; from then on it takes in what comes. It says of itself what it still waits for. When Kafka is away,
what is known stays, and says as of which offsets it is; nothing here ever gives up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby, takewhile
from typing import TypeVar

from kcontrol.backoff import Backoff, Tries
from kcontrol.core.log.definitions import is_deletion
from kcontrol.core.model import InputSpec, Logged, LoggedStep, PipelineSpec, StepBoundary, Tombstone
from kcontrol.errors import ClusterError, DamagedRecordError, RetriableError
from kcontrol.sessions.ports import Clock, ProjectionSource, Reach, StepsArchive, WatchedControlLog
from kcontrol.views.pipeline_projection import PipelineProjection, never_submitted
from kcontrol.views.retention import replay_inputs
from kcontrol.wire.keys import pipeline_of
from kcontrol.wire.names import control_partition

_log = logging.getLogger("kcontrol.projections")
AWAY = Backoff(first_ms=100, longest_ms=5_000)
"""Between tries at what can't be read. It goes on for ever: what is shown says why it is not newer."""

ENDS_EVERY_S = 2.0
"""How often Kafka is asked how far inputs reach."""
RETENTION_EVERY_S, RETENTION_FIRST_S = 60.0, 1.0
"""How often Kafka is asked what it has of inputs; and how often it is looked whether there are any."""
_Result = TypeVar("_Result")

OnStep = Callable[[str, StepBoundary], None]
"""Told of each step that is committed after the log was folded: pipeline, boundary."""


class NotReadyError(RetriableError):
    """What was asked for has not been read from Kafka yet."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Something that this process waits for before it is ready."""

    phase: str
    since_ms: int
    error: str


@dataclass
class _Pipeline:
    projection: PipelineProjection
    steps: StepsArchive | None = None
    ready: bool = False
    broken: str = ""
    following: asyncio.Task[None] | None = None


@dataclass
class _Partition:
    log: WatchedControlLog | None = None
    offset: int = -1
    folded: bool = False


class Projections:
    """Use from one event loop; `run` is to be kept running as a task."""

    def __init__(self, source: ProjectionSource, clock: Clock, on_step: OnStep = lambda *_: None) -> None:
        self._source = source
        self._clock = clock
        self._on_step = on_step
        self._partitions: list[_Partition] = []
        self._pipelines: dict[str, _Pipeline] = {}
        self._blocked: dict[str, Blocked] = {}
        self._moved = asyncio.Event()
        self._group: asyncio.TaskGroup | None = None
        self._block("connecting to Kafka")

    # --- what is known --------------------------------------------------------------------------------------

    def blocked(self) -> list[Blocked]:
        """What keeps this process from being ready; empty when it is."""
        return list(self._blocked.values())

    def broken(self) -> dict[str, str]:
        """Pipelines whose logs can't be followed, and why. The others are not affected."""
        return {name: one.broken for name, one in sorted(self._pipelines.items()) if one.broken}

    def names(self) -> list[str]:
        """Of all submitted pipelines, sorted. Raises NotReadyError before every control partition was read
        once."""
        self._check_folded(self._partitions)
        return self.known()

    def known(self) -> list[str]:
        """The same as far as it is known, whatever was read."""
        return sorted(name for name, one in self._pipelines.items() if one.projection.view.spec() is not None)

    def get(self, name: str) -> PipelineProjection:
        """Raises NotFoundError: no such pipeline. NotReadyError: its logs were not read
        yet. DamagedRecordError: can't be."""
        self._check_folded([self._partition_of(name)])
        one = self._pipelines.get(name)
        if one is None or one.projection.view.spec() is None:
            raise never_submitted(name)
        if one.broken:
            raise DamagedRecordError(one.broken)
        if not one.ready:
            raise NotReadyError(
                f"pipeline {name!r}: its log of steps is still being read; try again in a second"
            )
        return one.projection

    def rejected(self) -> Mapping[str, int]:
        """Control records that were left out, by reason."""
        found: dict[str, int] = {}
        for partition in self._partitions:
            for reason, count in (partition.log.rejected_by if partition.log is not None else {}).items():
                found[reason] = found.get(reason, 0) + count
        return found

    def partition_number(self, name: str) -> int:
        """The control partition that a pipeline lives in. Raises NotReadyError before Kafka was reached."""
        if not self._partitions:
            raise NotReadyError("Kafka has not been reached yet; GET /health/ready says what is waited for")
        return control_partition(name, len(self._partitions))

    def control_log(self, name: str) -> WatchedControlLog:
        """For writing to the partition that a pipeline lives in. Raises NotReadyError before it was
        opened."""
        log = self._partition_of(name).log
        if log is None:
            raise NotReadyError(
                "the control topic is not open yet; GET /health/ready says what is waited for"
            )
        return log

    async def reach(self, name: str, item: InputSpec) -> Reach:
        """How far an input's topic reaches now. Raises TopicError or RetriableError."""
        return await self._source.reach(name, item)

    async def prepare(self, spec: PipelineSpec) -> None:
        """Check a definition's topics and make kcontrol's own for it. Raises TopicError or
        ConfigurationError."""
        await self._source.prepare(spec)

    def specs(self) -> dict[str, PipelineSpec]:
        """The definitions in force, by pipeline. Raises NotReadyError before every
        control partition was read once."""
        return {name: self._pipelines[name].projection.spec() for name in self.names()}

    async def boundaries(self, name: str, first: int, last: int) -> list[LoggedStep]:
        """The boundaries of the steps from `first` to `last`, as far as they are in the
        log; old ones are read from Kafka."""
        projection, one = self.get(name), self._pipelines[name]
        # Mostly the newest are asked for: from the right, so that a page does not cost a look at all that are
        # held.
        newest_first = takewhile(lambda logged: first <= _step(logged), reversed(projection.recent))
        recent = [logged for logged in newest_first if _step(logged) <= last][::-1]
        oldest = _step(recent[0]) if recent else last + 1
        from_, to = (
            projection.index.offset_of(max(first, projection.committed.first)),
            projection.index.offset_of(oldest - 1),
        )
        if oldest <= first or one.steps is None or from_ is None or to is None:
            return recent
        older = await one.steps.read_range(from_, to + 1)
        return [logged for logged in older if first <= _step(logged) < oldest] + recent

    async def reached(self, name: str, offset: int, timeout_s: float) -> bool:
        """Wait until the control record at `offset` of the pipeline's partition has been
        taken in; False if not in time."""
        partition = self._partition_of(name)
        return await self.until(lambda: partition.offset >= offset, timeout_s)

    async def shown(self, name: str, offset: int, timeout_s: float) -> bool:
        """The same, and until the pipeline's log of steps was read, or can't be."""

        def is_shown() -> bool:
            one = self._pipelines.get(name)
            return (
                self._partition_of(name).offset >= offset
                and one is not None
                and (one.ready or bool(one.broken))
            )

        return await self.until(is_shown, timeout_s)

    async def until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `condition()` holds, which is looked at whenever something new was
        taken in; False if not in time."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self._moved.wait()
        except TimeoutError:
            return condition()
        return True

    def _partition_of(self, name: str) -> _Partition:
        return self._partitions[self.partition_number(name)]

    def _check_folded(self, partitions: Iterable[_Partition]) -> None:
        if not self._partitions or not all(partition.folded for partition in partitions):
            raise NotReadyError(
                "the control topic is still being read; GET /health/ready says what is waited for"
            )

    # --- following ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Follow all logs until cancelled."""
        try:
            count = await self._until_it_works("connecting to Kafka", self._source.partitions)
            self._partitions = [_Partition() for _ in range(count)]
            for number in range(count):
                self._block(f"reading control partition {number}")
            self._unblock("connecting to Kafka")
            async with asyncio.TaskGroup() as self._group:
                for number, partition in enumerate(self._partitions):
                    self._group.create_task(self._follow_control(number, partition))
                self._group.create_task(self._follow_ends())
                self._group.create_task(self._follow_retention())
        finally:
            await self._close()

    async def _follow_control(self, number: int, partition: _Partition) -> None:
        phase = f"reading control partition {number}"
        log = partition.log = await self._until_it_works(phase, lambda: self._source.control(number))
        self._take_control(partition, await self._until_it_works(phase, log.read_to_end))
        partition.folded = True
        for name, one in self._pipelines.items():
            if self._partition_of(name) is partition:
                one.projection.signs.listen()
        self._unblock(phase)
        while True:
            try:
                async for chunk in log.tail():
                    self._unblock(phase)
                    self._take_control(partition, chunk)
            except (RetriableError, ClusterError) as error:
                await self._wait_after(phase, error, AWAY.begin())
            self._take_control(partition, await self._until_it_works(phase, log.read_to_end))
            self._unblock(phase)

    def _take_control(self, partition: _Partition, chunk: list[Logged]) -> None:
        for (name, deleted), records in groupby(chunk, _pipeline_and_end):
            if deleted:
                self._let_go(name)
                continue
            one = self._pipelines.get(name)
            if one is None:
                one = self._pipelines[name] = _Pipeline(PipelineProjection(name))
                if partition.folded:
                    one.projection.signs.listen()
            one.projection.see_control(records)
            if one.steps is None and one.projection.view.spec() is not None and self._group is not None:
                one.steps = self._source.steps(name)
                self._block(_steps_phase(name))
                one.following = self._group.create_task(self._follow_steps(name, one, one.steps))
        if chunk:
            partition.offset = max(partition.offset, chunk[-1].offset)
            self._move()

    def _let_go(self, name: str) -> None:
        """The pipeline was deleted: one of its name that comes later is another, with a log of steps of its
        own."""
        one = self._pipelines.pop(name, None)
        if one is None or one.steps is None or self._group is None:
            return
        if one.following is not None:
            one.following.cancel()
        self._group.create_task(_closed(one.steps))
        self._unblock(_steps_phase(name))

    async def _follow_steps(self, name: str, one: _Pipeline, steps: StepsArchive) -> None:
        phase, tries, anew = _steps_phase(name), AWAY.begin(), False
        while True:
            try:
                self._take_steps(name, one, await steps.read_to_end())
                one.ready, one.broken, anew = True, "", False
                tries.succeeded()
                self._unblock(phase)
                async for chunk in steps.tail():
                    self._take_steps(name, one, chunk)
            except DamagedRecordError as error:
                if not anew:
                    # Left behind, perhaps: compaction may have removed dropped steps before they were read
                    # here.
                    _log.warning("%s: %s; reading anew what is left", phase, error)
                    anew = True
                    one.projection.forget_steps()
                    steps.begin_at_start()
                    continue
                _log.error("pipeline %s is shown no more: %s", name, error)
                one.broken = str(error)
                self._unblock(phase)
                return
            except (RetriableError, ClusterError) as error:
                if one.ready or isinstance(error, ClusterError):
                    _log.warning("%s: %s; trying again", phase, error)
                    self._unblock(phase)
                    one.broken = "" if one.ready else str(error)
                else:
                    self._block(phase, error)
                await tries.wait()

    def _take_steps(self, name: str, one: _Pipeline, chunk: list[LoggedStep]) -> None:
        one.projection.see_steps(chunk)
        for logged in chunk:
            if one.ready and isinstance(logged.record, StepBoundary):
                self._on_step(name, logged.record)
        self._move()

    async def _follow_ends(self) -> None:
        """Nodes say how far inputs reach while they live; Kafka always does."""
        while True:
            ready = [one.projection for one in self._pipelines.values() if one.ready]
            topics = {item.topic for projection in ready for item in _inputs(projection)}
            if topics:
                try:
                    reaches = await self._source.ends(topics)
                except (RetriableError, ClusterError) as error:
                    reaches = dict.fromkeys(topics, str(error))
                now_ms = self._clock.now_ms()
                for projection in ready:
                    if projection.view.spec() is not None:
                        projection.see_ends(reaches, now_ms)
                self._move()
            await asyncio.sleep(ENDS_EVERY_S)

    async def _follow_retention(self) -> None:
        """Ask now and then what Kafka still has of inputs; what it may soon take is logged once."""
        said: set[str] = set()
        while True:
            ready = [one.projection for one in self._pipelines.values() if one.ready]
            topics = {item.topic for projection in ready for item in _inputs(projection)}
            if topics:
                try:
                    kept = await self._source.kept(topics)
                except (RetriableError, ClusterError) as error:
                    kept = dict.fromkeys(topics, str(error))
                for projection in ready:
                    projection.kept = kept
                self._move()
                there = [projection for projection in ready if projection.view.spec() is not None]
                warnings = {
                    f"pipeline {p.pipeline}: {one.warning}"
                    for p in there
                    for one in replay_inputs(p)
                    if one.warning
                }
                for warning in sorted(warnings - said):
                    _log.warning("%s", warning)
                said = warnings
            await asyncio.sleep(RETENTION_EVERY_S if topics else RETENTION_FIRST_S)

    async def _until_it_works(self, phase: str, action: Callable[[], Awaitable[_Result]]) -> _Result:
        tries = AWAY.begin()
        while True:
            try:
                return await action()
            except (RetriableError, ClusterError) as error:
                await self._wait_after(phase, error, tries)

    async def _wait_after(self, phase: str, error: Exception, tries: Tries) -> None:
        _log.warning("%s: %s; trying again", phase, error)
        self._block(phase, error)
        await tries.wait()

    def _block(self, phase: str, error: object = "") -> None:
        before = self._blocked.get(phase)
        since_ms = self._clock.now_ms() if before is None else before.since_ms
        self._blocked[phase] = Blocked(phase, since_ms, str(error))

    def _unblock(self, phase: str) -> None:
        if self._blocked.pop(phase, None) is not None:
            self._move()

    def _move(self) -> None:
        self._moved.set()
        self._moved = asyncio.Event()

    async def _close(self) -> None:
        logs = [partition.log for partition in self._partitions if partition.log is not None]
        steps = [one.steps for one in self._pipelines.values() if one.steps is not None]
        closing = (self._source.close(), *(log.close() for log in logs), *(log.close() for log in steps))
        await asyncio.gather(*closing, return_exceptions=True)


def _steps_phase(name: str) -> str:
    return f"reading the steps of pipeline {name}"


def _inputs(projection: PipelineProjection) -> tuple[InputSpec, ...]:
    spec = projection.view.spec()
    return () if spec is None else spec.inputs


def _pipeline_and_end(logged: Logged) -> tuple[str, bool]:
    """Whose record it is, and whether it deletes the pipeline."""
    record = logged.record
    name = pipeline_of(record.key) if isinstance(record, Tombstone) else record.pipeline
    return name, is_deletion(record, name)


async def _closed(steps: StepsArchive) -> None:
    with suppress(RetriableError, ClusterError, OSError):
        await steps.close()


def _step(logged: LoggedStep) -> int:
    return logged.record.step if isinstance(logged.record, StepBoundary) else 0

"""Batches on their way to the partitions of one output: in order within a partition, one under way at a time in each.

A batch whose answer was lost is sent again, the same bytes: the broker knows it by its sequence number (KIP-98) and
acknowledges it where it is. With never more than one under way that is always so, and every other surprise in an answer means
that a second writer is at work under the same producer id and epoch: acknowledged offsets must only go up.

Lives in the event loop; the writer's task hands batches over and waits at the backlog.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from aiokafka.protocol.offset import OffsetRequest

from kcontrol.adapters.kafka.client.background import RawClient
from kcontrol.adapters.kafka.client.produce_protocol import HELD_MS, ProduceAnswer, ProduceRecordsRequest, answers
from kcontrol.adapters.kafka.client.rights import Operation, write_right
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import Deadline, describe_code
from kcontrol.adapters.kafka.write.backlog import Backlog
from kcontrol.adapters.kafka.write.codes import Outcome, outcome_of
from kcontrol.adapters.kafka.write.faults import OutputId, ProduceFaults
from kcontrol.errors import RetriableError
from kcontrol.wire.batches import SealedBatch

REQUEST_BYTES = 4 << 20
"""Batches of several partitions go in one request up to so many bytes."""
_FIRST_RETRY_S = 0.002
_LONGEST_RETRY_S = 0.25
_LATEST, _ANY_REPLICA, _READ_UNCOMMITTED = -1, -1, 0


@dataclass(slots=True)
class PartitionProgress:
    """One partition. `from_` and `end`: of what is acknowledged; before that, `end` is where the log ended when we came."""

    partition: int
    waiting: deque[SealedBatch] = field(default_factory=deque)
    from_: int = -1
    end: int = -1
    records: int = 0
    busy: bool = False
    retry_s: float = _FIRST_RETRY_S
    deadline: Deadline | None = None


class ProduceQueue:
    """Sends what is `put`, in a transaction that somebody else owns."""

    def __init__(
        self,
        client: RawClient,
        output: OutputId,
        transactional_id: str,
        faults: ProduceFaults,
        backlog: Backlog,
        deadline_ms: int,
    ) -> None:
        self._client = client
        self._output = output
        self._transactional_id = transactional_id
        self._faults = faults
        self._backlog = backlog
        self._deadline_ms = deadline_ms
        self._tasks: set[asyncio.Task[None]] = set()
        self._stopped = False
        self._dispatching = False
        self.partitions: dict[int, PartitionProgress] = {}

    def put(self, partition: int, batch: SealedBatch) -> None:
        """The next batch of a partition."""
        self.partitions.setdefault(partition, PartitionProgress(partition)).waiting.append(batch)
        self._dispatch_soon()

    def stop(self) -> None:
        """Send nothing more."""
        self._stopped = True
        for task in self._tasks:
            task.cancel()

    def _dispatch_soon(self) -> None:
        # A writer that ends puts a batch for each of its partitions at once: they may share a request.
        if not self._dispatching and not self._stopped:
            self._dispatching = True
            asyncio.get_running_loop().call_soon(self._dispatch)

    def _dispatch(self) -> None:
        self._dispatching = False
        ready = [progress for progress in self.partitions.values() if progress.waiting and not progress.busy]
        if ready and not self._stopped:
            for progress in ready:
                progress.busy = True
            self._run(ready)

    def _run(self, ready: Sequence[PartitionProgress]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(ready))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, ready: Sequence[PartitionProgress]) -> None:
        try:
            await self._send(ready)
        except* Exception as group:  # noqa: BLE001 - whatever it is, the task that waits at the backlog must hear of it
            self.stop()
            self._backlog.fail(_first(group))

    async def _send(self, ready: Sequence[PartitionProgress]) -> None:
        """One round for partitions that are marked busy: each is free again at its end, or waits for its next try."""
        try:
            by_leader = await self._by_leader(ready)
        except RetriableError as error:
            await self._again(ready, str(error))
            return
        async with asyncio.TaskGroup() as group:
            for leader, led in by_leader.items():
                if leader < 0:
                    group.create_task(self._again(led, "the partition has no leader"))
                    continue
                for request in _requests(led):
                    group.create_task(self._produce(leader, request))

    async def _by_leader(self, ready: Sequence[PartitionProgress]) -> dict[int, list[PartitionProgress]]:
        info = await self._client.topic(self._output.topic, Operation.WRITE, [progress.partition for progress in ready])
        led: dict[int, list[PartitionProgress]] = {}
        for progress in ready:
            led.setdefault(self._faults.leader(info, progress.partition), []).append(progress)
        return led

    async def _produce(self, leader: int, group: Sequence[PartitionProgress]) -> None:
        try:
            await self._learn_ends(leader, [progress for progress in group if progress.end < 0])
            batches = [(progress.partition, progress.waiting[0].data) for progress in group]
            request = ProduceRecordsRequest(self._transactional_id, HELD_MS, self._output.topic, batches)
            response = await self._client.rpc.send(leader, request)
        except RetriableError as error:
            # It may have been written: the same bytes again tell.
            await self._again(group, str(error))
            return
        async with asyncio.TaskGroup() as tasks:
            for answer in answers(response):
                tasks.create_task(self._handle(self.partitions[answer.partition], answer))

    async def _learn_ends(self, leader: int, fresh: Sequence[PartitionProgress]) -> None:
        """Where the log ends before our first batch: if that is acknowledged below, it was somebody else's."""
        if not fresh:
            return
        asked = [(progress.partition, _LATEST) for progress in fresh]
        response = await self._client.rpc.send(
            leader, OffsetRequest(_ANY_REPLICA, _READ_UNCOMMITTED, [(self._output.topic, asked)])
        )
        for partition, code, _, end in response.topics[0][1]:
            self._client.rpc.raise_if_denied(
                code, topic_right(self._output.topic, Operation.WRITE), self._output.where(partition)
            )
            if code:
                raise RetriableError(f"end of {self._output.where(partition)}: {describe_code(code)}")
            self.partitions[partition].end = end

    async def _handle(self, progress: PartitionProgress, answer: ProduceAnswer) -> None:
        batch = progress.waiting[0]
        match outcome_of(answer.code):
            case Outcome.WRITTEN:
                self._written(progress, batch, answer.base_offset)
            case Outcome.AGAIN:
                await self._wait([progress], describe_code(answer.code))
            case Outcome.ELSEWHERE:
                await self._again([progress], describe_code(answer.code))
            case Outcome.TOO_LARGE:
                parts = await self._faults.split(batch, progress.partition)
                progress.waiting.popleft()
                progress.waiting.extendleft(reversed(parts))
                self._backlog.grow(sum(len(part.data) for part in parts) - len(batch.data))
                self._free(progress)
            case outcome:
                self._client.rpc.raise_if_denied(
                    answer.code,
                    write_right(answer.code, self._output.topic, self._transactional_id),
                    self._output.where(answer.partition),
                )
                self._faults.raise_for(outcome, answer)

    def _written(self, progress: PartitionProgress, batch: SealedBatch, base_offset: int) -> None:
        if base_offset < progress.end:
            self._faults.raise_second_writer(progress.partition, base_offset, progress.end)
        progress.waiting.popleft()
        if progress.from_ < 0:
            progress.from_ = base_offset
        progress.end = base_offset + batch.records
        progress.records += batch.records
        progress.retry_s = _FIRST_RETRY_S
        progress.deadline = None
        self._free(progress)
        self._backlog.done(len(batch.data))

    async def _again(self, group: Sequence[PartitionProgress], why: str) -> None:
        """After a fault of the connection or a change of leaders."""
        if any(progress.deadline and progress.deadline.passed for progress in group):
            await self._client.reconnect()
        self._client.forget_topic(self._output.topic)
        await self._wait(group, why)

    async def _wait(self, group: Sequence[PartitionProgress], why: str) -> None:
        for progress in group:
            progress.deadline = progress.deadline or Deadline(self._deadline_ms)
            progress.deadline.check(f"{self._output.where(progress.partition)}: writing", why)
        await asyncio.sleep(max(progress.retry_s for progress in group))
        for progress in group:
            progress.retry_s = min(2 * progress.retry_s, _LONGEST_RETRY_S)
            self._free(progress)

    def _free(self, progress: PartitionProgress) -> None:
        progress.busy = False
        self._dispatch_soon()


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """What went wrong first: partitions are sent to side by side, so errors come in groups."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _requests(group: Sequence[PartitionProgress]) -> Iterator[list[PartitionProgress]]:
    """Partitions whose first batches go in one request."""
    request: list[PartitionProgress] = []
    size = 0
    for progress in group:
        needed = len(progress.waiting[0].data)
        if request and size + needed > REQUEST_BYTES:
            yield request
            request, size = [], 0
        request.append(progress)
        size += needed
    yield request

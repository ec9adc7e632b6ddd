"""Batches on their way to the partitions of one output: in order within a partition, one under way at a time
in each.

A batch whose answer was lost is sent again, the same bytes: the broker knows it by its sequence number
(KIP-98) and acknowledges it where it is. With never more than one under way that is always so, and every
other surprise in an answer means that a second writer is at work under the same producer id and epoch:
acknowledged offsets must only go up.

Where several writers take turns in a partition, a batch gets its sequence number when its turn has come, and is
sent again within that turn only.

Lives in the event loop; the writer's task hands batches over and waits at the backlog.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any

from kcontrol.adapters.kafka.client.background import RawClient
from kcontrol.adapters.kafka.client.codes import ErrorCode, Verdict, describe_code
from kcontrol.adapters.kafka.client.leaders import NoPartitionError, TopicInfo
from kcontrol.adapters.kafka.client.partitions import Bound
from kcontrol.adapters.kafka.client.produce_protocol import ProduceAnswer
from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED
from kcontrol.adapters.kafka.client.rights import Operation, write_right
from kcontrol.adapters.kafka.client.rpc import SETTLING
from kcontrol.adapters.kafka.write.backlog import Backlog
from kcontrol.adapters.kafka.write.faults import OutputId, ProduceFaults
from kcontrol.adapters.kafka.write.progress import PartitionProgress
from kcontrol.adapters.kafka.write.rounds import Rounds
from kcontrol.adapters.kafka.write.turns import Turns
from kcontrol.errors import RetriableError, TopicError
from kcontrol.wire.batches import SealedBatch

REQUEST_BYTES = 4 << 20
"""Batches of several partitions go in one request up to so many bytes."""


class ProduceQueue:
    """Sends what is `put`, in a transaction that somebody else owns. turns: of partitions that other writers
    write too; None: nobody else does."""

    def __init__(
        self,
        client: RawClient,
        output: OutputId,
        transactional_id: str,
        faults: ProduceFaults,
        backlog: Backlog,
        deadline_ms: int,
        turns: Turns | None = None,
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
        self._rounds = None if turns is None else Rounds(turns, self.partitions, backlog, self._dispatch_soon)

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
        if self._stopped:
            return
        ready = [progress for progress in self.partitions.values() if self._may_go(progress)]
        if ready:
            for progress in ready:
                progress.busy = True
            self._run(self._send(ready))
        elif self._rounds is not None and self._rounds.over:
            self._run(self._rounds.next())

    def _may_go(self, progress: PartitionProgress) -> bool:
        has_turn = self._rounds is None or progress.allowed > 0
        return bool(progress.waiting) and has_turn and not progress.busy

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except* Exception as group:  # noqa: BLE001 - whatever it is, the task that waits at the backlog must hear of it
            self.stop()
            self._backlog.fail(_first(group))

    async def _send(self, ready: Sequence[PartitionProgress]) -> None:
        """One round for partitions that are marked busy: each is free again at its end, or waits for its next
        try."""
        wanted = {progress.partition: progress for progress in ready}
        try:
            info = await self._client.partitions.topic(self._output.topic, Operation.WRITE, wanted)
            led = info.led(wanted)
        except NoPartitionError as error:
            raise TopicError(f"{self._output.name}, {error}") from error
        except RetriableError as error:
            await self._again(ready, str(error))
            return
        async with asyncio.TaskGroup() as group:
            for partition in led.by_nobody:
                group.create_task(self._again([wanted[partition]], "the partition has no leader"))
            for leader, partitions in led.by_node.items():
                for request in _requests([wanted[partition] for partition in partitions]):
                    group.create_task(self._produce(info, leader, request))

    async def _produce(self, info: TopicInfo, leader: int, group: Sequence[PartitionProgress]) -> None:
        try:
            await self._learn_ends(info, [progress for progress in group if progress.end < 0])
            batches = [(progress.partition, progress.first().data) for progress in group]
            answers = await self._client.partitions.produce(
                leader, info.name, batches, self._transactional_id
            )
        except RetriableError as error:
            # It may have been written: the same bytes again tell.
            await self._again(group, str(error))
            return
        async with asyncio.TaskGroup() as tasks:
            for answer in answers:
                tasks.create_task(self._handle(self.partitions[answer.partition], answer))

    async def _learn_ends(self, info: TopicInfo, fresh: Sequence[PartitionProgress]) -> None:
        """Where the log ends before our first batch: if that is acknowledged below, it was somebody
        else's."""
        if not fresh:
            return
        numbers = [progress.partition for progress in fresh]
        ask = self._client.partitions.offsets
        ends = await ask(info, numbers, Bound.LATEST, READ_UNCOMMITTED, Operation.WRITE, self._output.name)
        for partition, end in ends.items():
            self.partitions[partition].end = end

    async def _handle(self, progress: PartitionProgress, answer: ProduceAnswer) -> None:
        batch = progress.waiting[0]
        match answer.verdict:
            case Verdict.FINE:
                self._written(progress, answer.base_offset)
            case Verdict.PASSING | Verdict.OTHER_COORDINATOR | Verdict.UNCERTAIN:
                await self._wait([progress], describe_code(answer.code))
            case Verdict.FENCED if answer.code == ErrorCode.INVALID_TXN_STATE and progress.may_be_early:
                await self._wait([progress], describe_code(answer.code))
            case Verdict.OTHER_LEADER | Verdict.MAYBE_GONE:
                await self._again([progress], describe_code(answer.code))
            case Verdict.TOO_LARGE:
                parts = await self._faults.split(batch, progress.partition)
                self._backlog.grow(progress.split(parts))
                self._free(progress)
            case _:
                self._client.rpc.raise_if_denied(
                    answer.code,
                    write_right(answer.code, self._output.topic, self._transactional_id),
                    self._output.where(answer.partition),
                )
                self._faults.raise_for(answer)

    def _written(self, progress: PartitionProgress, base_offset: int) -> None:
        if base_offset < progress.end:
            self._faults.raise_second_writer(progress.partition, base_offset, progress.end)
        batch = progress.acknowledged(base_offset)
        self._free(progress)
        self._backlog.done(len(batch.data))

    async def _again(self, group: Sequence[PartitionProgress], why: str) -> None:
        """After a fault of the connection or a change of leaders."""
        if any(progress.tries and progress.tries.passed for progress in group):
            await self._client.reconnect()
        self._client.partitions.forget(self._output.topic)
        await self._wait(group, why)

    async def _wait(self, group: Sequence[PartitionProgress], why: str) -> None:
        wait_ms = 0
        for progress in group:
            tries = progress.tries = progress.tries or SETTLING.within(self._deadline_ms).begin()
            tries.check(f"{self._output.where(progress.partition)}: writing", why)
            wait_ms = max(wait_ms, tries.failed())
        await asyncio.sleep(wait_ms / 1000)
        for progress in group:
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

"""The InputWatcher port on Kafka: waiting fetches that wake up when committed input arrives, instead of polling.

Each fetch stands at the last stable offset that the one before it has shown, with read_committed, so the broker answers when
that offset moves. Of what is fetched only the headers of batches are looked at, for offsets without a record (input_gaps.py);
the offset beside it counts at once, whether all up to there was looked at or not. Fetches are by topic id: a topic that was
deleted or made anew is told from one that goes on. Every few seconds the topic is looked at for partitions that were added.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any

from aiokafka.protocol.offset import OffsetRequest

from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED, FetchByIdRequest, FetchPosition, topic_id_text
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import Deadline, KafkaRpc, Lane, TopicInfo, describe_code
from kcontrol.adapters.kafka.read.fetch_range import aborted_of
from kcontrol.adapters.kafka.read.input_gaps import LEAST_GAPS, MOST_GAPS, LookBudget, more_gaps
from kcontrol.core.model import ReceivedPartition
from kcontrol.errors import RetriableError, TopicError
from kcontrol.settings.cluster import ClusterSettings

MAX_WAIT_MS = 5_000
"""A fetch returns after so long without input, and then shows how far retention has moved the beginning."""
PARTITIONS_EVERY_S = 5.0
"""How often the topic is looked at for partitions that were added."""
PACE_S = 0.01
"""Least time between two arrivals: busy input is looked at a hundred times a second, not as often as it has batches."""
GONE_TOPIC_ID = ""
"""Instead of a topic id, when there is no topic of the input's name."""

_NEXT_LOOK_S = 1.0
_LOOK_TIMEOUT_MS = 10_000
_LATEST = -1
_EARLIEST = -2
_CONSUMER = -1
_LOOK_AGAIN = frozenset({1, 3, 5, 6, 9, 74, 75, 76, 78, 100})
"""Another leader, another topic, or an end before our position: the offsets must be asked for anew."""

Arrival = tuple[tuple[ReceivedPartition, ...], int]


class KafkaInputWatcher:
    """Watches some partitions of one input topic. One `arrivals` at a time."""

    def __init__(
        self,
        settings: ClusterSettings,
        topic: str,
        partitions: Iterable[int],
        takes: Callable[[int], bool] = lambda _: False,
        partitions_every_s: float = PARTITIONS_EVERY_S,
    ) -> None:
        """partitions: a mapping says from which offset on each is of interest.
        takes: whether to watch a partition, too, that is found in the topic and not among the given ones."""
        self._topic = topic
        self._partitions = sorted(partitions)
        self._position = dict(partitions) if isinstance(partitions, Mapping) else {}
        self._budget = LookBudget()
        self._takes = takes
        self._partitions_every_s = partitions_every_s
        self._look_for_more_at = 0.0
        self._rpc = KafkaRpc(settings)
        self._info: TopicInfo | None = None
        self._state: dict[int, ReceivedPartition] = {}
        self._seen_bytes = 0

    async def arrivals(self) -> AsyncIterator[Arrival]:
        """As the port says; the bytes are those of the batches that were seen on the way, a lower bound.

        Raises RetriableError when Kafka is away; a new call goes on. AccessError: the topic may not be read.
        """
        waiting: dict[int, asyncio.Task[Any]] = {}
        try:
            await self._look()
            yield self._arrival()
            while True:
                self._wait_at_ends(waiting)
                if waiting:
                    done, _ = await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_COMPLETED)
                    changed = await self._take(done, waiting)
                else:
                    await asyncio.sleep(_NEXT_LOOK_S)
                    changed = await self._look()
                if await self._has_grown() or changed:
                    yield self._arrival()
                await asyncio.sleep(PACE_S)
        finally:
            for task in waiting.values():
                task.cancel()
            await asyncio.gather(*waiting.values(), return_exceptions=True)

    async def close(self) -> None:
        await self._rpc.close()

    def _arrival(self) -> Arrival:
        return tuple(self._state[partition] for partition in self._partitions), self._seen_bytes

    async def _look(self) -> bool:
        """Ask for topic id and offsets; whether anything is new."""
        before = dict(self._state)
        try:
            self._info, earliest, latest = await self._ends()
        except TopicError:
            self._info = None
            self._position = {}
            self._state = {partition: ReceivedPartition(partition, GONE_TOPIC_ID, 0, 0) for partition in self._partitions}
            return self._state != before
        topic_id = topic_id_text(self._info.topic_id)
        for partition in self._partitions:
            # A topic that was made anew may have fewer partitions; its id says that it is another one.
            first, end = earliest.get(partition, 0), latest.get(partition, 0)
            known = before.get(partition)
            if known is not None and known.topic_id != topic_id:
                known, self._position[partition] = None, end
            end, gaps = (end, ()) if known is None else (max(end, known.to), known.gaps)
            self._position[partition] = min(max(first, self._position.get(partition, end)), end)
            self._state[partition] = ReceivedPartition(partition, topic_id, first, end, gaps)
        return self._state != before

    async def _has_grown(self) -> bool:
        """Once in a while: whether partitions were added that are to be watched; then they are."""
        if self._info is None or time.monotonic() < self._look_for_more_at:
            return False
        self._look_for_more_at = time.monotonic() + self._partitions_every_s
        try:
            now = await self._rpc.topic(self._topic)
        except TopicError:
            return False  # what is fetched by its id says the same, and is looked into
        return now.topic_id == self._info.topic_id and self._find_more(now) and await self._look()

    def _find_more(self, info: TopicInfo) -> bool:
        more = [partition for partition in info.leaders if partition not in self._partitions and self._takes(partition)]
        self._partitions = sorted([*self._partitions, *more])
        return bool(more)

    async def _ends(self) -> tuple[TopicInfo, dict[int, int], dict[int, int]]:
        """The topic, and where its partitions begin and end: of one and the same topic, though offsets go by name."""
        deadline = Deadline(_LOOK_TIMEOUT_MS)
        while True:
            info = await self._rpc.topic(self._topic)
            self._find_more(info)
            try:
                earliest, latest = await self._offsets(info, _EARLIEST), await self._offsets(info, _LATEST)
                if (await self._rpc.topic(self._topic)).topic_id == info.topic_id:
                    return info, earliest, latest
            except RetriableError as error:
                deadline.check(f"looking at topic {self._topic!r}", error)
            await asyncio.sleep(PACE_S)

    async def _offsets(self, info: TopicInfo, which: int) -> dict[int, int]:
        found = {}
        for leader, partitions in self._by_leader(info).items():
            wanted = [(self._topic, [(partition, which) for partition in partitions])]
            response = await self._rpc.send(leader, OffsetRequest(_CONSUMER, READ_COMMITTED, wanted))
            for partition, code, _, offset in response.topics[0][1]:
                self._rpc.raise_if_denied(code, topic_right(self._topic, Operation.READ), "watching an input")
                if code:
                    raise RetriableError(f"offsets of topic {self._topic!r}, partition {partition}: {describe_code(code)}")
                found[partition] = offset
        return found

    def _by_leader(self, info: TopicInfo) -> dict[int, list[int]]:
        grouped: dict[int, list[int]] = defaultdict(list)
        for partition in self._partitions:
            leader = info.leaders.get(partition)
            if leader is not None and leader < 0:
                raise RetriableError(f"topic {self._topic!r}, partition {partition} has no leader")
            if leader is not None:
                grouped[leader].append(partition)
        return grouped

    def _wait_at_ends(self, waiting: dict[int, asyncio.Task[Any]]) -> None:
        if self._info is None:
            return
        epochs = self._info.epochs
        for leader, partitions in self._by_leader(self._info).items():
            if leader not in waiting:
                size = self._budget.allowed()
                ends = [FetchPosition(each, self._position[each], size, epochs[each]) for each in partitions]
                request = FetchByIdRequest(self._info.topic_id, ends, READ_COMMITTED, MAX_WAIT_MS, 1, size)
                waiting[leader] = asyncio.create_task(self._rpc.send(leader, request, Lane.WAITING))

    async def _take(self, done: set[asyncio.Task[Any]], waiting: dict[int, asyncio.Task[Any]]) -> bool:
        """Use the answers that have come; whether anything is new."""
        before = dict(self._state)
        codes: set[int] = set()
        for leader in [leader for leader, task in waiting.items() if task in done]:
            for topic_id, partitions, _ in waiting.pop(leader).result().topics:
                if self._info is None or topic_id != self._info.topic_id:
                    continue
                codes.update(part[1] for part in partitions)
                for part in partitions:
                    if not part[1]:
                        self._note(*part)
        if codes & _LOOK_AGAIN:
            return await self._look() or self._state != before
        for code in codes:
            self._rpc.raise_if_denied(code, topic_right(self._topic, Operation.READ), "watching an input")
        if unexpected := codes - {0}:
            raise RetriableError(f"watching topic {self._topic!r}: {describe_code(min(unexpected))}")
        return self._state != before

    def _note(self, partition: int, _code: int, _high: int, last_stable: int, log_start: int, *rest: Any) -> None:
        known, position = self._state[partition], self._position[partition]
        records, gaps = rest[2] or b"", known.gaps
        self._seen_bytes += len(records)
        self._budget.spend(len(records))
        if records:
            most = max(LEAST_GAPS, MOST_GAPS // len(self._partitions))
            gaps = more_gaps(gaps, records, aborted_of(rest[0]), position, last_stable, most)
        to = self._position[partition] = max(known.to, last_stable)
        self._state[partition] = ReceivedPartition(partition, known.topic_id, log_start, to, gaps)

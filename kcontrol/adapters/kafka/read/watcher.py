"""The InputWatcher port on Kafka: waiting fetches that wake up when committed input arrives, instead of
polling.

Each fetch stands at the last stable offset that the one before it has shown, with read_committed, so the
broker answers when that offset moves. Of what is fetched only the headers of batches are looked at, for
offsets without a record (input_gaps.py); the offset beside it counts at once, whether all up to there was
looked at or not. Fetches are by topic id: a topic that was deleted or recreated is told from one that goes
on. Every few seconds the topic is looked at for partitions that were added.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

from kcontrol.adapters.kafka.client.codes import LOOK_AGAIN, Verdict, describe_code, verdict_of
from kcontrol.adapters.kafka.client.leaders import TopicInfo
from kcontrol.adapters.kafka.client.partitions import Bound, Partitions
from kcontrol.adapters.kafka.client.protocol import FetchedPartition, FetchPosition, topic_id_text
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import SETTLING, KafkaRpc, Lane
from kcontrol.adapters.kafka.read.input_gaps import LEAST_GAPS, MOST_GAPS, LookBudget, more_gaps
from kcontrol.core.model import ReceivedPartition
from kcontrol.errors import RetriableError, TopicError
from kcontrol.sessions.ports import Arrival, Arrivals
from kcontrol.settings.cluster import ClusterSettings

MAX_WAIT_MS = 5_000
"""A fetch returns after so long without input, and then shows how far retention has moved the beginning."""
PARTITIONS_EVERY_S = 5.0
"""How often the topic is looked at for partitions that were added."""
PACE_S = 0.01
"""Least time between two arrivals: busy input is looked at a hundred times a second, not as often as it has
batches."""
GONE_TOPIC_ID = ""
"""Instead of a topic id, when there is no topic of the input's name."""

GONE_EVERY_S = 1.0
"""How often it is looked whether there is a topic of the input's name again."""
LOOK_TIMEOUT_MS = 10_000

_DOING = "watching an input"
_LOOK_AGAIN = LOOK_AGAIN | {Verdict.OUT_OF_RANGE}
"""Another leader, another topic, or an end before our position: the offsets must be asked for anew."""

_Answer = tuple[TopicInfo, list[FetchedPartition]]


class KafkaInputWatcher:
    """Watches some partitions of one input topic. One `arrivals` at a time."""

    def __init__(
        self,
        settings: ClusterSettings,
        topic: str,
        partitions: Iterable[int],
        takes: Callable[[int], bool] = lambda _: False,
        partitions_every_s: float = PARTITIONS_EVERY_S,
        look_bytes_per_s: int = 4 << 20,
    ) -> None:
        """partitions: a mapping says from which offset on each is of interest.
        look_bytes_per_s: so much is taken whole, to find offsets that hold no record.
        takes: whether to watch a partition, too, that is found in the topic and not among the given ones."""
        self._topic = topic
        self._partitions = sorted(partitions)
        self._position = dict(partitions) if isinstance(partitions, Mapping) else {}
        self._budget = LookBudget(look_bytes_per_s)
        self._takes = takes
        self._partitions_every_s = partitions_every_s
        self._look_for_more_at = 0.0
        self._client = Partitions(KafkaRpc(settings))
        self._info: TopicInfo | None = None
        self._state: dict[int, ReceivedPartition] = {}
        self._seen_bytes = 0

    async def arrivals(self) -> Arrivals:
        """As the port says; the bytes are those of the batches that were seen on the way, a lower bound.

        Raises RetriableError when Kafka is away; a new call goes on. AccessError: the topic may not be read.
        """
        waiting: dict[int, asyncio.Task[_Answer]] = {}
        try:
            await self._look()
            yield self._arrival()
            while True:
                self._wait_at_ends(waiting)
                if waiting:
                    done, _ = await asyncio.wait(waiting.values(), return_when=asyncio.FIRST_COMPLETED)
                    changed = await self._take(done, waiting)
                else:
                    await asyncio.sleep(GONE_EVERY_S)
                    changed = await self._look()
                begun_s = time.monotonic()
                if await self._has_grown() or changed:
                    yield self._arrival()
                # Who listens has a pace of its own, which counts.
                await asyncio.sleep(max(0.0, begun_s + PACE_S - time.monotonic()))
        finally:
            for task in waiting.values():
                task.cancel()
            await asyncio.gather(*waiting.values(), return_exceptions=True)

    async def close(self) -> None:
        await self._client.rpc.close()

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
            self._state = {
                partition: ReceivedPartition(partition, GONE_TOPIC_ID, 0, 0) for partition in self._partitions
            }
            return self._state != before
        topic_id = topic_id_text(self._info.topic_id)
        for partition in self._partitions:
            # A topic that was recreated may have fewer partitions; its id says that it is another one.
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
            now = await self._client.rpc.topic(self._topic)
        except TopicError:
            return False  # what is fetched by its id says the same, and is looked into
        return now.topic_id == self._info.topic_id and self._find_more(now) and await self._look()

    def _find_more(self, info: TopicInfo) -> bool:
        more = [
            partition
            for partition in info.leaders
            if partition not in self._partitions and self._takes(partition)
        ]
        self._partitions = sorted([*self._partitions, *more])
        return bool(more)

    async def _ends(self) -> tuple[TopicInfo, dict[int, int], dict[int, int]]:
        """The topic, and where its partitions begin and end: of one and the same topic, though offsets go by
        name."""
        tries = SETTLING.within(LOOK_TIMEOUT_MS).begin()
        while True:
            info = await self._client.rpc.topic(self._topic)
            self._find_more(info)
            watched = self._watched(info)
            try:
                earliest = await self._client.offsets(info, watched, Bound.EARLIEST, doing=_DOING)
                latest = await self._client.offsets(info, watched, Bound.LATEST, doing=_DOING)
                if (await self._client.rpc.topic(self._topic)).topic_id == info.topic_id:
                    return info, earliest, latest
            except RetriableError as error:
                tries.check(f"looking at topic {self._topic!r}", error)
            await tries.wait()

    def _watched(self, info: TopicInfo) -> list[int]:
        """A topic that was recreated may have fewer partitions."""
        return [partition for partition in self._partitions if partition in info.leaders]

    def _wait_at_ends(self, waiting: dict[int, asyncio.Task[_Answer]]) -> None:
        if self._info is None:
            return
        for leader, partitions in self._info.by_node(self._watched(self._info)).items():
            if leader not in waiting:
                size = self._budget.allowed()
                ends = [FetchPosition(each, self._position[each], size) for each in partitions]
                waiting[leader] = asyncio.create_task(self._fetch(self._info, leader, ends, size))

    async def _fetch(
        self, info: TopicInfo, leader: int, ends: Sequence[FetchPosition], max_bytes: int
    ) -> _Answer:
        return info, await self._client.fetch(info, leader, ends, MAX_WAIT_MS, max_bytes, lane=Lane.WAITING)

    async def _take(
        self, done: set[asyncio.Task[_Answer]], waiting: dict[int, asyncio.Task[_Answer]]
    ) -> bool:
        """Use the answers that have come; whether anything is new."""
        before = dict(self._state)
        codes: set[int] = set()
        for leader in [leader for leader, task in waiting.items() if task in done]:
            info, parts = waiting.pop(leader).result()
            if self._info is None or info.topic_id != self._info.topic_id:
                continue
            for part in parts:
                if part.error_code:
                    codes.add(part.error_code)
                else:
                    self._note(part)
        if any(verdict_of(code) in _LOOK_AGAIN for code in codes):
            return await self._look() or self._state != before
        for code in codes:
            self._client.rpc.raise_if_denied(code, topic_right(self._topic, Operation.READ), _DOING)
        if codes:
            raise RetriableError(f"watching topic {self._topic!r}: {describe_code(min(codes))}")
        return self._state != before

    def _note(self, part: FetchedPartition) -> None:
        known, position = self._state[part.partition], self._position[part.partition]
        gaps = known.gaps
        self._seen_bytes += len(part.data)
        self._budget.spend(len(part.data))
        if part.data:
            most = max(LEAST_GAPS, MOST_GAPS // len(self._partitions))
            gaps = more_gaps(
                gaps, part.data, part.aborted_transactions, position, part.last_stable_offset, most
            )
        to = self._position[part.partition] = max(known.to, part.last_stable_offset)
        self._state[part.partition] = ReceivedPartition(
            part.partition, known.topic_id, part.log_start_offset, to, gaps
        )

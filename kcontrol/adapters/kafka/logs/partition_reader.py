"""A position in one partition that moves on as records are read: by waiting for them, or by going to the end at once.

Both ways share the position and each has a connection of its own, so `read_to_end` answers promptly while a `tail` waits.
What a fetch brought is taken only from the position on, in one go without a pause: each offset is returned once.
Reading is by topic id: a topic that was made anew under its name is an error, never other records.

Every end that a broker names may be old: a new leader's high watermark trails until its followers have fetched from it, and a
broker that was leader until it was stopped answers with what it knew. The leader epoch in each fetch makes a broker refuse that
knows of no such epoch (KIP-320), and no older epoch is gone back to; both make it rare, and neither makes it impossible. So
nothing here proves that there is nothing more: docs/protocol.md says what does, for each read.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED, FetchByIdRequest, FetchPosition, only_partition
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import LOST_GRACE_MS, Deadline, KafkaRpc, Lane, TopicInfo, describe_code
from kcontrol.adapters.kafka.logs.records import RawRecord, Visible, visible_records
from kcontrol.errors import RetriableError, TopicError

MAX_WAIT_MS = 5_000
"""A waiting fetch returns after so long without records; less than the request timeout."""
MAX_FETCH_BYTES = 4 << 20
SOME_BYTES = 64 << 10
READ_TIMEOUT_MS = 20_000
"""`read_to_end` gives up after so long and may be called again."""

_RETRY_S = 0.005

_OFFSET_OUT_OF_RANGE = 1
_ASK_AGAIN = frozenset({3, 5, 6, 9, 74, 75, 78, 100})
"""This broker knows of no such topic or partition, or is not (yet) its leader: ask for the metadata and try again."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """One partition of a fetch response."""

    visible: Visible
    end: int
    """The high watermark, or for read_committed the last stable offset."""
    high_watermark: int


class PartitionReader:
    """Reads one partition from `position` on. One `tail` at a time; any number of `read_to_end`."""

    def __init__(self, rpc: KafkaRpc, topic: str, partition: int, isolation: int, position: int = 0) -> None:
        self._rpc = rpc
        self._topic = topic
        self._partition = partition
        self._isolation = isolation
        self._topic_id: uuid.UUID | None = None
        self._info: TopicInfo | None = None
        self._epoch = -1
        self._turn = asyncio.Lock()
        self.position = position

    @property
    def where(self) -> str:
        return f"topic {self._topic!r}, partition {self._partition}"

    async def tail(self) -> AsyncIterator[list[RawRecord]]:
        """Chunks of records as they arrive, for ever. Raises RetriableError when Kafka is away; a new `tail` goes on."""
        while True:
            answer = await self._fetch(self.position, MAX_WAIT_MS, Lane.WAITING)
            # A read to the end that is under way goes first: it holds earlier records that it has not returned yet.
            async with self._turn:
                records = [record for record in answer.visible.records if record.offset >= self.position]
                self.position = max(self.position, answer.visible.next_offset)
            if records:
                yield records

    async def read_to_end(self) -> list[RawRecord]:
        """All records up to the end offset at the time of the call: the high watermark or, for read_committed, the last
        stable offset.

        Raises RetriableError when the end could not be reached in time; the position is then as it was.
        """
        deadline = Deadline(READ_TIMEOUT_MS)
        async with self._turn:
            answer = await self._fetch(self.position, 0, Lane.PROMPT)
            end = answer.end
            records = answer.visible.records
            while answer.visible.next_offset < end:
                deadline.check(f"{self.where}: reading from {self.position} to {end}")
                answer = await self._fetch(answer.visible.next_offset, 0, Lane.PROMPT)
                records += answer.visible.records
            self.position = answer.visible.next_offset
        return records

    async def read_settled(self, at_least: int, timeout_ms: int) -> list[RawRecord]:
        """All records, once no transaction is open in the partition and `at_least`, an offset that is known to be reached, is.

        Raises RetriableError, the position being as it was: a transaction is still open after the timeout, with what an
        operator can do; or the partition's leader does not show what was acknowledged.
        """
        deadline = Deadline(timeout_ms)
        records: list[RawRecord] = []
        async with self._turn:
            position = self.position
            while True:
                answer = await self._fetch(position, 0, Lane.PROMPT)
                records += answer.visible.records
                moved, position = answer.visible.next_offset > position, answer.visible.next_offset
                if position >= max(answer.end, at_least) and answer.end >= answer.high_watermark:
                    self.position = position
                    return records
                deadline.check(f"{self.where}: reading to its end", self._why_unsettled(answer, position, at_least))
                if not moved:
                    self._info = None if position < at_least else self._info
                    await asyncio.sleep(_RETRY_S)

    def _why_unsettled(self, answer: _Answer, position: int, at_least: int) -> str:
        if position < answer.end:
            return f"{position} of {answer.end} was reached"
        if answer.end < answer.high_watermark:
            topic, partition, begin = self._topic, self._partition, answer.end
            return (
                f"a transaction is open at offset {begin} though its producer was fenced: Kafka has lost its markers. See "
                f"`kafka-transactions.sh describe-producers --topic {topic} --partition {partition}`, and end it with "
                f"`kafka-transactions.sh abort --topic {topic} --partition {partition} --start-offset {begin}` if its step is "
                "to be made again"
            )
        return f"its leader shows records up to offset {position} only, though {at_least} was acknowledged: it is behind"

    async def end(self) -> int:
        """The end offset now, as `read_to_end` takes it."""
        return (await self._fetch(self.position, 0, Lane.PROMPT, max_bytes=1)).end

    async def read_between(self, begin: int, end: int, max_bytes: int = MAX_FETCH_BYTES) -> list[RawRecord]:
        """All records with offsets from `begin` to `end`, which is at most that of `end()` and not included.

        The position stays where it is. max_bytes: of one fetch; a larger batch comes whole all the same.
        """
        records: list[RawRecord] = []
        while begin < end:
            visible = (await self._fetch(begin, 0, Lane.PROMPT, max_bytes)).visible
            records += [record for record in visible.records if record.offset < end]
            begin = visible.next_offset
        return records

    async def read_some(self, begin: int) -> tuple[list[RawRecord], int]:
        """A few records from an offset on, and where to read next; the position stays where it is."""
        visible = (await self._fetch(begin, 0, Lane.PROMPT, max_bytes=SOME_BYTES)).visible
        return visible.records, visible.next_offset

    async def _fetch(self, position: int, max_wait_ms: int, lane: Lane, max_bytes: int = MAX_FETCH_BYTES) -> _Answer:
        """One fetch, tried again while leadership settles."""
        deadline, lost = Deadline(READ_TIMEOUT_MS), Deadline(LOST_GRACE_MS)
        while True:
            info = await self._topic_info()
            leader = info.leaders.get(self._partition)
            if leader is None:
                raise TopicError(f"There is no {self.where}; the topic has {len(info.leaders)} partitions.")
            leads = leader >= 0 and info.epochs[self._partition] >= self._epoch
            part = await self._fetch_once(info, leader, position, max_wait_ms, lane, max_bytes) if leads else None
            if part is not None and part[1] not in _ASK_AGAIN and (part[1] != _OFFSET_OUT_OF_RANGE or lost.passed):
                self._epoch = info.epochs[self._partition]
                return self._answer(part, position)
            deadline.check(
                f"{self.where}: finding its leader",
                describe_code(part[1]) if part else "it has none, or the broker holds back answers",
            )
            self._info = None
            await asyncio.sleep(_RETRY_S)

    async def _fetch_once(
        self, info: TopicInfo, leader: int, position: int, max_wait_ms: int, lane: Lane, max_bytes: int
    ) -> Any:
        positions = [FetchPosition(self._partition, position, max_bytes, info.epochs[self._partition])]
        request = FetchByIdRequest(info.topic_id, positions, self._isolation, max_wait_ms, 1, max_bytes)
        try:
            response = await self._rpc.send(leader, request, lane)
        except RetriableError:
            self._info = None
            raise
        return only_partition(response)

    def _answer(self, part: Any, position: int) -> _Answer:
        _, code, high_watermark, last_stable_offset, log_start, aborted, _, data, _ = part
        if code == _OFFSET_OUT_OF_RANGE:
            raise TopicError(
                f"{self.where}: offset {position} is not there; it holds {log_start} to {high_watermark}. Records were lost "
                "or deleted: kcontrol's own topics must be compacted, never deleted from."
            )
        self._rpc.raise_if_denied(code, topic_right(self._topic, Operation.READ))
        if code:
            raise RetriableError(f"{self.where}: {describe_code(code)}")
        committed = self._isolation == READ_COMMITTED
        end = last_stable_offset if committed else high_watermark
        hidden = [(producer_id, first) for producer_id, first, _ in aborted or ()] if committed else ()
        visible = visible_records(data or b"", position, hidden, self.where)
        if visible.next_offset == position:
            # There is nothing between here and the end: compaction has removed it.
            visible = Visible([], max(position, end))
        return _Answer(visible, end, high_watermark)

    async def _topic_info(self) -> TopicInfo:
        if self._info is None:
            self._info = await self._rpc.topic(self._topic)
            self._topic_id = self._topic_id or self._info.topic_id
            if self._info.topic_id != self._topic_id:
                raise TopicError(f"{self.where}: the topic was deleted and made again while it was in use; start again.")
        return self._info

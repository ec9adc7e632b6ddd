"""A position in one partition that moves on as records are read: by waiting for them, or by going to the end at once.

Both ways share the position and each has a connection of its own, so `read_to_end` answers promptly while a `tail` waits.
What a fetch brought is taken only from the position on, in one go without a pause: each offset is returned once.
Reading is by topic id: a topic that was made anew under its name is an error, never other records.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from kcontrol.adapters.kafka.access import Operation
from kcontrol.adapters.kafka.access import topic as topic_right
from kcontrol.adapters.kafka.fetched import RawRecord, Visible, visible_records
from kcontrol.adapters.kafka.protocol import READ_COMMITTED, FetchByIdRequest, FetchPosition, only_partition
from kcontrol.adapters.kafka.rpc import Deadline, KafkaRpc, Lane, TopicInfo, describe_code
from kcontrol.errors import RetriableError, TopicError

MAX_WAIT_MS = 5_000
"""A waiting fetch returns after so long without records; less than the request timeout."""
MAX_FETCH_BYTES = 4 << 20
SOME_BYTES = 64 << 10
READ_TIMEOUT_MS = 20_000
"""`read_to_end` gives up after so long and may be called again."""

_RETRY_S = 0.005

_OFFSET_OUT_OF_RANGE = 1
_ASK_AGAIN = frozenset({3, 5, 6, 9, 74, 75, 76, 78, 100})
"""This broker knows of no such topic or partition, or is not (yet) its leader: ask for the metadata and try again."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """One partition of a fetch response."""

    visible: Visible
    end: int
    """The high watermark, or for read_committed the last stable offset."""


class PartitionReader:
    """Reads one partition from `position` on. One `tail` at a time; any number of `read_to_end`."""

    def __init__(self, rpc: KafkaRpc, topic: str, partition: int, isolation: int, position: int = 0) -> None:
        self._rpc = rpc
        self._topic = topic
        self._partition = partition
        self._isolation = isolation
        self._topic_id: uuid.UUID | None = None
        self._info: TopicInfo | None = None
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
        deadline = Deadline(READ_TIMEOUT_MS)
        while True:
            info = await self._topic_info()
            leader = info.leaders.get(self._partition)
            if leader is None:
                raise TopicError(f"There is no {self.where}; the topic has {len(info.leaders)} partitions.")
            part = await self._fetch_once(info, leader, position, max_wait_ms, lane, max_bytes) if leader >= 0 else None
            if part is not None and part[1] not in _ASK_AGAIN:
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
        positions = [FetchPosition(self._partition, position, max_bytes)]
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
        return _Answer(visible, end)

    async def _topic_info(self) -> TopicInfo:
        if self._info is None:
            self._info = await self._rpc.topic(self._topic)
            self._topic_id = self._topic_id or self._info.topic_id
            if self._info.topic_id != self._topic_id:
                raise TopicError(f"{self.where}: the topic was deleted and made again while it was in use; start again.")
        return self._info

"""A position in one partition that moves on as records are read: by waiting for them, or by going to the end
at once.

Both ways share the position and each has a connection of its own, so `read_to_end` answers promptly while a
`tail` waits. What a fetch brought is taken only from the position on, in one go without a pause: each offset
is returned once. Reading is by topic id: a topic that was recreated under its name is an error, never other
records.

Every end that a broker names may be old: a new leader's high watermark trails until its followers have
fetched from it, and a broker that was leader until it was stopped answers with what it knew. The leader epoch
in each fetch makes a broker refuse that knows of no such epoch (KIP-320), and no older epoch is gone back to;
both make it rare, and neither makes it impossible. So nothing here proves that there is nothing more:
docs/protocol.md says what does, for each read.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

from kcontrol.adapters.kafka.client.codes import LOOK_AGAIN, Verdict, describe_code, verdict_of
from kcontrol.adapters.kafka.client.leaders import NoLeaderError, TopicInfo
from kcontrol.adapters.kafka.client.partitions import HELD_BACK, Bound, Partitions
from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED, FetchedPartition, FetchPosition
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import LOST_GRACE_MS, SETTLING, KafkaRpc, Lane
from kcontrol.adapters.kafka.logs.records import RawRecord, Visible, visible_records
from kcontrol.backoff import Deadline
from kcontrol.errors import RetriableError, TopicError

MAX_WAIT_MS = 5_000
"""A waiting fetch returns after so long without records; less than the request timeout."""
MAX_FETCH_BYTES = 4 << 20
SOME_BYTES = 64 << 10
READ_TIMEOUT_MS = 20_000
"""`read_to_end` gives up after so long and may be called again."""


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
        self._partitions = Partitions(rpc)
        self._topic = topic
        self._partition = partition
        self._isolation = isolation
        self._topic_id: uuid.UUID | None = None
        self._epoch = -1
        self._turn = asyncio.Lock()
        self.position = position
        self.at_end = False
        """Whether there was nothing behind the last records that a `tail` has brought, as its broker knew."""

    @property
    def where(self) -> str:
        return f"topic {self._topic!r}, partition {self._partition}"

    async def tail(self) -> AsyncIterator[list[RawRecord]]:
        """Chunks of records as they arrive, for ever. Raises RetriableError when Kafka
        is away; a new `tail` goes on."""
        while True:
            answer = await self._fetch(self.position, MAX_WAIT_MS, Lane.WAITING)
            # A read to the end that is under way goes first: it holds earlier records that it has not
            # returned yet.
            async with self._turn:
                records = [record for record in answer.visible.records if record.offset >= self.position]
                self.position = max(self.position, answer.visible.next_offset)
                self.at_end = self.position >= answer.end
            if records:
                yield records

    async def read_to_end(self) -> list[RawRecord]:
        """All records up to the end offset at the time of the call: the high watermark or, for
        read_committed, the last stable offset.

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

    async def read_all(self) -> list[RawRecord]:
        """`read_to_end`, from where the partition begins now. Raises AccessError, too."""
        self.position = await self.begin()
        return await self.read_to_end()

    async def read_settled(self, at_least: int, timeout_ms: int) -> list[RawRecord]:
        """All records, once no transaction is open in the partition and `at_least`, an offset
        that is known to be reached, is.

        Raises RetriableError, the position being as it was: a transaction is still open after the timeout,
        with what an operator can do; or the partition's leader does not show what was acknowledged.
        """
        records: list[RawRecord] = []
        async with self._turn:
            position = self.position
            async for answer in self._settling(at_least, timeout_ms):
                records += answer.visible.records
                position = answer.visible.next_offset
            self.position = position
        return records

    async def read_settling(
        self,
        at_least: int,
        timeout_ms: int,
        take: Callable[[list[RawRecord]], Awaitable[None]],
        max_bytes: int,
    ) -> None:
        """As `read_settled`, piece by piece; but what was taken stays so when it raises, and the next call goes on behind it.

        max_bytes: of a piece; a larger batch comes whole all the same.
        """
        async with self._turn:
            async for answer in self._settling(at_least, timeout_ms, max_bytes):
                await take(answer.visible.records)
                self.position = answer.visible.next_offset

    async def _settling(
        self, at_least: int, timeout_ms: int, max_bytes: int = MAX_FETCH_BYTES
    ) -> AsyncIterator[_Answer]:
        """From the position on, which stays where it is."""
        tries, position = SETTLING.within(timeout_ms).begin(), self.position
        while True:
            answer = await self._fetch(position, 0, Lane.PROMPT, max_bytes)
            moved, position = answer.visible.next_offset > position, answer.visible.next_offset
            yield answer
            if position >= max(answer.end, at_least) and answer.end >= answer.high_watermark:
                return
            tries.check(f"{self.where}: reading to its end", self._why_unsettled(answer, position, at_least))
            if not moved:
                if position < at_least:
                    self._partitions.forget(self._topic)
                await tries.wait()

    def _why_unsettled(self, answer: _Answer, position: int, at_least: int) -> str:
        if position < answer.end:
            return f"{position} of {answer.end} was reached"
        if answer.end < answer.high_watermark:
            topic, partition, begin = self._topic, self._partition, answer.end
            return (
                f"a transaction is open at offset {begin} though its producer was fenced: Kafka has lost "
                f"its markers. See `kafka-transactions.sh describe-producers --topic {topic} --partition "
                f"{partition}`, and end it with `kafka-transactions.sh abort --topic {topic} --partition "
                f"{partition} --start-offset {begin}` if its step is to be made again"
            )
        return (
            f"its leader shows records up to offset {position} only, though {at_least} was acknowledged: "
            "it is behind"
        )

    async def begin(self, since_ms: int = 0) -> int:
        """The offset at which the partition begins now. Raises RetriableError, AccessError.

        since_ms: or that of the first record with this timestamp or a later one, if its leader knows of any. Where it knows of
        none it may only be behind, and then nothing is left out.
        """
        tries = SETTLING.within(READ_TIMEOUT_MS).begin()
        while True:
            info = await self._topic_info()
            try:
                begin = await self._bound(info, Bound.EARLIEST)
                return begin if since_ms <= 0 else max(begin, await self._bound(info, since_ms))
            except RetriableError as error:
                self._partitions.forget(self._topic)
                await tries.again(f"{self.where}: finding where it begins", error)

    async def _bound(self, info: TopicInfo, which: int) -> int:
        found = await self._partitions.offsets(info, [self._partition], which)
        return found[self._partition]

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

    async def _fetch(
        self, position: int, max_wait_ms: int, lane: Lane, max_bytes: int = MAX_FETCH_BYTES
    ) -> _Answer:
        """One fetch, tried again while leadership settles."""
        tries, lost = SETTLING.within(READ_TIMEOUT_MS).begin(), Deadline(LOST_GRACE_MS)
        while True:
            info = await self._topic_info()
            found = await self._fetch_once(info, position, max_wait_ms, lane, max_bytes)
            if isinstance(found, FetchedPartition):
                verdict = verdict_of(found.error_code)
                if verdict not in LOOK_AGAIN and (verdict is not Verdict.OUT_OF_RANGE or lost.passed):
                    self._epoch = info.epochs[self._partition]
                    return self._answer(found, position)
                found = describe_code(found.error_code)
            self._partitions.forget(self._topic)
            await tries.again(f"{self.where}: finding its leader", found)

    async def _fetch_once(
        self, info: TopicInfo, position: int, max_wait_ms: int, lane: Lane, max_bytes: int
    ) -> FetchedPartition | str:
        """What the leader has, or why it was not asked or has not answered."""
        try:
            leader = info.leader(self._partition)
        except NoLeaderError as error:
            return str(error)
        if info.epochs[self._partition] < self._epoch:
            return "its leader is known by an older epoch only"
        asked = [FetchPosition(self._partition, position, max_bytes)]
        try:
            parts = await self._partitions.fetch(
                info, leader, asked, max_wait_ms, max_bytes, self._isolation, lane
            )
        except RetriableError:
            self._partitions.forget(self._topic)
            raise
        return next(iter(parts), HELD_BACK)

    def _answer(self, part: FetchedPartition, position: int) -> _Answer:
        if verdict_of(part.error_code) is Verdict.OUT_OF_RANGE:
            raise TopicError(
                f"{self.where}: offset {position} is not there; it holds {part.log_start_offset} to "
                f"{part.high_watermark}. Records were lost or deleted: kcontrol's own topics must be "
                "compacted, never deleted from."
            )
        self._partitions.rpc.raise_if_denied(part.error_code, topic_right(self._topic, Operation.READ))
        if part.error_code:
            raise RetriableError(f"{self.where}: {describe_code(part.error_code)}")
        committed = self._isolation == READ_COMMITTED
        end = part.last_stable_offset if committed else part.high_watermark
        visible = visible_records(
            part.data, position, part.aborted_transactions if committed else (), self.where
        )
        if visible.next_offset == position:
            # There is nothing between here and the end: compaction has removed it.
            visible = Visible([], max(position, end))
        return _Answer(visible, end, part.high_watermark)

    async def check_topic(self) -> TopicInfo:
        """What is said of it now. Raises TopicError if it is not the topic any more that was read, RetriableError,
        AccessError."""
        self._partitions.forget(self._topic)
        return await self._topic_info()

    async def delete_before(self, offset: int) -> None:
        """Delete what lies before an offset, if it is still the topic that was read. What is deleted already is fine. Raises
        as `check_topic`."""
        await self._partitions.delete_before(await self.check_topic(), self._partition, offset)

    async def topic_id(self) -> uuid.UUID:
        """Of the topic that is read. Raises RetriableError, TopicError, AccessError."""
        return (await self._topic_info()).topic_id

    async def _topic_info(self) -> TopicInfo:
        info = await self._partitions.topic(self._topic)
        self._topic_id = self._topic_id or info.topic_id
        if info.topic_id != self._topic_id:
            raise TopicError(
                f"{self.where}: the topic was deleted and recreated while it was in use; start again."
            )
        return info

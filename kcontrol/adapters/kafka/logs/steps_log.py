"""The StepsLog port on Kafka: the committed records of one pipeline's steps topic.

Read with read_committed, so a boundary is there if and only if its step's transaction was committed. Unlike
the control topic, nothing unreadable is left out here: a boundary that can't be read would be a step that
never happened.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable, Sequence

from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED, topic_id_text
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.adapters.kafka.logs.step_search import newest_checkpoint, offset_before
from kcontrol.core.model import Checkpoint, LoggedStep, StepBoundary, StepRecord, Tombstone
from kcontrol.errors import DamagedRecordError, UnknownRecordError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.codec import RecordCodec, is_schema_key
from kcontrol.wire.keys import why_step_misplaced

SETTLE_TIMEOUT_MS = 20_000
"""`read_settled` gives up after so long and may be called again."""

_log = logging.getLogger(__name__)
_PARTITION = 0
_ARCHIVE_FETCH_BYTES = 256 << 10
"""Of one fetch when single old steps are read again."""


class KafkaStepsLog:
    """One process's view of a steps topic, from its beginning or from where it is told to begin.

    All ways of reading raise RetriableError when Kafka can't be reached, TopicError when the topic is missing
    or was recreated, and DamagedRecordError naming the offset of a record that is not what it should be.
    """

    def __init__(
        self, settings: ClusterSettings, pipeline: str, settle_timeout_ms: int = SETTLE_TIMEOUT_MS
    ) -> None:
        """settle_timeout_ms: for how long `read_settled` waits for Kafka."""
        self._pipeline = pipeline
        self._topic = settings.names().steps_topic(pipeline)
        self._rpc = KafkaRpc(settings)
        self._reader = PartitionReader(self._rpc, self._topic, _PARTITION, READ_COMMITTED)
        self._settle_timeout_ms = settle_timeout_ms
        self._archive_turn = asyncio.Lock()
        self._codec = RecordCodec()
        self._left_out = 0
        """Where reading has begun: schemas before that have not been seen."""
        self._looked = 0
        """Up to where `read_resets` has looked."""

    async def begin_at_checkpoint(self) -> Checkpoint | None:
        """As the port says."""
        found = await newest_checkpoint(self._reader)
        if found is None:
            return None
        self._left_out = found.offset
        (logged,) = await self._decode_all([found])
        checkpoint = logged.record
        if not isinstance(checkpoint, Checkpoint) or checkpoint.begin_offset < 0:
            self._left_out = 0
            return None
        self._begin(checkpoint.begin_offset)
        return checkpoint

    def begin_at_start(self) -> None:
        """As the port says."""
        self._begin(0)

    async def begin_at_step(self, step: int) -> None:
        """Before the first read: stand at the boundary of `step`, or not far before it;
        at the beginning if it is gone."""
        self._begin(await offset_before(self._reader, step))

    async def read_through(self, step: int) -> list[LoggedStep]:
        """Read on until the boundary of `step` was read, or the end."""
        found: list[LoggedStep] = []
        end = await self._reader.end()
        while self._reader.position < end:
            records, self._reader.position = await self._reader.read_some(self._reader.position)
            found += await self._decode_all(records)
            if any(isinstance(each.record, StepBoundary) and each.record.step >= step for each in found):
                break
        return found

    async def read_again(self, first: int, last: int) -> list[LoggedStep]:
        """Steps `first` to `last`, with some around them. This stands where it stood."""
        stood = self._reader.position, self._left_out, self._looked
        try:
            await self.begin_at_step(first)
            return await self.read_through(last)
        finally:
            self._reader.position, self._left_out, self._looked = stood

    async def read_resets(self) -> list[StepBoundary]:
        """Those from where this stands up to the end, read piece by piece; when it is called again, those that it has not
        looked at yet. This stands where it stood."""
        begin, end = max(self._reader.position, self._looked), await self._reader.end()
        found: list[StepBoundary] = []
        while begin < end:
            records, begin = await self._reader.read_some(begin)
            decoded = (each.record for each in await self._decode_all(records))
            found += [each for each in decoded if isinstance(each, StepBoundary) and each.reset is not None]
        self._looked = begin
        return found

    def _begin(self, offset: int) -> None:
        self._reader.position = self._left_out = self._looked = offset

    async def read_to_end(self) -> list[LoggedStep]:
        """As the port says."""
        return await self._decode_all(await self._reader.read_to_end())

    @property
    def position(self) -> int:
        """As the port says."""
        return self._reader.position

    async def read_settled(self, at_least: int) -> list[LoggedStep]:
        """As the port says."""
        return await self._decode_all(await self._reader.read_settled(at_least, self._settle_timeout_ms))

    def pass_over(self, offset: int) -> None:
        """As the port says."""
        self._reader.position = max(self._reader.position, offset)

    async def log_id(self) -> str:
        """Kafka's id of the topic that is read: another one once the pipeline was deleted and made anew."""
        return topic_id_text(await self._reader.topic_id())

    @property
    def at_end(self) -> bool:
        """Whether there was nothing behind what the last `tail` has brought."""
        return self._reader.at_end

    async def tail(self) -> AsyncIterator[list[LoggedStep]]:
        async for records in self._reader.tail():
            if logged := await self._decode_all(records):
                yield logged

    async def read_range(self, from_: int, to: int) -> list[LoggedStep]:
        """As the port says."""
        async with self._archive_turn:
            return await self._decode_all(await self._reader.read_between(from_, to, _ARCHIVE_FETCH_BYTES))

    async def close(self) -> None:
        await self._rpc.close()

    async def _decode_all(self, records: Sequence[RawRecord]) -> list[LoggedStep]:
        self._learn_all(records)
        if self._left_out and not all(self._codec.knows(record.value or b"") for record in records):
            # A newer writer: it has published its schema once, and that may be in what was left out.
            self._learn_all(await self._reader.read_between(0, self._left_out))
            self._left_out = 0
        own = [(record, key) for record in records if not is_schema_key(key := self._key(record))]
        return [logged for record, key in own if (logged := self._decode(record, key)) is not None]

    def _learn_all(self, records: Iterable[RawRecord]) -> None:
        """All schemas first: one that was published again later is, after compaction, behind records that
        need it."""
        for record in records:
            key = self._key(record)
            if is_schema_key(key) and record.value is not None:
                self._codec.learn(key, record.value, self._where(record))

    def _decode(self, record: RawRecord, key: str) -> LoggedStep | None:
        if record.value is None:
            return LoggedStep(record.offset, Tombstone(key))
        try:
            decoded = self._codec.decode(record.value, self._where(record))
        except UnknownRecordError as error:
            _log.warning("Left out: %s", error)
            return None
        if not isinstance(decoded, StepRecord):
            raise DamagedRecordError(
                f"{self._where(record)} is a {type(decoded).__name__}, which belongs elsewhere."
            )
        if reason := why_step_misplaced(key, decoded, self._pipeline):
            raise DamagedRecordError(f"{self._where(record)}: {reason}.")
        return LoggedStep(record.offset, decoded)

    def _key(self, record: RawRecord) -> str:
        try:
            return (record.key or b"").decode()
        except UnicodeDecodeError as error:
            raise DamagedRecordError(f"{self._where(record)}: its key is not text.") from error

    def _where(self, record: RawRecord) -> str:
        return f"topic {self._topic!r}, offset {record.offset}"

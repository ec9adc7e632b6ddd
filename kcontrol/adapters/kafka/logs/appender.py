"""Writes to one partition in order and exactly as often as asked, and returns the offsets:
an idempotent producer (KIP-98).

Not aiokafka's, because that one lets one connection that can't be made hold up all others, for as long as it
waits for any answer. Here a batch goes to whoever leads the partition, one at a time, and the same bytes
again for as long as its answer is
missing: the broker knows a batch by its sequence number and says where it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka.protocol.transaction import InitProducerIdRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from kcontrol.adapters.kafka.client.codes import Verdict, describe_code
from kcontrol.adapters.kafka.client.partitions import Partitions
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import SETTLING, KafkaRpc
from kcontrol.backoff import Tries
from kcontrol.errors import RetriableError, TopicError
from kcontrol.settings.cluster import ClusterSettings

APPEND_TIMEOUT_MS = 20_000
"""A write is repeated for so long; after that the writer starts anew."""

_UNUSED_TIMEOUT_MS = 60_000
_SEQUENCES = 1 << 31
_BATCH_BYTES = 1 << 30
"""The builder's own bound is not wanted: the broker says what is too large."""

Pair = tuple[bytes, bytes | None]


@dataclass(slots=True)
class _Producer:
    """Under whose name batches go. sequence: number of the next record."""

    id: int
    epoch: int
    sequence: int = 0

    def batch(self, records: Sequence[Pair]) -> bytes:
        builder = DefaultRecordBatchBuilder(2, 0, False, self.id, self.epoch, self.sequence, _BATCH_BYTES)
        for index, (key, value) in enumerate(records):
            builder.append(index, None, key, value, [])
        return bytes(builder.build())


class _TooLargeError(Exception):
    """The topic does not take a batch of this size; nothing was written."""


class Appender:
    """A producer for one partition, made at first use, and again after a fault. One `append` at a time goes
    out."""

    def __init__(self, settings: ClusterSettings, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._partitions = Partitions(KafkaRpc(settings))
        self._producer: _Producer | None = None
        self._turn = asyncio.Lock()

    @property
    def where(self) -> str:
        return f"topic {self._topic!r}, partition {self._partition}"

    async def append(self, records: Sequence[Pair]) -> list[int]:
        """Write (key, value) pairs in order, acks=all; the offsets once all are acknowledged.

        Raises RetriableError: some or all may or may not have been written. TopicError: one is larger than
        the topic takes, or there is no such partition. AccessError: the topic may not be written.
        """
        async with self._turn:
            try:
                return (
                    await self._append(records, SETTLING.within(APPEND_TIMEOUT_MS).begin()) if records else []
                )
            except BaseException:
                # What comes next must not be taken for what may still be under way.
                self._producer = None
                raise

    async def close(self) -> None:
        async with self._turn:
            self._producer = None
            await self._partitions.rpc.close()

    async def _append(self, records: Sequence[Pair], tries: Tries) -> list[int]:
        if self._producer is None:
            self._producer = await self._begin(tries)
        try:
            base = await self._write(self._producer, records, tries)
        except _TooLargeError:
            half = len(records) // 2
            if not half:
                raise TopicError(
                    f"{self.where} does not take a record of {len(records[0][1] or b'')} bytes: raise "
                    "max.message.bytes of the topic."
                ) from None
            return [*await self._append(records[:half], tries), *await self._append(records[half:], tries)]
        self._producer.sequence = (self._producer.sequence + len(records)) % _SEQUENCES
        return list(range(base, base + len(records)))

    async def _write(self, producer: _Producer, records: Sequence[Pair], tries: Tries) -> int:
        """Offset of the first record of a batch that is written."""
        batch, what = producer.batch(records), f"{self.where}: writing"
        answer = await self._partitions.write(self._topic, self._partition, batch, None, what, tries)
        if answer.verdict is Verdict.FINE:
            return answer.base_offset
        if answer.verdict is Verdict.TOO_LARGE:
            raise _TooLargeError
        self._partitions.rpc.raise_if_denied(answer.code, topic_right(self._topic, Operation.WRITE))
        raise RetriableError(f"{what} failed: {describe_code(answer.code)}")

    async def _begin(self, tries: Tries) -> _Producer:
        while True:
            response = await self._partitions.rpc.send_any(InitProducerIdRequest(None, _UNUSED_TIMEOUT_MS))
            if not response.error_code:
                return _Producer(response.producer_id, response.producer_epoch)
            self._partitions.rpc.raise_if_denied(
                response.error_code, topic_right(self._topic, Operation.WRITE)
            )
            await tries.again(f"{self.where}: asking for a producer id", describe_code(response.error_code))

"""Writes to one partition in order and exactly as often as asked, and returns the offsets: an idempotent producer (KIP-98).

Not aiokafka's, because that one lets one connection that can't be made hold up all others, for as long as it waits for any
answer. Here a batch goes to whoever leads the partition, one at a time, and the same bytes again for as long as its answer is
missing: the broker knows a batch by its sequence number and says where it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka.protocol.transaction import InitProducerIdRequest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from kcontrol.adapters.kafka.client.produce_protocol import HELD_MS, ProduceRecordsRequest, answers
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import Deadline, KafkaRpc, describe_code
from kcontrol.adapters.kafka.write.codes import Outcome, outcome_of
from kcontrol.errors import RetriableError, TopicError
from kcontrol.settings.cluster import ClusterSettings

APPEND_TIMEOUT_MS = 20_000
"""A write is repeated for so long; after that the writer starts anew."""

_UNUSED_TIMEOUT_MS = 60_000
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.002, 0.25
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
    """A producer for one partition, made at first use and made anew after a fault. One `append` at a time goes out."""

    def __init__(self, settings: ClusterSettings, topic: str, partition: int) -> None:
        self._topic = topic
        self._partition = partition
        self._rpc = KafkaRpc(settings)
        self._producer: _Producer | None = None
        self._leader: int | None = None
        self._turn = asyncio.Lock()

    @property
    def where(self) -> str:
        return f"topic {self._topic!r}, partition {self._partition}"

    async def append(self, records: Sequence[Pair]) -> list[int]:
        """Write (key, value) pairs in order, acks=all; the offsets once all are acknowledged.

        Raises RetriableError: some or all may or may not have been written. TopicError: one is larger than the topic takes, or
        there is no such partition. AccessError: the topic may not be written.
        """
        async with self._turn:
            try:
                return await self._append(records, Deadline(APPEND_TIMEOUT_MS)) if records else []
            except BaseException:
                # What comes next must not be taken for what may still be under way.
                self._producer = None
                raise

    async def close(self) -> None:
        async with self._turn:
            self._producer = None
            await self._rpc.close()

    async def _append(self, records: Sequence[Pair], deadline: Deadline) -> list[int]:
        if self._producer is None:
            self._producer = await self._begin(deadline)
        try:
            base = await self._write(self._producer, records, deadline)
        except _TooLargeError:
            half = len(records) // 2
            if not half:
                raise TopicError(
                    f"{self.where} does not take a record of {len(records[0][1] or b'')} bytes: raise max.message.bytes of the "
                    "topic."
                ) from None
            return [*await self._append(records[:half], deadline), *await self._append(records[half:], deadline)]
        self._producer.sequence = (self._producer.sequence + len(records)) % _SEQUENCES
        return list(range(base, base + len(records)))

    async def _write(self, producer: _Producer, records: Sequence[Pair], deadline: Deadline) -> int:
        """Offset of the first record of a batch that is written."""
        request = ProduceRecordsRequest(None, HELD_MS, self._topic, [(self._partition, producer.batch(records))])
        retry_s = _FIRST_RETRY_S
        while True:
            try:
                response = await self._rpc.send(await self._led_by(), request)
            except RetriableError as error:
                self._leader = None
                deadline.check(f"{self.where}: writing", error)
            else:
                answer = answers(response)[0]
                match outcome_of(answer.code):
                    case Outcome.WRITTEN:
                        return answer.base_offset
                    case Outcome.AGAIN:
                        pass
                    case Outcome.ELSEWHERE:
                        self._leader = None
                    case Outcome.TOO_LARGE:
                        raise _TooLargeError
                    case _:
                        self._rpc.raise_if_denied(answer.code, topic_right(self._topic, Operation.WRITE))
                        raise RetriableError(f"{self.where}: writing failed: {describe_code(answer.code)}")
                deadline.check(f"{self.where}: writing", describe_code(answer.code))
            await asyncio.sleep(retry_s)
            retry_s = min(2 * retry_s, _LONGEST_RETRY_S)

    async def _begin(self, deadline: Deadline) -> _Producer:
        while True:
            response = await self._rpc.send_any(InitProducerIdRequest(None, _UNUSED_TIMEOUT_MS))
            if not response.error_code:
                return _Producer(response.producer_id, response.producer_epoch)
            self._rpc.raise_if_denied(response.error_code, topic_right(self._topic, Operation.WRITE))
            deadline.check(f"{self.where}: asking for a producer id", describe_code(response.error_code))
            await asyncio.sleep(_FIRST_RETRY_S)

    async def _led_by(self) -> int:
        if self._leader is None:
            leaders = (await self._rpc.topic(self._topic, Operation.WRITE)).leaders
            if self._partition not in leaders:
                raise TopicError(f"There is no {self.where}; the topic has {len(leaders)} partitions.")
            if leaders[self._partition] < 0:
                raise RetriableError("the partition has no leader")
            self._leader = leaders[self._partition]
        return self._leader

"""A few records into one partition inside a transaction that is open: how the boundary, or another record whose place says
something, gets it."""

from __future__ import annotations

from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from kcontrol.adapters.kafka.client.codes import Verdict
from kcontrol.adapters.kafka.client.partitions import Partitions
from kcontrol.adapters.kafka.client.rights import write_right
from kcontrol.adapters.kafka.client.rpc import SETTLING
from kcontrol.adapters.kafka.transaction.faults import raise_for

_BATCH_BYTES = 1 << 30
"""The builder's own bound is not wanted: the broker says what is too large."""


class TransactionalWrite:
    """Writes one batch to a partition for a (producer id, producer epoch) that writes there for the first
    time."""

    def __init__(
        self,
        partitions: Partitions,
        transactional_id: str,
        producer: tuple[int, int],
        deadline_ms: int,
        what: str = "the boundary",
    ) -> None:
        """what: is written, for messages."""
        self._partitions = partitions
        self._id = transactional_id
        self._producer = producer
        self._deadline_ms = deadline_ms
        self._what = what

    async def send(self, topic: str, partition: int, records: Sequence[tuple[bytes, bytes | None]]) -> int:
        """Write (key, value) pairs as one batch, acks=all. May repeat it: the broker knows
        a batch by its sequence number.

        Returns the offset of the first record, below which lies all that was acknowledged before; -1 if the
        broker knows only that it has the batch.

        Raises FencedError, RetriableError, TopicError, or AccessError.
        """
        what = f"writing {self._what} to topic {topic!r}"
        tries = SETTLING.within(self._deadline_ms).begin()
        batch = transactional_batch(self._producer, 0, records)
        answer = await self._partitions.write(topic, partition, batch, self._id, what, tries)
        if answer.verdict not in (Verdict.FINE, Verdict.DUPLICATE):
            self._partitions.rpc.raise_if_denied(answer.code, write_right(answer.code, topic, self._id), what)
            raise_for(what, answer.code)
        return answer.base_offset


def transactional_batch(
    producer: tuple[int, int], sequence: int, records: Sequence[tuple[bytes | None, bytes | None]]
) -> bytes:
    """One batch of (key, value) pairs. sequence: number of its first record among those that the producer writes there."""
    builder = DefaultRecordBatchBuilder(2, 0, True, *producer, sequence, _BATCH_BYTES)
    for index, (key, value) in enumerate(records):
        builder.append(index, None, key, value, [])
    return bytes(builder.build())

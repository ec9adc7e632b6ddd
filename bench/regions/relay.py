"""A node's engine without Spark that passes records on, and what lies in a topic.

Each value that it reads it writes, with the pipeline's name in front, to the partition of the same number of its only
output, in the step's transaction. So what a pipeline has written by a step follows from the offsets that the step has
read, and can be computed by anybody.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
from confluent_kafka import Consumer, KafkaError, TopicPartition

from bench.quick_node import QuickEngine
from kcontrol.adapters.kafka.write.writer import STEP_HEADER, DigestWriter, TransactionWriter
from kcontrol.core.model import (
    EMPTY_DIGEST,
    InputRange,
    InputSlice,
    OutputSlice,
    PipelineSpec,
    StepBoundary,
    StepResult,
    StepWork,
)
from kcontrol.settings.cluster import ClusterSettings

READ_TIMEOUT_S = 30.0


def values_of(
    settings: ClusterSettings,
    topic: str,
    partition: int,
    from_: int,
    to: int,
    without: Container[int] = (),
) -> Iterator[bytes]:
    """The committed values at offsets [from_, to), which the partition is known to reach, but for those of some steps.
    Raises TimeoutError."""
    return (value for _, value in placed_values_of(settings, topic, partition, from_, to, without))


def placed_values_of(
    settings: ClusterSettings,
    topic: str,
    partition: int,
    from_: int,
    to: int,
    without: Container[int] = (),
) -> Iterator[tuple[int, bytes]]:
    """The same with their offsets."""
    consumer = _consumer(settings)
    try:
        yield from taken(consumer, topic, partition, from_, to, without)
    finally:
        consumer.close()


def _consumer(settings: ClusterSettings) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "group.id": "relay",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            # An offset that a broker does not know is an error, and nothing to go on elsewhere from.
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 50,
        }
    )


def taken(
    consumer: Consumer, topic: str, partition: int, from_: int, to: int, without: Container[int] = ()
) -> Iterator[tuple[int, bytes]]:
    """By a consumer that is at nothing else until the last of them is taken.

    Kafka's client may still deliver what an assignment before this one asked for, and may begin anew at the beginning that
    it was told then: such messages are passed over.
    """
    if from_ == to:
        return
    consumer.assign([TopicPartition(topic, partition, from_)])
    while from_ < to:
        message = consumer.poll(READ_TIMEOUT_S)
        if message is None:
            raise TimeoutError(f"topic {topic!r}, partition {partition}: nothing from {from_} to {to}")
        if (message.topic(), message.partition()) != (topic, partition):
            continue
        error, offset = message.error(), message.offset()
        if error is not None:
            if error.code() == KafkaError._PARTITION_EOF and offset is not None and offset >= to:
                return
            if error.code() == KafkaError._AUTO_OFFSET_RESET:
                raise TimeoutError(f"topic {topic!r}, partition {partition}: {error}, from {from_} to {to}")
            continue
        assert offset is not None
        if offset < from_:
            continue
        if offset >= to:
            return
        from_ = offset + 1
        headers = dict(message.headers() or ())
        if STEP_HEADER not in headers or int(headers[STEP_HEADER] or 0) not in without:
            yield offset, message.value() or b""


class RelayEngine(QuickEngine):
    """Without state: it can be opened at every step."""

    def __init__(self, settings: ClusterSettings, spec: PipelineSpec) -> None:
        super().__init__()
        self._settings, self._spec = settings, spec
        self._consumer: Consumer | None = None

    async def close(self) -> None:
        if self._consumer is not None:
            await asyncio.to_thread(self._consumer.close)
            self._consumer = None

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:
        return await asyncio.to_thread(self._relay, work, expected is None)

    def _relay(self, work: StepWork, writes: bool) -> StepResult:
        read: list[InputSlice] = []
        rows: dict[int, list[bytes]] = {}
        for part in work.division:
            values = self._read(part)
            rows.setdefault(part.partition % self._spec.outputs[0].partitions, []).extend(
                self._passed_on(part, values)
            )
            where = part.input, part.topic, part.topic_id, part.partition, part.from_, part.to
            read.append(InputSlice(*where, len(values), EMPTY_DIGEST))
        wrote = self._write(self._writer(work, writes), rows)
        return StepResult(tuple(read), tuple(wrote), (), watermark_moved=False)

    def _passed_on(self, part: InputRange, values: Sequence[bytes]) -> list[bytes]:  # noqa: ARG002 - it is all the same to this one
        """What is written of what was read of a partition."""
        name = self._spec.pipeline.encode()
        return [name + b":" + value for value in values]

    def _read(self, part: InputRange) -> list[bytes]:
        if self._consumer is None:
            self._consumer = _consumer(self._settings)
        found = taken(self._consumer, part.topic, part.partition, part.from_, part.to)
        return [value for _, value in found]

    def _writer(self, work: StepWork, writes: bool) -> TransactionWriter | DigestWriter:
        """writes: in the step's transaction; else it only says what it would have written."""
        output, token = self._spec.outputs[0], work.token
        if not writes:
            return DigestWriter(work.step, output.name, output.topic, output.partitions)
        return TransactionWriter(
            self._settings,
            work.transactional_id,
            token.producer_id,
            token.producer_epoch,
            work.step,
            work.now_ms,
            output.name,
            output.topic,
            output.partitions,
        )

    @staticmethod
    def _write(
        writer: TransactionWriter | DigestWriter, rows: Mapping[int, Sequence[bytes]]
    ) -> list[OutputSlice]:
        for partition, values in rows.items():
            if values:
                batch = pa.RecordBatch.from_arrays([pa.array(values, pa.binary())], ["value"])
                writer.write(batch, np.full(len(values), partition, np.int32))
        return writer.finish()

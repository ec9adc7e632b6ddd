"""What goes wrong with a step's output, said so that a user can act on it; and the one fault
that is mended: a batch too large.

A topic may take less than a batch holds (`max.message.bytes`) and still every record of it. Nothing of a
refused batch was written, so its records go again in smaller batches under the same sequence numbers, as
Kafka's own producer does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NoReturn

import numpy as np
from aiokafka.protocol.admin import DescribeConfigsRequest

from kcontrol.adapters.kafka.client.background import RawClient
from kcontrol.adapters.kafka.client.codes import Verdict, describe_code
from kcontrol.adapters.kafka.client.produce_protocol import ProduceAnswer
from kcontrol.adapters.kafka.transaction.faults import raise_for
from kcontrol.core.model import FailureKind
from kcontrol.errors import RetriableError, StepFailedError
from kcontrol.wire.batches import BatchFormat, Codec, Fetched, SealedBatch
from kcontrol.wire.batches.columns import record_columns
from kcontrol.wire.digest import DigestKind

_TOPIC_RESOURCE = 2
_MAX_MESSAGE_BYTES = "max.message.bytes"
_ALL_OFFSETS = 2**62


@dataclass(frozen=True, slots=True)
class OutputId:
    """Which output of which step. what: it is, for messages."""

    step: int
    output: str
    topic: str
    what: str = "output"

    @property
    def name(self) -> str:
        return f"step {self.step}, {self.what} {self.output!r}"

    def where(self, partition: int) -> str:
        return f"{self.name}, topic {self.topic!r}, partition {partition}"


class ProduceFaults:
    """Turns answers to one writer's batches into errors."""

    def __init__(self, client: RawClient, output: OutputId, codec: Codec, batch_format: BatchFormat) -> None:
        self._client = client
        self._output = output
        self._codec = codec
        self._format = batch_format

    def raise_second_writer(self, partition: int, base_offset: int, end: int) -> NoReturn:
        """An acknowledged batch lies before what was there already."""
        self._lost(
            partition,
            f"a batch was acknowledged at offset {base_offset}, but what was there before it ends at "
            f"offset {end}",
        )

    def raise_for(self, answer: ProduceAnswer) -> NoReturn:
        """Raise StepFailedError, FencedError or ClusterError for an answer that ends the attempt."""
        said = describe_code(answer.code) + (f": {answer.message}" if answer.message else "")
        where = self._output.where(answer.partition)
        if answer.verdict in (Verdict.OUT_OF_ORDER, Verdict.DUPLICATE):
            self._lost(answer.partition, said)
        if answer.verdict is Verdict.REFUSED:
            raise StepFailedError(
                FailureKind.QUERY,
                f"{where}: the topic does not take these records: {said}. A compacted topic wants keys; one "
                "with message.timestamp.before.max.ms or message.timestamp.after.max.ms wants those to "
                "span the step's time.",
            )
        raise_for(f"{where}: writing", answer.code)

    async def split(self, batch: SealedBatch, partition: int) -> list[SealedBatch]:
        """The records of a batch that was too large, in smaller ones.

        Raises StepFailedError when it is a single record.
        """
        limit = await self._limit_bytes()
        if batch.records == 1:
            known = (
                f"the topic's {_MAX_MESSAGE_BYTES} is {limit} bytes"
                if limit
                else f"the topic's {_MAX_MESSAGE_BYTES} is less"
            )
            raise StepFailedError(
                FailureKind.QUERY,
                f"{self._output.where(partition)}: a record of {batch.largest_record_bytes} bytes is too "
                f"large: {known}. Raise it (and message.max.bytes of the broker), or let the query write "
                "smaller values.",
            )
        size = limit if limit and limit < len(batch.data) else len(batch.data) // 2
        return list(self._smaller(batch, size))

    def _smaller(self, batch: SealedBatch, max_batch_bytes: int) -> Iterator[SealedBatch]:
        open_batch = self._codec.open_batch(
            replace(
                self._format,
                extra_headers=(),
                max_batch_bytes=max_batch_bytes,
                digest_kind=DigestKind.NONE,
                first_sequence=batch.base_sequence,
            )
        )
        decoded = Fetched(memoryview(batch.data), self._output.topic).decode(
            self._codec, (), 0, _ALL_OFFSETS, DigestKind.NONE, headers=True, run_bytes=len(batch.data)
        )
        for run in decoded:
            columns, index, stop = record_columns(run.rows), 0, run.rows.num_rows
            order = np.arange(stop, dtype=np.int32)
            while (index := open_batch.append(columns, order, index, stop)) < stop:
                yield open_batch.seal()
        yield open_batch.seal()

    async def _limit_bytes(self) -> int | None:
        """What the topic takes; None if this client may not ask."""
        request = DescribeConfigsRequest([(_TOPIC_RESOURCE, self._output.topic, [_MAX_MESSAGE_BYTES])])
        try:
            info = await self._client.partitions.topic(self._output.topic)
            node = next(iter(info.led(info.leaders).by_node))
            response = await self._client.rpc.send(node, request)
        except (RetriableError, StopIteration):
            return None
        (found,) = response.to_object()["resources"]
        return (
            None
            if found["error_code"] or not found["config_entries"]
            else int(found["config_entries"][0]["config_value"])
        )

    def _lost(self, partition: int, why: str) -> NoReturn:
        raise StepFailedError(
            FailureKind.LOST,
            f"{self._output.where(partition)}: somebody else writes to it in the same attempt: {why}. A "
            "task was run twice.",
        )

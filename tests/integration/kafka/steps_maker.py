"""Makes steps as coordinator and tasks do, without Spark: one owner of the
transaction, writers that join it."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from kcontrol import FileInput, KafkaInput, KafkaOutput, Pipeline
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.adapters.kafka.write.writer import TransactionWriter
from kcontrol.apps.submit import submit
from kcontrol.core.model import (
    Checkpoint,
    Layout,
    OutputLayout,
    OutputSlice,
    PipelineSpec,
    Reason,
    Reset,
    StepBoundary,
    Token,
)
from kcontrol.definition.resolve import QueryFacts
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.support.owning import commit_at_end
from tests.support.transactions import TRANSACTION_MS

PIPELINE = "flights"
PARTITIONS = 2
BASE_MS = time.time_ns() // 1_000_000
"""Of step 0. Records of long ago would fall to the topics' retention."""

_Made = TypeVar("_Made")
Rows = Mapping[int, Sequence[bytes]]
"""Values by partition."""


class StepsMaker:
    """A submitted pipeline with the outputs `delays` and `totals`, two partitions each. One event loop a
    call."""

    def __init__(
        self, settings: ClusterSettings, new_topic: TopicFactory, input_: FileInput | None = None
    ) -> None:
        """input_: in place of a topic."""
        self.settings = settings.model_copy(update={"prefix": f"m{secrets.token_hex(4)}"})
        self.topics = {name: new_topic(name, partitions=PARTITIONS) for name in ("delays", "totals")}
        outputs = [KafkaOutput(name, topic=topic) for name, topic in self.topics.items()]
        read = input_ or KafkaInput("flights", topic=new_topic("flights"))
        self.pipeline = Pipeline(PIPELINE, inputs=[read], outputs=outputs)
        self.queries = [QueryFacts(name, (name,), "append", (), brings_key=False) for name in self.topics]
        self.spec = asyncio.run(submit(self.settings, self.pipeline, self.queries))

    def step(
        self, number: int, outputs: Mapping[str, Rows], *, forget: Sequence[str] = (), **more: Any
    ) -> StepBoundary:
        """A committed step, which is seen by every reader. more: of its boundary."""

        async def make(transaction: KafkaTransaction) -> StepBoundary:
            producer = await self.begin(transaction)
            slices = await asyncio.to_thread(self.write, producer, number, outputs)
            boundary = replace(self.boundary(number, producer, slices), **more)
            await commit_at_end(self.settings, transaction, producer, boundary, forget)
            return boundary

        return asyncio.run(self._with_transaction(make))

    def aborted(self, number: int, outputs: Mapping[str, Rows]) -> None:
        """An attempt that wrote everything and was then aborted."""

        async def make(transaction: KafkaTransaction) -> None:
            producer = await self.begin(transaction)
            await asyncio.to_thread(self.write, producer, number, outputs)
            await transaction.init_producer(TRANSACTION_MS)

        asyncio.run(self._with_transaction(make))

    def reset(self, number: int, to_step: int, why: str = "a test") -> StepBoundary:
        """A committed step that takes back those after `to_step`."""

        async def make(transaction: KafkaTransaction) -> StepBoundary:
            producer = await self.begin(transaction)
            made = replace(
                self.boundary(number, producer, []), reset=Reset(to_step, why, "ana", "request", ())
            )
            await commit_at_end(self.settings, transaction, producer, made)
            return made

        return asyncio.run(self._with_transaction(make))

    def save(self, checkpoint: Checkpoint) -> None:
        """A committed checkpoint."""

        async def make(transaction: KafkaTransaction) -> None:
            producer = await self.begin(transaction)
            await commit_at_end(self.settings, transaction, producer, checkpoint)

        asyncio.run(self._with_transaction(make))

    def define(self, spec: PipelineSpec) -> None:
        """The definition is this one from now on; of another pipeline: there is one more."""

        async def say() -> None:
            control = await KafkaControlLog.open(self.settings, spec.pipeline)
            try:
                await control.append([spec])
            finally:
                await control.close()

        asyncio.run(say())

    async def begin(self, transaction: KafkaTransaction) -> tuple[int, int]:
        producer = await transaction.init_producer(TRANSACTION_MS)
        every = [(topic, partition) for topic in self.topics.values() for partition in range(PARTITIONS)]
        await transaction.add_partitions(
            *producer, [*every, (self.settings.names().steps_topic(PIPELINE), 0)]
        )
        return producer

    def write(self, producer: tuple[int, int], number: int, outputs: Mapping[str, Rows]) -> list[OutputSlice]:
        """One writer for each output and partition, as each partition is one task's."""
        slices: list[OutputSlice] = []
        for output, rows in outputs.items():
            for partition, values in rows.items():
                slices += self.write_partition(producer, number, output, partition, values)
        return slices

    def write_partition(
        self, producer: tuple[int, int], number: int, output: str, partition: int, values: Sequence[bytes]
    ) -> list[OutputSlice]:
        transactional_id = self.settings.names().transactional_id(PIPELINE)
        writer = TransactionWriter(
            *(self.settings, transactional_id, *producer, number, BASE_MS + number),
            output,
            self.topics[output],
            PARTITIONS,
        )
        keys = pa.array([value[:1] for value in values], pa.binary())
        batch = pa.RecordBatch.from_arrays([keys, pa.array(values, pa.binary())], ["key", "value"])
        writer.write(batch, np.full(len(values), partition, np.int32))
        return writer.finish()

    def boundary(self, number: int, producer: tuple[int, int], slices: Sequence[OutputSlice]) -> StepBoundary:
        return StepBoundary(
            pipeline=PIPELINE,
            step=number,
            token=Token(1, 1, *producer, (1,)),
            now_ms=BASE_MS + number,
            reason=Reason.RECORDS,
            fingerprint=self.spec.fingerprint,
            nodes=1,
            inputs=(),
            outputs=tuple(slices),
            layout=Layout((), 1, tuple(OutputLayout(name, PARTITIONS, 1, "exact") for name in self.topics)),
            paused_inputs=(),
            opened_ms=BASE_MS,
            committed_ms=BASE_MS + 1_000,
            skipped=(),
            watermark_moved=False,
        )

    async def _with_transaction(self, make: Callable[[KafkaTransaction], Awaitable[_Made]]) -> _Made:
        async with AsyncExitStack() as stack:
            transaction = KafkaTransaction(self.settings, PIPELINE)
            stack.push_async_callback(transaction.close)
            return await make(transaction)

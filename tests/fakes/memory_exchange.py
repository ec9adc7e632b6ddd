"""An exchange on the Kafka in memory: what writers send and readers read of it, as the real ones do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from kcontrol.adapters.kafka.exchange.reader import Run, Sent
from kcontrol.core.model import ExchangeRun, ExchangeSlice, FailureKind
from kcontrol.errors import StepFailedError
from tests.fakes.memory_kafka import Fate, MemoryKafka
from tests.support.patience import HANG_S


class MemoryExchange:
    """Of one pipeline: each record is (step, node, rows)."""

    def __init__(self, kafka: MemoryKafka, pipeline: str, topic: str) -> None:
        self._kafka, self._pipeline, self._topic = kafka, pipeline, topic

    def send(
        self, producer: tuple[int, int], step: int, slot: int, rows: Mapping[int, Sequence[str]]
    ) -> ExchangeSlice:
        """rows: by node. Raises FencedError."""
        records = [(step, node, tuple(mine)) for node, mine in sorted(rows.items())]
        offsets = self._kafka.write(self._pipeline, producer, self._topic, slot, records)
        runs = tuple(
            ExchangeRun(node, offset, offset + 1, len(mine), "")
            for offset, (_, node, mine) in zip(offsets, records, strict=True)
        )
        return ExchangeSlice("x", slot, offsets[0], offsets[-1] + 1, runs)

    async def read(self, runs: Sequence[Run], sent: Sent) -> list[str]:
        """Waits for what is not there. Raises StepFailedError of kind LOST for what is not the attempt's own."""
        return [row for run in runs for row in await self._read(run, sent)]

    async def _read(self, run: Run, sent: Sent) -> list[str]:
        number, from_, to = run
        partition = self._kafka.partition(self._topic, number)
        while (partition.stable_end() if sent.committed else len(partition.entries)) < to:
            await asyncio.wait_for(partition.changed(), HANG_S)
        found: list[str] = []
        for entry in partition.entries[from_:to]:
            if entry.producer != sent.by:
                raise StepFailedError(FailureKind.LOST, f"offsets {from_} to {to} are of {entry.producer}")
            step, node, rows = entry.value
            if (step, node) != (sent.step, sent.node):
                raise StepFailedError(FailureKind.LOST, f"offsets {from_} to {to} are for node {node}")
            if not (sent.committed and entry.fate is Fate.HIDDEN):
                found += rows
        return found

"""Exactly the rows that were sent to a node: runs of an exchange's topic, uncommitted while the step that wrote them is under
way, committed when it is run again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from kcontrol.adapters.kafka.read.ranges import ReadLimits
from kcontrol.settings.cluster import ClusterSettings

Run = tuple[int, int, int]
"""(partition, from, to): what one ExchangeRun of a slice names."""


@dataclass(frozen=True, slots=True)
class Sent:
    """By whom the runs were written, and for whom.

    producer_id, producer_epoch: of the attempt, or in a replay of the boundary's token. committed: False during an attempt
    (nothing of it is committed yet), True in a replay.
    """

    step: int
    node: int
    producer_id: int
    producer_epoch: int
    committed: bool


class ExchangeRead(Iterator[pa.RecordBatch]):
    """The rows of some runs, one run after the other, to be iterated once. `rows`: of each run, what has been returned so far;
    all of it at the end: the caller compares it with what the run should hold."""

    def __init__(self, batches: Iterator[tuple[int, pa.RecordBatch]], runs: int) -> None:
        self._batches = batches
        self.rows: list[int] = [0] * runs

    @property
    def records(self) -> int:
        """Rows of all runs together."""
        return sum(self.rows)

    def __next__(self) -> pa.RecordBatch:
        index, batch = next(self._batches)
        self.rows[index] += batch.num_rows
        return batch


class ExchangeReader:
    """Reads runs of one exchange; connections belong to the process and are kept.

    topic_id: as Kafka's tools show it. schema: of the rows, as the exchange declares it.
    """

    def __init__(
        self, settings: ClusterSettings, exchange: str, topic: str, topic_id: str, schema: pa.Schema,
        limits: ReadLimits | None = None,
    ) -> None:  # fmt: skip
        raise NotImplementedError

    def read(self, runs: Sequence[Run], sent: Sent) -> ExchangeRead:
        """The rows of the runs, in this order; no batch is empty. Runs that follow each other in a partition may be given as
        they are; the first fetches of several partitions go together.

        The iteration raises StepFailedError of kind LOST: what lies there was written by another attempt, for another step
        or node, or is there no more (in an attempt). InputGoneError: it is there no more (in a replay).
        DamagedRecordError, ConfigurationError: see `unpack`. AccessError: not allowed. RetriableError: Kafka did not
        deliver in time.
        """
        raise NotImplementedError

"""Delivery: keyed rows that other nodes have sent, written to the output partitions that this node owns. Without
Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from kcontrol.adapters.kafka.exchange.attempt import StepTransaction
from kcontrol.adapters.kafka.exchange.reader import ExchangeReader, Run, Sent
from kcontrol.adapters.kafka.write.targets import OutputTarget, digest_rows, place
from kcontrol.adapters.kafka.write.writer import DigestWriter, TransactionWriter
from kcontrol.core.model import OutputSlice
from kcontrol.settings.cluster import ClusterSettings

Keep = Callable[[pa.RecordBatch, pa.Array], None]


@dataclass(frozen=True, slots=True)
class DeliveredExchange:
    """The exchange that brings the rows; its topic's id as Kafka's tools show it. schema: of what its sender
    writes: `key`, `value`, `headers`, `partition`, the digest's column, those that the query has."""

    name: str
    topic: str
    topic_id: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class DeliveredRows:
    """What was written (in a replay: the same, at offsets 0 to 0), and how many rows were read of each run."""

    slices: tuple[OutputSlice, ...]
    rows: tuple[int, ...]

    @property
    def records(self) -> int:
        """Rows of all runs together."""
        return sum(self.rows)


class ExchangeDelivery:
    """One node's part of an output that is delivered, in one attempt or replay of a step.

    target: the output; `own` are the partitions that this node may write. transaction: None in a replay,
    which only computes the digests. now_ms: the step's time.
    """

    def __init__(
        self, settings: ClusterSettings, exchange: DeliveredExchange, sent: Sent, target: OutputTarget,
        transaction: StepTransaction | None, now_ms: int,
    ) -> None:  # fmt: skip
        self._sent, self._target = sent, target
        self._reader = ExchangeReader(
            settings, exchange.name, exchange.topic, exchange.topic_id, exchange.schema
        )
        self._writer = _writer(settings, target, transaction, sent.step, now_ms)

    def run(self, runs: Sequence[Run], keep: Keep | None = None) -> DeliveredRows:
        """Once; see `deliver`."""
        read = self._reader.read(runs, self._sent)
        try:
            for rows in read:
                partitions = place(rows, self._target, self._target.own)
                self._writer.write(rows, np.asarray(partitions), digest_rows(rows))
                if keep is not None:
                    keep(rows, partitions)
            slices = self._writer.finish()
        except BaseException:
            self._writer.abort()
            raise
        return DeliveredRows(tuple(slices), tuple(read.rows))

    def abort(self) -> None:
        """Write nothing more, from any thread; `run` raises soon. What has left may still arrive."""
        self._writer.abort()


def deliver(
    settings: ClusterSettings, exchange: DeliveredExchange, runs: Sequence[Run], sent: Sent, target: OutputTarget,
    transaction: StepTransaction | None, now_ms: int, keep: Keep | None = None,
) -> DeliveredRows:  # fmt: skip
    """Read the runs, find each row's partition of the output, write it there in the step's transaction, and wait
    until all is acknowledged. In a replay (transaction: None) only the digests are computed.

    target: the output; `own` are the partitions that this node may write. now_ms: the step's time. keep: is
    given rows and their partitions as they come, for a replay whose records are wanted.

    Blocking; for a thread of the node. Raises as `ExchangeReader.read` and `TransactionWriter.write` do, and
    ConfigurationError when a row belongs to a partition that is not this node's.
    """
    return ExchangeDelivery(settings, exchange, sent, target, transaction, now_ms).run(runs, keep)


def _writer(
    settings: ClusterSettings,
    target: OutputTarget,
    transaction: StepTransaction | None,
    step: int,
    now_ms: int,
) -> TransactionWriter | DigestWriter:
    if transaction is None:
        return DigestWriter(step, target.name, target.topic, target.partitions, target.digest)
    return TransactionWriter(
        settings,
        transaction.transactional_id,
        transaction.producer_id,
        transaction.producer_epoch,
        step,
        now_ms,
        target.name,
        target.topic,
        target.partitions,
        compression=target.compression,
        digest=target.digest,
    )

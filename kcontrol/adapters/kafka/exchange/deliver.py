"""Delivery: keyed rows that other nodes have sent, written to the output partitions that this node owns. Without Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from kcontrol.adapters.kafka.exchange.attempt import StepTransaction
from kcontrol.adapters.kafka.exchange.reader import Run, Sent
from kcontrol.adapters.kafka.write.targets import OutputTarget
from kcontrol.core.model import OutputSlice
from kcontrol.settings.cluster import ClusterSettings


@dataclass(frozen=True, slots=True)
class DeliveredExchange:
    """The exchange that brings the rows; its topic's id as Kafka's tools show it. schema: of what its sender writes: `key`,
    `value`, `headers`, `partition`, the digest's column, those that the query has."""

    name: str
    topic: str
    topic_id: str
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class Delivered:
    """What was written (in a replay: what was written then, at offsets 0 to 0), and how many rows were read of each run."""

    slices: tuple[OutputSlice, ...]
    rows: tuple[int, ...]


def deliver(
    settings: ClusterSettings, exchange: DeliveredExchange, runs: Sequence[Run], sent: Sent, target: OutputTarget,
    transaction: StepTransaction | None, now_ms: int, keep: Callable[[pa.RecordBatch, pa.Array], None] | None = None,
) -> Delivered:  # fmt: skip
    """Read the runs, find each row's partition of the output, and write it there in the step's transaction.

    target: the output; `own` are the partitions that this node may write. transaction: None in a replay, which only
    computes the digests. now_ms: the step's time. keep: is given the rows and their partitions as they come, for a replay
    whose records are wanted.

    Blocking; for a thread of the node. Raises as `ExchangeReader.read` and `TransactionWriter.write` do, and
    ConfigurationError when a row belongs to a partition that is not this node's.
    """
    raise NotImplementedError

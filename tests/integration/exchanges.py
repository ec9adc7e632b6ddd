"""What the tests of exchanges share: rows with their hashes, and an attempt that sends them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from kcontrol.adapters.kafka.exchange.attempt import StepTransaction
from kcontrol.adapters.kafka.exchange.reader import ExchangeReader, Run, Sent
from kcontrol.adapters.kafka.exchange.writer import ExchangeLimits, ExchangeWriter
from kcontrol.adapters.kafka.read.fetching import ReadLimits
from kcontrol.core.model import ExchangeSlice
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.chunk_digest import RowsDigest
from tests.integration.data_path import Owner, topic_id
from tests.support.patience import HANG_S

NAME = "by-user"
SCHEMA = pa.schema([("user", pa.string()), ("amount", pa.int64()), ("_shard", pa.int32())])
SMALL = ExchangeLimits(chunk_bytes=2_000, buffer_bytes=6_000)


def rows_of(count: int, seed: int = 1) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    users = [f"user-{number}" for number in rng.integers(0, 50, count)]
    return pa.RecordBatch.from_arrays(
        [
            pa.array(users),
            pa.array(rng.integers(0, 10**9, count)),
            pa.array(rng.integers(0, 8, count).astype(np.int32)),
        ],
        schema=SCHEMA,
    )


def hashes_of(rows: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray]:
    """Two longs a row, as if Spark had made them."""
    amounts = np.asarray(rows.column("amount"))
    return amounts * 0x1234567 + 1, ~amounts


def nodes_of(rows: pa.RecordBatch, nodes: int) -> np.ndarray:
    return np.asarray(rows.column("_shard")) % nodes


def transaction_of(owner: Owner, step: int = 1) -> StepTransaction:
    return StepTransaction(owner.transactional_id, *owner.producer, step)


def writer_of(
    settings: ClusterSettings,
    owner: Owner,
    topic: str,
    slot: int = 0,
    nodes: int = 2,
    step: int = 1,
    **options: Any,
) -> ExchangeWriter:
    return ExchangeWriter(settings, transaction_of(owner, step), NAME, topic, slot, nodes, **options)


def send(
    settings: ClusterSettings, owner: Owner, topic: str, rows: pa.RecordBatch, slot: int = 0, nodes: int = 2, step: int = 1,
    batch: int = 100, limits: ExchangeLimits = SMALL,
) -> ExchangeSlice:  # fmt: skip
    """All rows through one slot, so many at a time."""
    writer = writer_of(settings, owner, topic, slot, nodes, step, limits=limits)
    for start in range(0, rows.num_rows, batch):
        part = rows.slice(start, batch)
        writer.write(part, nodes_of(part, nodes), *hashes_of(part))
    sent = writer.finish()
    assert sent is not None
    return sent


def runs_for(node: int, *slices: ExchangeSlice) -> list[Run]:
    return [
        (piece.partition, run.from_, run.to) for piece in slices for run in piece.runs if run.node == node
    ]


def sent_by(owner: Owner, node: int, step: int = 1, committed: bool = False) -> Sent:
    return Sent(step, node, *owner.producer, committed=committed)


def reader_of(settings: ClusterSettings, topic: str, **limits: int) -> ExchangeReader:
    known = replace(ReadLimits(deadline_ms=round(HANG_S * 1_000)), **limits)
    return ExchangeReader(settings, NAME, topic, topic_id(settings, topic), SCHEMA, known)


def read(
    settings: ClusterSettings, topic: str, runs: Sequence[Run], sent: Sent, **limits: int
) -> list[dict[str, Any]]:
    return [
        row for batch in reader_of(settings, topic, **limits).read(runs, sent) for row in batch.to_pylist()
    ]


def wanted(rows: pa.RecordBatch, node: int, nodes: int = 2) -> list[dict[str, Any]]:
    return rows.filter(pa.array(nodes_of(rows, nodes) == node)).to_pylist()


def digest_for(rows: pa.RecordBatch, node: int, nodes: int = 2) -> RowsDigest:
    mine = nodes_of(rows, nodes) == node
    first, second = hashes_of(rows)
    return RowsDigest.of(first[mine], second[mine])

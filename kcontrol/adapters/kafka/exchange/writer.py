"""What one writer task sends to other nodes, through the partition of the exchange's topic that is its alone.

Rows are packed as they come, and kept until there is enough: what is for one node then lies together, and is
found again as a few long runs. A batch of Kafka holds chunks for one node only, so that whoever reads a run
fetches nothing else.

Records bear the time of the wall clock, not that of the step as outputs do: a broker rolls a log segment
whose first record is older than `segment.ms`, at every marker, if stamps are old, and a fetch ends at each
segment.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from kcontrol.adapters.kafka.exchange.attempt import FORMAT, FORMAT_HEADER, TO_HEADER, StepTransaction
from kcontrol.adapters.kafka.write.writer import TransactionWriter, WriteLimits
from kcontrol.core.model import ExchangeRun, ExchangeSlice, FailureKind
from kcontrol.errors import StepFailedError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import HEADERS_TYPE
from kcontrol.wire.batches.columns import Ints, Longs
from kcontrol.wire.chunk_digest import NO_ROWS, Exact, RowsDigest, by_node
from kcontrol.wire.chunks import CHUNK_BYTES, RowChunk, pack


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """chunk_bytes: see `kcontrol.wire.chunks`. buffer_bytes: of chunks that are kept, so that runs are long.
    deadline_ms: a batch that is not acknowledged by then has failed."""

    chunk_bytes: int = CHUNK_BYTES
    buffer_bytes: int = 8 << 20
    deadline_ms: int = 30_000


@dataclass(slots=True)
class _Unsent:
    """Rows for one node that are not sent yet."""

    digest: RowsDigest = NO_ROWS
    chunks: list[RowChunk] = field(default_factory=list)


class ExchangeWriter:
    """Writes one task's rows to its slot of an exchange, in the step's transaction, which the coordinator
    owns. Its slice is true only if `finish` returned it.

    topic: of the exchange. slot: the partition, node * max_tasks + task. nodes: how many there are to send
    to. compression: 'none', 'lz4' or 'zstd'.
    """

    def __init__(
        self, settings: ClusterSettings, transaction: StepTransaction, exchange: str, topic: str, slot: int, nodes: int,
        compression: str = "lz4", limits: ExchangeLimits | None = None,
    ) -> None:  # fmt: skip
        self._limits = limits or ExchangeLimits()
        self._transaction = transaction
        self._exchange, self._topic, self._slot, self._nodes = exchange, topic, slot, nodes
        self._compression = compression
        self._kept: dict[int, _Unsent] = {}
        self._kept_bytes = 0
        self._runs: list[ExchangeRun] = []
        self._records = 0
        self._writer = TransactionWriter(
            settings,
            transaction.transactional_id,
            transaction.producer_id,
            transaction.producer_epoch,
            transaction.step,
            time.time_ns() // 1_000_000,
            exchange,
            topic,
            slot + 1,
            limits=WriteLimits(deadline_ms=self._limits.deadline_ms),
            digest="count",
            what="exchange",
        )

    def write(
        self, rows: pa.RecordBatch, nodes_of_rows: Ints, first: Longs, second: Longs, exact: Exact = None
    ) -> None:
        """Rows of which each goes to the node of the same index; `first`, `second` and `exact` are their hashes
        (`RowsDigest`), which need not be among the columns. Waits while too much is under way.

        Raises FencedError: the attempt is over. StepFailedError: kind QUERY for a row that the topic does not
        take, LOST for a second writer in the slot. RetriableError, TopicError, ClusterError,
        ConfigurationError.
        """
        for chunk in pack(rows, nodes_of_rows, self._nodes, self._compression, self._limits.chunk_bytes):
            self._kept.setdefault(chunk.node, _Unsent()).chunks.append(chunk)
            self._kept_bytes += chunk.data.size
        for node, digest in by_node(nodes_of_rows, first, second, exact).items():
            self._kept[node].digest += digest
        if self._kept_bytes >= self._limits.buffer_bytes:
            self._send()

    def finish(self) -> ExchangeSlice | None:
        """Send the rest, wait until all is acknowledged, and say what was written; None if there were no
        rows.

        Its runs follow each other without a gap, one or more a node, none without rows. Raises as `write`
        does; then nothing was written that counts.
        """
        self._send()
        written = self._writer.finish()
        if not written:
            return None
        (found,) = written
        if found.to - found.from_ != self._records:
            raise StepFailedError(
                FailureKind.LOST,
                f"step {self._transaction.step}, exchange {self._exchange!r}, topic {self._topic!r}, partition "
                f"{self._slot}: {self._records} records lie at offsets {found.from_} to {found.to}: somebody else "
                "writes to it in the same attempt. A task was run twice.",
            )
        runs = tuple(
            ExchangeRun(run.node, found.from_ + run.from_, found.from_ + run.to, run.records, run.digest)
            for run in self._runs
        )
        return ExchangeSlice(self._exchange, self._slot, found.from_, found.to, runs)

    def abort(self) -> None:
        """Send nothing more, from any thread; `write` and `finish` raise from now on. What has left may still
        arrive."""
        self._writer.abort()

    def _send(self) -> None:
        """What is kept, as a run for each node; offsets count from the first record of this writer."""
        for node, kept in sorted(self._kept.items()):
            for chunk in kept.chunks:
                self._writer.write(_record(chunk), np.full(1, self._slot, np.int32))
            self._writer.seal()
            end = self._records + len(kept.chunks)
            self._runs.append(ExchangeRun(node, self._records, end, kept.digest.rows, kept.digest.hex))
            self._records = end
        self._kept, self._kept_bytes = {}, 0


class ExchangeCounter:
    """An `ExchangeWriter` that writes nothing: what a replay uses. Its slice has one run a node, all at
    offsets 0 to 0."""

    def __init__(self, exchange: str, slot: int, nodes: int) -> None:
        self._exchange, self._slot, self._nodes = exchange, slot, nodes
        self._found: dict[int, RowsDigest] = {}

    def write(
        self,
        rows: pa.RecordBatch,  # noqa: ARG002 - an ExchangeWriter needs them
        nodes_of_rows: Ints,
        first: Longs,
        second: Longs,
        exact: Exact = None,
    ) -> None:
        """See `ExchangeWriter.write`."""
        for node, digest in by_node(nodes_of_rows, first, second, exact).items():
            self._found[node] = self._found.get(node, NO_ROWS) + digest

    def finish(self) -> ExchangeSlice | None:
        """See `ExchangeWriter.finish`."""
        runs = tuple(
            ExchangeRun(node, 0, 0, digest.rows, digest.hex) for node, digest in sorted(self._found.items())
        )
        return ExchangeSlice(self._exchange, self._slot, 0, 0, runs) if runs else None

    def abort(self) -> None:
        """There is nothing to stop."""


def digests_of(sent: ExchangeSlice) -> Mapping[int, RowsDigest]:
    """What a slice holds for each node, however it was cut into runs: what a replay must find again. Raises
    DamagedRecordError."""
    found: dict[int, RowsDigest] = {}
    for run in sent.runs:
        found[run.node] = found.get(run.node, NO_ROWS) + RowsDigest.parsed(run.records, run.digest)
    return found


def _record(chunk: RowChunk) -> pa.RecordBatch:
    """One row with the chunk for its value, which is not copied."""
    ends = pa.py_buffer(np.array([0, chunk.data.size], np.int32))
    value = pa.Array.from_buffers(pa.binary(), 1, [None, ends, chunk.data])
    headers = [
        {"key": TO_HEADER, "value": str(chunk.node).encode()},
        {"key": FORMAT_HEADER, "value": FORMAT},
    ]
    return pa.RecordBatch.from_arrays([value, pa.array([headers], HEADERS_TYPE)], ["value", "headers"])

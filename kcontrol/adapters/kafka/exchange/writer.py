"""What one writer task sends to other nodes, through the partition of the exchange's topic that is its alone."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from kcontrol.adapters.kafka.exchange.attempt import StepTransaction
from kcontrol.core.model import ExchangeSlice
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches.columns import Ints, Longs


@dataclass(frozen=True, slots=True)
class ExchangeLimits:
    """chunk_bytes: see `kcontrol.wire.chunks`. buffer_bytes: of chunks that are kept, so that runs are long.
    deadline_ms: a batch that is not acknowledged by then has failed."""

    chunk_bytes: int = 900_000
    buffer_bytes: int = 8 << 20
    deadline_ms: int = 30_000


class ExchangeWriter:
    """Writes one task's rows to its slot of an exchange, in the step's transaction, which the coordinator owns. Its slice
    is true only if `finish` returned it.

    topic: of the exchange. slot: the partition, node * max_tasks + task. nodes: how many there are to send to.
    compression: 'none', 'lz4' or 'zstd'.
    """

    def __init__(
        self, settings: ClusterSettings, transaction: StepTransaction, exchange: str, topic: str, slot: int, nodes: int,
        compression: str = "lz4", limits: ExchangeLimits | None = None,
    ) -> None:  # fmt: skip
        raise NotImplementedError

    def write(self, rows: pa.RecordBatch, nodes_of_rows: Ints, first: Longs, second: Longs) -> None:
        """Rows of which each goes to the node of the same index; `first` and `second` are their hashes (`RowsDigest`), which
        need not be among the columns. Waits while too much is under way.

        Raises FencedError: the attempt is over. StepFailedError: kind QUERY for a row that the topic does not take,
        LOST for a second writer in the slot. RetriableError, TopicError, ClusterError, ConfigurationError.
        """
        raise NotImplementedError

    def finish(self) -> ExchangeSlice | None:
        """Send the rest, wait until all is acknowledged, and say what was written; None if there were no rows.

        Its runs follow each other without a gap, one or more a node, none without rows. Raises as `write` does; then
        nothing was written that counts.
        """
        raise NotImplementedError

    def abort(self) -> None:
        """Send nothing more, from any thread; `write` and `finish` raise from now on. What has left may still arrive."""
        raise NotImplementedError


class ExchangeCounter:
    """An `ExchangeWriter` that writes nothing: what a replay uses. Its slice has one run a node, all at offsets 0 to 0."""

    def __init__(self, exchange: str, slot: int, nodes: int) -> None:
        raise NotImplementedError

    def write(self, rows: pa.RecordBatch, nodes_of_rows: Ints, first: Longs, second: Longs) -> None:
        """See `ExchangeWriter.write`."""
        raise NotImplementedError

    def finish(self) -> ExchangeSlice | None:
        """See `ExchangeWriter.finish`."""
        raise NotImplementedError

    def abort(self) -> None:
        """There is nothing to stop."""

"""The writers of one Spark task: one for each output that its rows name, writing for real
or, in a replay, only counting.

A replay whose records somebody wants keeps them too, in a file of this task.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from kcontrol.adapters.kafka.write.writer import DigestWriter, TransactionWriter
from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.messages import Grant
from kcontrol.adapters.spark.channel.targets import DIGEST_COLUMN, OutputTarget
from kcontrol.adapters.spark.sink.spool import SpoolWriter
from kcontrol.adapters.spark.source.reading import cluster_settings
from kcontrol.core.model import OutputSlice

_Writer = TransactionWriter | DigestWriter | SpoolWriter


class RowWriter:
    """Writes rows under the grant that the driver gave.

    writer: the number of this task among the query's writers. spool: in a replay, the
    directory that takes its rows, if any.
    """

    def __init__(
        self, address: ChannelAddress, grant: Grant, replay: bool, writer: int, spool: Path | None = None
    ) -> None:
        self._address, self._grant, self._replay = address, grant, replay
        self._number, self._spool = writer, spool
        self._writers: dict[str, _Writer] = {}

    def write(self, target: OutputTarget, rows: pa.RecordBatch, partitions: pa.Array) -> None:
        """Rows of one output, each to its partition. Raises as `TransactionWriter.write` does."""
        numbers = np.asarray(partitions)
        digest_rows = None
        if DIGEST_COLUMN in rows.schema.names:
            columns = [name for name in ("key", "headers") if name in rows.schema.names]
            digest_rows = rows.select([*columns, DIGEST_COLUMN]).rename_columns([*columns, "value"])
        self._writer(target).write(rows, numbers, digest_rows)

    def finish(self) -> list[OutputSlice]:
        """Wait until everything is acknowledged. Raises as `TransactionWriter.finish` does."""
        return [item for name in sorted(self._writers) for item in self._writers[name].finish()]

    def abort(self) -> None:
        """Send nothing more: the worker process outlives the task."""
        for writer in self._writers.values():
            writer.abort()

    def _writer(self, target: OutputTarget) -> _Writer:
        if target.name not in self._writers:
            self._writers[target.name] = self._open(target)
        return self._writers[target.name]

    def _open(self, target: OutputTarget) -> _Writer:
        grant = self._grant
        if self._replay:
            counted = DigestWriter(grant.step, target.name, target.topic, target.partitions, target.digest)
            return (
                counted
                if self._spool is None
                else SpoolWriter(counted, self._spool, target.name, self._number)
            )
        return TransactionWriter(
            cluster_settings(self._address),
            grant.transactional_id,
            grant.producer_id,
            grant.producer_epoch,
            grant.step,
            grant.now_ms,
            target.name,
            target.topic,
            target.partitions,
            compression=target.compression,
            digest=target.digest,
        )

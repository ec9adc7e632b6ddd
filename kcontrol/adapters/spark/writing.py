"""The writers of one Spark task: one for each output that its rows name, writing for real or, in a replay, only counting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from kcontrol.adapters.kafka.writer import DigestWriter, TransactionWriter
from kcontrol.adapters.spark.channel import ChannelAddress
from kcontrol.adapters.spark.reading import cluster_settings
from kcontrol.adapters.spark.rows import DIGEST_COLUMN, OutputTarget
from kcontrol.core.model import OutputSlice


class RowWriter:
    """Writes rows under the grant that the driver gave."""

    def __init__(self, address: ChannelAddress, grant: Mapping[str, Any], replay: bool) -> None:
        self._address, self._grant, self._replay = address, grant, replay
        self._writers: dict[str, TransactionWriter | DigestWriter] = {}

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

    def _writer(self, target: OutputTarget) -> TransactionWriter | DigestWriter:
        if target.name not in self._writers:
            self._writers[target.name] = self._open(target)
        return self._writers[target.name]

    def _open(self, target: OutputTarget) -> TransactionWriter | DigestWriter:
        grant = self._grant
        if self._replay:
            return DigestWriter(grant["step"], target.name, target.topic, target.partitions, target.digest)
        return TransactionWriter(
            cluster_settings(self._address),
            grant["transactional_id"],
            grant["producer_id"],
            grant["producer_epoch"],
            grant["step"],
            grant["now_ms"],
            target.name,
            target.topic,
            target.partitions,
            compression=target.compression,
            digest=target.digest,
        )

"""The writers of one Spark task: one for each output that its rows name, writing for real
or, in a replay, only counting.

A replay whose records somebody wants keeps them too, in a file of this task.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from kcontrol.adapters.kafka.write.targets import digest_rows
from kcontrol.adapters.kafka.write.writer import DigestWriter, TransactionWriter
from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.messages import Grant, Placement
from kcontrol.adapters.spark.channel.targets import OutputTarget
from kcontrol.adapters.spark.channel.write_job import WriteJob
from kcontrol.adapters.spark.sink.spool import SpoolWriter
from kcontrol.adapters.spark.sink.turns import ChannelTurns, WriterIdentity
from kcontrol.adapters.spark.source.reading import cluster_settings
from kcontrol.core.model import OutputSlice

_Writer = TransactionWriter | DigestWriter | SpoolWriter


class RowWriter:
    """Writes rows under the grant that the driver gave. who: this task among the query's writers."""

    def __init__(self, address: ChannelAddress, grant: Grant, job: WriteJob, who: WriterIdentity) -> None:
        self._address, self._grant, self._job, self._who = address, grant, job, who
        self.own = {each.output: each.partitions for each in grant.own}
        """By output: the partitions that this task may write."""
        self._writers: dict[str, _Writer] = {}

    def write(self, target: OutputTarget, rows: pa.RecordBatch, partitions: pa.Array) -> None:
        """Rows of one output, each to its partition. Raises as `TransactionWriter.write` does."""
        numbers = np.asarray(partitions)
        self._writer(target).write(rows, numbers, digest_rows(rows))

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
        if self._job.replay:
            counted = DigestWriter(grant.step, target.name, target.topic, target.partitions, target.digest)
            if self._job.spool is None:
                return counted
            return SpoolWriter(counted, Path(self._job.spool), target.name, self._who.writer)
        shared = self._job.placement is Placement.TURNS
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
            turns=ChannelTurns(self._address, self._who, target.name) if shared else None,
        )

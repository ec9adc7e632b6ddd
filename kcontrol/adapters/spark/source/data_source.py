"""The Spark data source of a Kafka input: Spark's offset is a step, and a step's content
is what the coordinator divided.

Three kinds of process use this module. A planner process (one for each query and input) waits for steps and
asks the driver how a step is cut into tasks. A task reads its splits, straight into Arrow, and reports what
it read. Spark's own planner pickles the reader once for the tasks. None of them knows anything but the
driver's side channel.

`latestOffset` never returns its own start: Spark would make an empty batch, or, with two
inputs, a batch with one missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit
from pyspark.sql.types import StructType

from kcontrol.adapters.spark.channel.client import ChannelAddress, client_of
from kcontrol.adapters.spark.channel.crossing import carried
from kcontrol.adapters.spark.channel.messages import Announce, AskSplits, AwaitStep, ReadSplit, ReportReads

if TYPE_CHECKING:
    import pyarrow as pa

SOURCE_NAME = "kcontrol"
QUERY_PROPERTY = "kcontrol.query"
"""Spark's local property that tells tasks which query they work for."""

_PLACED = ("column", "value_format", "schema")
_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int"
)
_HEADERS = ", headers array<struct<key: string, value: binary>>"


def source_options(
    address: ChannelAddress, input_name: str, with_headers: bool, placed_by: Mapping[str, str] | None = None
) -> dict[str, str]:
    """What `spark.readStream.format(SOURCE_NAME).options(...)` needs. Spark redacts the
    value of a key named `secret`.

    placed_by: the fields of DeclaredPlacing, where the placing of records can be checked.
    """
    return {
        **{f"placed.{name}": text for name, text in (placed_by or {}).items()},
        "input": input_name,
        "headers": str(with_headers).lower(),
        "channel.host": address.host,
        "channel.port": str(address.port),
        "channel.secret": address.secret,
        "channel.fingerprint": address.fingerprint,
    }


@dataclass
class SourceTask(InputPartition):
    """What one source task reads: `splits` are (partition, from, to) in this order.
    digest_version: see `InputSlice`."""

    serial: int
    topic: str
    topic_id: str
    splits: tuple[tuple[int, int, int], ...]
    placed_among: int
    """How many partitions the topic has, if records must lie where `partitioned_by` says; else 0."""
    digest_version: int


class KcontrolSource(DataSource):
    """Registered under SOURCE_NAME; has the columns of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        return SOURCE_NAME

    def schema(self) -> str:
        return _COLUMNS + (_HEADERS if self.options.get("headers") == "true" else "")

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - PySpark's names
        return StepStreamReader(self.options)


class StepStreamReader(DataSourceStreamReader):
    """Plans in the planner process, reads in tasks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._input = options["input"]
        self._with_headers = options.get("headers") == "true"
        self._placed = {name: options[f"placed.{name}"] for name in _PLACED if f"placed.{name}" in options}
        self._address = ChannelAddress(
            options["channel.host"],
            int(options["channel.port"]),
            options["channel.secret"],
            options["channel.fingerprint"],
        )

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        return {"step": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, ARG002 - PySpark's names
        """Blocks until the step after `start` is released. `query.stop()` ends it by killing this process."""
        while True:
            with carried():
                step = client_of(self._address).ask(AwaitStep(start["step"])).step
            if step is not None:
                return {"step": step}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The tasks of the step `end`; also called when Spark plans a recorded batch
        again, without `latestOffset`."""
        if start == end:
            return []  # Spark asks this once at a restart, only to tell simple readers where they are
        with carried():
            cut = client_of(self._address).ask(AskSplits(self._input, end["step"]))
        return [
            SourceTask(
                cut.serial,
                cut.topic,
                cut.topic_id,
                tuple((split.partition, split.from_, split.to) for split in splits),
                cut.placed_among,
                cut.digest_version,
            )
            for splits in cut.tasks
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        # What reads is not imported with this module: a planner is a new process for each query and input at
        # each start of a node, and would spend half of its time on it.
        from kcontrol.adapters.spark.channel.reporting import failures_reported
        from kcontrol.adapters.spark.source.reading import cluster_settings, read_splits

        assert isinstance(partition, SourceTask)
        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty(QUERY_PROPERTY) or ""
        read = tuple(sorted({split[0] for split in partition.splits}))
        who = (partition.serial, query, self._input)
        with carried():
            client = client_of(self._address)
            told = client.ask(Announce(*who, read, context.taskAttemptId(), context.attemptNumber()))
            settings = cluster_settings(self._address)
        with failures_reported(self._address, partition.serial):
            what = (self._input, partition.topic, partition.topic_id, partition.splits)
            check = None
            if self._placed and partition.placed_among:
                from kcontrol.adapters.spark.channel.placement_check import DeclaredPlacing, PlacementCheck

                declared = DeclaredPlacing(self._input, **self._placed)
                check = PlacementCheck(declared, partition.topic, partition.placed_among)
            more = (self._with_headers, told.columns, check, partition.digest_version)
            counted = yield from read_splits(settings, *what, *more)
        reads = tuple(
            ReadSplit(number, lo, hi, found.records, found.digest)
            for (number, lo, hi), found in zip(partition.splits, counted, strict=True)
        )
        with carried():
            client.ask(ReportReads(*who, reads))

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to forget: what is committed is told by the steps topic alone."""

    def stop(self) -> None:
        """Nothing to close: connections end with the process."""

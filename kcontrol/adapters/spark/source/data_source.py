"""The Spark data source of a Kafka input: Spark's offset is a step, and a step's content
is what the coordinator divided.

Three kinds of process use this module. A planner process (one for each query and input) waits for steps and
asks the driver how a step is cut into tasks. A task reads its splits, straight into Arrow, and reports what
it read. Spark's own planner pickles the reader once for the tasks. None of them knows anything but the
driver's side channel.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import ArrayType, StructType

from kcontrol.adapters.spark.channel.client import ChannelAddress, client_of
from kcontrol.adapters.spark.channel.crossing import carried
from kcontrol.adapters.spark.channel.messages import (
    Announce,
    AskSplits,
    BeginTask,
    ReadSplit,
    ReportReads,
    Split,
    TaskSplits,
)
from kcontrol.adapters.spark.source.step_offsets import (
    QUERY_PROPERTY,
    AnyStepTask,
    StepOffsets,
    address_in,
    address_options,
    query_context,
)
from kcontrol.adapters.spark.values.json_types import json_columns

if TYPE_CHECKING:
    import pyarrow as pa

    from kcontrol.adapters.spark.channel.attempt import Counted
    from kcontrol.adapters.spark.channel.placement_check import PlacementCheck
    from kcontrol.settings.cluster import ClusterSettings

__all__ = [
    "QUERY_PROPERTY",
    "SENDING_SOURCE",
    "SOURCE_NAME",
    "AnyStepReader",
    "KcontrolSource",
    "showing",
    "source_options",
]

SOURCE_NAME = "kcontrol"
SENDING_SOURCE = "kcontrol_sending"
"""The same source where its tasks send what they read to nodes and give Spark nothing: see `sink/sent_as_read`."""

_PLACED = ("column", "value_format", "schema")
_PLACE = (("partition", "integer"), ("offset", "long"))
_COLUMNS = (
    ("key", "binary"),
    ("value", "binary"),
    ("topic", "string"),
    *_PLACE,
    ("timestamp", "timestamp"),
    ("timestampType", "integer"),
)
_LINES = (("value", "binary"), ("file", "string"), *_PLACE, ("wrong", "string"))
_HEADERS = ArrayType(StructType().add("key", "string").add("value", "binary"))


def source_options(
    address: ChannelAddress,
    input_name: str,
    with_headers: bool,
    placed_by: Mapping[str, str] | None = None,
    tasks: int = 0,
    needed: bool = False,
    randoms: Sequence[str] | None = None,
    names: Sequence[str] | None = None,
    json_schema: StructType | None = None,
) -> dict[str, str]:
    """What `spark.readStream.format(SOURCE_NAME).options(...)` needs, or `spark.read`. Spark redacts the
    value of a key named `secret`.

    placed_by: the fields of DeclaredPlacing, where the placing of records can be checked. tasks: of a batch
    frame, how many a step can have. needed: a task whose step does not come ends its job instead of giving no rows, which
    would be taken for rows of the step. randoms: of a generated input, its random columns. names: of an input of files, what a
    header must name. None of both: it is a topic. json_schema: of the values, whose fields are to stand beside them
    (`json_types`).
    """
    return {
        **{f"placed.{name}": text for name, text in (placed_by or {}).items()},
        "tasks": str(tasks),
        "needed": str(needed).lower(),
        "input": input_name,
        "headers": str(with_headers).lower(),
        **({} if randoms is None else {"generated": ",".join(randoms)}),
        **({} if names is None else {"lines": json.dumps(list(names))}),
        **({} if json_schema is None else {"json": json_schema.json()}),
        **address_options(address),
    }


def showing(columns: Sequence[str]) -> dict[str, str]:
    """More options, of a source of batch frames that has no other columns than these, which are in their order."""
    return {"shown": json.dumps(list(columns))}


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


def _columns(named: Iterable[tuple[str, str]]) -> StructType:
    """named: with the names of their types, as Spark has them in JSON."""
    columns = StructType()
    for name, kind in named:
        columns = columns.add(name, kind)
    return columns


class KcontrolSource(DataSource):
    """Registered under SOURCE_NAME; has the columns of Spark's own Kafka source."""

    @classmethod
    def name(cls) -> str:
        return SOURCE_NAME

    def schema(self) -> StructType:
        columns = self._all()
        shown = shown_in(self.options)
        return columns if shown is None else StructType([each for each in columns if each.name in shown])

    def _all(self) -> StructType:
        # A type, and no text: a JVM that has just started reads 0.25 s in that.
        if "generated" in self.options:
            randoms = [(name, "double") for name in randoms_in(self.options)]
            return _columns([("timestamp", "timestamp"), ("value", "long"), *randoms, *_PLACE])
        columns = _columns(_LINES if "lines" in self.options else _COLUMNS)
        if self.options.get("headers") == "true" and "lines" not in self.options:
            columns = columns.add("headers", _HEADERS)
        if "json" not in self.options:
            return columns
        return StructType([*columns, *json_columns(columns, json_schema_in(self.options))])

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - PySpark's names
        return StepStreamReader(self.options)

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - PySpark's name
        return AnyStepReader(self.options)


def randoms_in(options: Mapping[str, str]) -> tuple[str, ...]:
    """The names of the random columns of a generated input."""
    return tuple(name for name in options["generated"].split(",") if name)


def shown_in(options: Mapping[str, str]) -> list[str] | None:
    """The columns of a source that does not have all; None: it has."""
    shown: list[str] | None = json.loads(options.get("shown", "null"))
    return shown


def json_schema_in(options: Mapping[str, str]) -> StructType:
    """Of the values whose fields stand beside them."""
    return StructType.fromJson(json.loads(options["json"]))


class _TaskReader:
    """What tasks do, however they were planned."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.input = options["input"]
        self._with_headers = options.get("headers") == "true"
        self._placed = {name: options[f"placed.{name}"] for name in _PLACED if f"placed.{name}" in options}
        self._randoms = randoms_in(options) if "generated" in options else None
        self._names = json.loads(options["lines"]) if "lines" in options else None
        self._json = json_schema_in(options) if "json" in options else None
        self._shown = shown_in(options)
        self.address = address_in(options)

    def rows(self, serial: int, query: str, told: TaskSplits) -> Iterator[pa.RecordBatch]:
        """Reads the splits and reports what was read."""
        # What reads is not imported with this module: a planner is a new process for each query and input at
        # each start of a node, and would spend half of its time on it.
        from kcontrol.adapters.spark.channel.reporting import failures_reported
        from kcontrol.adapters.spark.source.reading import cluster_settings

        with carried():
            client = client_of(self.address)
            settings = cluster_settings(self.address)
        splits = tuple((split.partition, split.from_, split.to) for split in told.splits)
        with failures_reported(self.address, serial):
            check = None
            if self._placed and told.placed_among:
                from kcontrol.adapters.spark.channel.placement_check import DeclaredPlacing, PlacementCheck

                declared = DeclaredPlacing(self.input, **self._placed)
                check = PlacementCheck(declared, told.topic, told.placed_among)
            reading = self._read(settings, told, splits, check)
            counted = yield from (reading if self._shown is None else _with_only(self._shown, reading))
        reads = tuple(
            ReadSplit(number, lo, hi, found.records, found.digest)
            for (number, lo, hi), found in zip(splits, counted, strict=True)
        )
        with carried():
            client.ask(ReportReads(serial, query, self.input, reads))

    def _read(
        self,
        settings: ClusterSettings,
        told: TaskSplits,
        splits: Sequence[tuple[int, int, int]],
        check: PlacementCheck | None,
    ) -> Generator[pa.RecordBatch, None, list[Counted]]:
        from kcontrol.adapters.spark.source import reading

        what = (self.input, told.topic, told.topic_id, splits)
        if self._randoms is not None:
            return reading.read_generated(*what, self._randoms, told.columns)
        if self._names is not None:
            return reading.read_file_lines(*what, self._names, told.columns, self._json)
        return reading.read_splits(
            settings, *what, self._with_headers, told.columns, check, told.digest_version, self._json
        )


def _with_only(
    columns: list[str], reading: Generator[pa.RecordBatch, None, list[Counted]]
) -> Generator[pa.RecordBatch, None, list[Counted]]:
    while True:
        try:
            batch = next(reading)
        except StopIteration as end:
            counted: list[Counted] = end.value
            return counted
        yield batch.select(columns)


class StepStreamReader(StepOffsets):
    """Plans in the planner process, reads in tasks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._task = _TaskReader(options)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The tasks of the step `end`; also called when Spark plans a recorded batch
        again, without `latestOffset`."""
        if start == end:
            return []  # Spark asks this once at a restart, only to tell simple readers where they are
        with carried():
            cut = client_of(self._task.address).ask(AskSplits(self._task.input, end["step"]))
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
        assert isinstance(partition, SourceTask)
        context, query = query_context()
        read = tuple(sorted({split[0] for split in partition.splits}))
        who = (partition.serial, query, self._task.input)
        with carried():
            client = client_of(self._task.address)
            told = client.ask(Announce(*who, read, context.taskAttemptId(), context.attemptNumber()))
        splits = tuple(Split(*split) for split in partition.splits)
        more = (partition.placed_among, partition.digest_version, told.columns)
        found = TaskSplits(partition.topic, partition.topic_id, splits, *more)
        yield from self._task.rows(partition.serial, query, found)


class AnyStepReader(DataSourceReader):
    """Of a query that is planned once: its tasks learn what is theirs when they run. There are as many as a
    step can have; those that a step does not have find nothing to read.

    They belong to the attempt whose job runs them, not to the one that is under way when they ask: a task
    that comes too late is refused.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._task = _TaskReader(options)
        self._tasks = int(options["tasks"])
        self._needed = options.get("needed") == "true"

    def partitions(self) -> Sequence[InputPartition]:
        return [AnyStepTask(task) for task in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from kcontrol.adapters.spark.channel.write_job import job_of, needed_job_of

        assert isinstance(partition, AnyStepTask)
        context, query = query_context()
        with carried():
            job = (needed_job_of if self._needed else job_of)(context, self._task.address, query)
            if job is None:
                return
            who = (job.serial, query, self._task.input, partition.task)
            told = client_of(self._task.address).ask(
                BeginTask(*who, context.taskAttemptId(), context.attemptNumber())
            )
        if told.splits:
            yield from self._task.rows(job.serial, query, told)

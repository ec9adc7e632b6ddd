"""How Spark reads an exchange: as many tasks as the layout of the step says, each of which asks what is its part when it
runs. Before the rows are there no task runs: the query waits for them in the driver.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from kcontrol.adapters.spark.channel.client import client_of
from kcontrol.adapters.spark.channel.crossing import carried
from kcontrol.adapters.spark.channel.messages import AskReaders, BeginReading, ReportTaken, TaskRuns
from kcontrol.adapters.spark.source.step_offsets import AnyStepTask, StepOffsets, address_in, query_context

if TYPE_CHECKING:
    import pyarrow as pa

    from kcontrol.adapters.spark.channel.client import ChannelAddress


@dataclass
class ExchangeTask(InputPartition):
    """Which source task of the exchange it is, in one attempt."""

    serial: int
    task: int


class _RunsReader:
    """What tasks do, however they were planned."""

    def __init__(self, options: Mapping[str, str], address: ChannelAddress) -> None:
        self.exchange, self._schema, self.address = options["exchange"], options["schema"], address

    def rows(self, serial: int, task: int) -> Iterator[pa.RecordBatch]:
        """Asks for the runs that are the task's, reads them, and says how many rows they had. serial: of the attempt that it
        works for."""
        context, query = query_context()
        who = (serial, query, self.exchange, task)
        with carried():
            client = client_of(self.address)
            told = client.ask(BeginReading(*who, context.taskAttemptId(), context.attemptNumber()))
        found = yield from self._rows(serial, told)
        with carried():
            client.ask(ReportTaken(*who, found))

    def _rows(self, serial: int, told: TaskRuns) -> Generator[pa.RecordBatch, None, int]:
        """Yields the rows of all runs; returns how many there were."""
        from kcontrol.adapters.kafka.exchange.reader import ExchangeReader, Sent
        from kcontrol.adapters.spark.channel.reporting import failures_reported
        from kcontrol.adapters.spark.source.exchange_schema import schema_of
        from kcontrol.adapters.spark.source.reading import cluster_settings, joined

        if not told.runs:
            return 0
        if told.rehearsed:
            return (yield from self._rehearsed(serial, told))
        with carried():
            settings = cluster_settings(self.address)
        with failures_reported(self.address, serial):
            schema = schema_of(self._schema)
            sent = Sent(told.step, told.node, told.producer_id, told.producer_epoch, told.committed)
            reader = ExchangeReader(settings, self.exchange, told.topic, told.topic_id, schema)
            reading = reader.read([(run.partition, run.from_, run.to) for run in told.runs], sent)
            yield from joined(reading)
            return reading.records

    def _rehearsed(self, serial: int, told: TaskRuns) -> Generator[pa.RecordBatch, None, int]:
        from kcontrol.adapters.spark.channel.reporting import failures_reported
        from kcontrol.adapters.spark.channel.sent_rows import read_sent
        from kcontrol.adapters.spark.source.exchange_schema import schema_of
        from kcontrol.adapters.spark.source.reading import joined

        place, rows, schema = Path(told.rehearsed), 0, schema_of(self._schema)
        with failures_reported(self.address, serial):
            for run in told.runs:
                for batch in joined(read_sent(place, self.exchange, run.partition, told.node, schema)):
                    rows += batch.num_rows
                    yield batch
        return rows


class ExchangeStreamReader(StepOffsets):
    """Plans in the planner process, reads in tasks."""

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(options)
        self._task = _RunsReader(options, self.address)

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        """The tasks of the step `end`. What they read is not known yet."""
        if start == end:
            return []
        with carried():
            told = client_of(self.address).ask(AskReaders(self._task.exchange, end["step"]))
        return [ExchangeTask(told.serial, task) for task in range(told.tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, ExchangeTask)
        return self._task.rows(partition.serial, partition.task)


class AnyStepExchangeReader(DataSourceReader):
    """Of a plan that is kept: its tasks learn which attempt they work for when they run. They belong to the attempt whose job
    runs them: one that comes too late is refused."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._task, self._tasks = _RunsReader(options, address_in(options)), int(options["tasks"])

    def partitions(self) -> Sequence[InputPartition]:
        return [AnyStepTask(task) for task in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from kcontrol.adapters.spark.channel.write_job import needed_job_of

        assert isinstance(partition, AnyStepTask)
        context, query = query_context()
        with carried():
            job = needed_job_of(context, self._task.address, query)
        return self._task.rows(job.serial, partition.task)

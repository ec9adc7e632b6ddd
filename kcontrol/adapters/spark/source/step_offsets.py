"""What the streams of a pipeline have in common: Spark's offset is a step, and none is said before it is released.

`latestOffset` never returns its own start: Spark would make an empty batch, or, with two
inputs, a batch with one missing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit

from kcontrol.adapters.spark.channel.client import ChannelAddress, client_of
from kcontrol.adapters.spark.channel.crossing import carried
from kcontrol.adapters.spark.channel.messages import AwaitStep

QUERY_PROPERTY = "kcontrol.query"
"""Spark's local property that tells tasks which query they work for."""


def address_in(options: Mapping[str, str]) -> ChannelAddress:
    """Where the driver listens, by the options of a source."""
    return ChannelAddress(
        options["channel.host"],
        int(options["channel.port"]),
        options["channel.secret"],
        options["channel.fingerprint"],
    )


def address_options(address: ChannelAddress) -> dict[str, str]:
    """As `address_in` reads them. Spark redacts the value of a key named `secret`."""
    return {
        "channel.host": address.host,
        "channel.port": str(address.port),
        "channel.secret": address.secret,
        "channel.fingerprint": address.fingerprint,
    }


@dataclass
class AnyStepTask(InputPartition):
    """Which source task of its stream it is, in whatever step it runs."""

    task: int


class StepOffsets(DataSourceStreamReader):
    """In the planner process."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.address = address_in(options)

    def initialOffset(self) -> dict[str, int]:  # noqa: N802 - PySpark's name
        return {"step": 0}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802 - PySpark's name
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, int], limit: ReadLimit) -> dict[str, int]:  # noqa: N802, ARG002 - PySpark's names
        """Blocks until the step after `start` is released; where queries are planned ahead of it, not at all: the
        sink waits then. `query.stop()` ends it by killing this process."""
        while True:
            with carried():
                step = client_of(self.address).ask(AwaitStep(start["step"])).step
            if step is not None:
                return {"step": step}

    def commit(self, end: dict[str, int]) -> None:
        """Nothing to forget: what is committed is told by the steps topic alone."""

    def stop(self) -> None:
        """Nothing to close: connections end with the process."""


def query_context() -> tuple[TaskContext, str]:
    """Of the task under way, and the query that it works for."""
    context = TaskContext.get()
    assert context is not None
    return context, context.getLocalProperty(QUERY_PROPERTY) or ""

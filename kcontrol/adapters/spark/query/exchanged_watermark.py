"""The watermark of exchanged rows goes with them.

To Spark the frame behind an exchange is a new stream, without event time. So the column whose watermark the sender's
frame has is told to Spark again; and what was made of it before the exchange, such as windows, gets the mark back by
which Spark knows that rows of it can be closed.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import TimestampNTZType, TimestampType

from kcontrol.adapters.spark.internals import PlanNode, plan_of
from kcontrol.adapters.spark.query.exchanged_types import named, quoted
from kcontrol.adapters.spark.query.plan_nodes import nodes_in
from kcontrol.core.model import WatermarkPolicy
from kcontrol.errors import ConfigurationError

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_DELAY_MS = "spark.watermarkDelayMs"
"""In the metadata of a column: how far the watermark of its event time stays behind."""


def with_watermark_of(received: DataFrame, sent: DataFrame, where: str) -> DataFrame:
    """The frame behind an exchange with the watermark and the marks of columns that the frame before it has.

    Raises ConfigurationError if there are several watermarks, or the column of event time isn't among the columns.
    """
    late = [node for node in nodes_in(plan_of(sent)) if node.name == "EventTimeWatermark"]
    marks: dict[str, dict[str, Any]] = {field.name: dict(field.metadata) for field in sent.schema.fields}
    if len(late) > 1:
        raise ConfigurationError(
            f"{where}: the frame has {len(late)} watermarks, and behind the exchange there would be one: exchange the "
            "frames of each before they are brought together"
        )
    marked = [name for name, mark in marks.items() if _DELAY_MS in mark]
    if marked:
        name = _event_time(sent, late, marked, where)
        received = received.withWatermark(quoted(name), f"{marks.pop(name)[_DELAY_MS]} milliseconds")
    if not any(marks.values()):
        return received
    return received.select(
        *[
            named(name).alias(name, metadata=mark) if (mark := marks.get(name)) else named(name)
            for name in sent.columns
        ]
    )


def event_times(frame: DataFrame) -> list[str]:
    """The columns of a frame that hold an event time with a watermark, or a copy of it."""
    return [
        field.name
        for field in frame.schema.fields
        if _DELAY_MS in field.metadata and isinstance(field.dataType, TimestampType | TimestampNTZType)
    ]


def delays_of(frame: DataFrame) -> tuple[int, ...]:
    """By how much the watermark of each watermark operator of the plan stays behind, in milliseconds, in its order."""
    return tuple(
        int(item.metadata[_DELAY_MS])
        for node in nodes_in(plan_of(frame))
        if node.event_time is not None
        for item in node.output
        if item.number == node.event_time.number
    )


def policy_of(spark: SparkSession) -> WatermarkPolicy:
    """Which of several watermarks of a query counts, as the session says."""
    return WatermarkPolicy(spark.conf.get(_POLICY, "min") or "min")


def _event_time(sent: DataFrame, late: list[PlanNode], marked: list[str], where: str) -> str:
    """The marked column that holds the event time itself, or a copy of it."""
    numbers = {item.name: item.number for item in plan_of(sent).output}
    times = event_times(sent)
    own = [
        name for name in times for node in late if node.event_time and node.event_time.number == numbers[name]
    ]
    for name in (*own, *times):
        return name
    grouped = any(node.name == "Aggregate" and node.is_streaming for node in nodes_in(plan_of(sent)))
    instead = (
        f"add a column with the time of the windows, F.window_time({marked[0]!r}), to the frame"
        if grouped
        else "leave the column of withWatermark() in the frame"
    )
    raise ConfigurationError(
        f"{where}: column {marked[0]!r} was made of an event time with a watermark, which is not among the columns: "
        f"behind the exchange there would be no watermark, and nothing would be closed; {instead}"
    )

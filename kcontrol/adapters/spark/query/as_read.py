"""Senders that give on an input's columns as they were read: their rows need not go through the JVM (decision 190).

Which columns these are is seen in the plan, which has nothing but projections of columns above the input. What Spark would
compute of a row, its shard and its hashes, is computed in the task that reads it (`wire.row_hash`).
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
)

from kcontrol.adapters.spark.internals import ATTRIBUTE, PlanNode, plan_of
from kcontrol.adapters.spark.query.plan_nodes import STREAM
from kcontrol.adapters.spark.source.as_read import SentAsRead
from kcontrol.wire.batches import default_codec_name
from kcontrol.wire.row_hash import MOST_COLUMNS

_KINDS: tuple[DataType, ...] = (
    BinaryType(),
    BooleanType(),
    IntegerType(),
    LongType(),
    StringType(),
    TimestampType(),
)
_ALIAS, _PROJECT = "Alias", "Project"
_PASSING = ("SubqueryAlias", "View")


def sent_as_read(frame: DataFrame, by: Sequence[str], shards: int) -> SentAsRead | None:
    """How the rows of a streaming frame are sent without Spark; None: Spark has something to do with them."""
    fields = frame.schema.fields
    known = all(field.dataType in _KINDS for field in fields) and len(fields) <= MOST_COLUMNS
    if not known or not set(by) <= set(frame.columns) or default_codec_name() != "compiled":
        return None
    plan = plan_of(frame)
    sent = [(each.name, each.number) for each in plan.output]
    found = _read(plan, [number for _, number in sent])
    if found is None:
        return None
    name, read = found
    columns = tuple((column, source) for (column, _), source in zip(sent, read, strict=True))
    return SentAsRead(name, columns, tuple(by), shards)


def _read(node: PlanNode, numbers: list[int]) -> tuple[str, list[str]] | None:
    """The input, and its column for each attribute of the node's output that has one of these numbers."""
    if node.name == STREAM:
        name, names = node.options.get("input"), {each.number: each.name for each in node.output}
        return None if name is None else (name, [names[number] for number in numbers])
    if len(node.children) != 1 or node.subqueries:
        return None
    if node.name in _PASSING:
        return _read(node.children[0], numbers)
    if node.name != _PROJECT:
        return None
    made: dict[int, int] = {}
    for each in node.expressions:
        column = each.children[0] if each.kind == _ALIAS else each
        if column.kind == ATTRIBUTE:
            made[each.number] = column.number
    if not set(numbers) <= made.keys():
        return None
    return _read(node.children[0], [made[number] for number in numbers])

"""Batch frames of an input without the columns that no query looks at.

`columns_used` says which these are. As nulls they would still be columns of each row: of 13 columns of JSON lines, of which 3
are looked at and 2 more say that all is well, the others were a third of the bytes from the task's Python to the JVM, which
made rows of them. A frame of a source without them has them all the same, as nulls that Spark itself leaves out when it plans.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from kcontrol.adapters.spark.internals import PlanNode
from kcontrol.adapters.spark.query.exchanged_types import named

if TYPE_CHECKING:
    from kcontrol.adapters.spark.query.bound import BoundQuery

_UNREAD = "kcontrol.unread"
"""In the metadata of a column that the source does not have."""


def columns_read(queries: Iterable[BoundQuery]) -> dict[str, frozenset[str]]:
    """By input: the columns that one of the queries may look at. An input left out is seen whole."""
    read: dict[str, frozenset[str]] = {}
    whole: set[str] = set()
    for query in queries:
        for name in query.inputs:
            columns = query.columns.get(name)
            if columns:
                read[name] = read.get(name, frozenset()) | frozenset(columns)
            else:
                whole.add(name)
    return {name: columns for name, columns in read.items() if name not in whole}


def with_unread(frame: DataFrame, columns: StructType) -> DataFrame:
    """A source's frame with all its columns, in their order; null are those that it does not have."""
    there = set(frame.columns)
    return frame.select(
        *[
            named(each.name)
            if each.name in there
            else sf.lit(None).cast(each.dataType).alias(each.name, metadata={_UNREAD: True})
            for each in columns
        ]
    )


def is_with_unread(node: PlanNode) -> bool:
    """Whether it is what `with_unread` puts upon a source."""
    on_source = len(node.children) == 1 and not node.children[0].children
    return on_source and any(_UNREAD in each.metadata for each in node.output)


def shown_of(columns: StructType, read: Mapping[str, frozenset[str]], name: str) -> tuple[str, ...] | None:
    """Those of an input's columns that its source has to have; None: all."""
    if name not in read:
        return None
    shown = tuple(each for each in columns.fieldNames() if each in read[name])
    return shown if 0 < len(shown) < len(columns) else None

"""The state of all nodes as tables, through Spark's state data source, out of the parts of a checkpoint.

Each node holds other keys, so a table is the union of what the nodes have, if that is not in one directory. Spark gives a
key and a value as structs; here their fields are columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import reduce
from pathlib import Path

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import NullType, StructField, StructType

from kcontrol.adapters.spark.state.batches import batch_of
from kcontrol.adapters.spark.state.formats import StatefulOperator, operators
from kcontrol.adapters.spark.state.lineage import STATE
from kcontrol.adapters.spark.tables.gathering import GatheredState

SHARD, NODE = "shard", "node"
"""Columns of every table of state."""
_PARTITION = "partition_id"
_KINDS = {
    "stateStoreSave": "aggregate",
    "sessionWindowStateStoreSaveExec": "sessions",
    "dedupe": "distinct",
    "dedupeWithinWatermark": "distinct",
    "globalLimit": "limit",
    "flatMapGroupsWithState": "groups",
    "applyInPandasWithState": "groups",
}
"""By Spark's name for an operator, what its table is called after the query."""
_JOIN = "symmetricHashJoin"
_TIMERS = "TimerState"
_NOT_OF_NAMES = re.compile(r"[^A-Za-z0-9_]")


@dataclass(frozen=True)
class StateTable:
    """One table. operator: its number in the query. options: of Spark's data source. places: by node, the query's
    directory. nodes: by shard, where one directory has the shards of several."""

    name: str
    what: str
    operator: int
    options: Mapping[str, str]
    places: Mapping[int, Path]
    nodes: Mapping[int, int] = field(default_factory=dict)


def state_tables(states: Mapping[str, GatheredState], step: int) -> list[StateTable]:
    """Those of all queries, as of a step. states: by query.

    Raises ConfigurationError: the state was written by another Spark.
    """
    return [table for query, state in sorted(states.items()) for table in _of_query(query, state, step)]


def read_state(spark: SparkSession, table: StateTable, step: int) -> DataFrame:
    """Its rows, of all nodes."""
    frames = []
    for node, place in sorted(table.places.items()):
        options = {"batchId": str(batch_of(place, step)), "operatorId": str(table.operator), **table.options}
        whose = _node_of(table.nodes) if table.nodes else sf.lit(node)
        frame = spark.read.format("statestore").options(**options).load(place.as_uri())
        frames.append(frame.select(*_columns(frame), sf.col(_PARTITION).alias(SHARD), whose.alias(NODE)))
    return reduce(DataFrame.unionByName, frames)


def _node_of(nodes: Mapping[int, int]) -> Column:
    return sf.create_map(*(sf.lit(number) for pair in nodes.items() for number in pair))[sf.col(_PARTITION)]


def _of_query(query: str, state: GatheredState, step: int) -> Iterator[StateTable]:
    places, nodes = state.places, state.nodes
    place = next(iter(places.values()))
    found = operators(place / STATE, batch_of(place, step))
    named = [(each, suffix, what, options) for each in found for suffix, what, options in _tables_of(each)]
    suffixes = [suffix for _, suffix, _, _ in named]
    for operator, suffix, what, options in named:
        own = suffix if suffixes.count(suffix) == 1 else f"{suffix}_{operator.number}"
        there = {
            node: place for node, place in places.items() if (place / STATE / str(operator.number)).is_dir()
        }
        yield StateTable(f"{query}__{own}", f"query {query}: {what}", operator.number, options, there, nodes)


def _tables_of(operator: StatefulOperator) -> Iterator[tuple[str, str, dict[str, str]]]:
    """For each table of an operator: the end of its name, what it is, and the options to read it with."""
    if operator.name == _JOIN:
        for side in ("left", "right"):
            yield side, f"rows of the {side} side of the join that may still meet others", {"joinSide": side}
        return
    if not operator.variables:
        kind = _KINDS.get(operator.name, operator.name)
        yield _NOT_OF_NAMES.sub("_", kind), f"state of {operator.name}", {}
        return
    for name, kind in operator.variables.items():
        if kind == _TIMERS:
            yield "timers", "timers that have not expired", {"readRegisteredTimers": "true"}
        elif not name.startswith("$"):
            yield _NOT_OF_NAMES.sub("_", name), f"variable {name} ({kind})", {"stateVarName": name}


def _columns(frame: DataFrame) -> Iterator[Column]:
    """The fields of structs, and what is no struct, under names that differ."""
    taken = {SHARD, NODE}

    def free(name: str, of: str) -> str:
        names = (name, f"{of}_{name}", *(f"{of}_{name}_{number}" for number in range(2, 1_000)))
        chosen = next(each for each in names if each.lower() not in taken)
        taken.add(chosen.lower())
        return chosen

    for column in frame.schema.fields:
        if column.name == _PARTITION:
            continue
        if not isinstance(column.dataType, StructType):
            yield sf.col(column.name).alias(free(column.name, "value"))
            continue
        # By place: an aggregate's value may have two fields of one name.
        inner = column.dataType.fields
        whole = StructType([StructField(f"c{place}", each.dataType) for place, each in enumerate(inner)])
        for place, each in enumerate(inner):
            if not isinstance(each.dataType, NullType):
                value = sf.col(column.name).cast(whole).getField(f"c{place}")
                yield value.alias(free(each.name, column.name))

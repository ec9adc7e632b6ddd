"""Reads a bound frame's logical plan through py4j: what it needs, and what it may not contain.

A step that holds an expression that gives other values when it is evaluated again (`other_values`) can't be
run again with the same output, so these are refused unless the user takes that upon himself. Expressions that
depend on the order of rows are right with one executor, where tasks see rows in a fixed order, and warned of
with more.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql import DataFrame

from kcontrol.adapters.spark.internals import PlanExpression, PlanNode, plan_of
from kcontrol.adapters.spark.query.other_values import other_values
from kcontrol.adapters.spark.query.plan_nodes import STREAM, nodes_in, text_of, with_subqueries
from kcontrol.adapters.spark.source.data_source import SOURCE_NAME
from kcontrol.adapters.spark.source.exchange_source import EXCHANGE_SOURCE
from kcontrol.errors import ConfigurationError, NotDeterministicError

_NARROW = frozenset(
    {
        "Project",
        "Filter",
        "SubqueryAlias",
        "StreamingRelationV2",
        "MapInArrow",
        "PythonMapInArrow",
        "MapInPandas",
        "ArrowEvalPython",
        "BatchEvalPython",
        "Generate",
        "Union",
        "EventTimeWatermark",
        "CollectMetrics",
        "Expand",
        "ResolvedHint",
        "View",
        "LogicalRDD",
        "LocalRelation",
        "DeserializeToObject",
        "SerializeFromObject",
        "TypedFilter",
        "MapElements",
        "MapPartitions",
    }
)
"""Operators that leave every row in the task that read it."""

_STATEFUL = frozenset(
    {
        "Aggregate",
        "Deduplicate",
        "DeduplicateWithinWatermark",
        "Distinct",
        "FlatMapGroupsWithState",
        "FlatMapGroupsInPandasWithState",
        "TransformWithState",
        "TransformWithStateInPySpark",
        "TransformWithStateInPandas",
        "GlobalLimit",
        "LocalLimit",
    }
)
_GROUPING = frozenset(
    {"FlatMapGroupsInPandas", "FlatMapGroupsInArrow", "FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow"}
)
"""Operators that bring rows of a step together without state."""
_ORDER_DEPENDENT = frozenset(
    {
        "first",
        "last",
        "any_value",
        "first_value",
        "last_value",
        "collect_list",
        "collect_set",
        "array_agg",
        "string_agg",
        "listagg",
    }
)
_FIRST_COME = frozenset({"Deduplicate", "TransformWithStateInPySpark", "TransformWithStateInPandas"})
_FLOAT_SUMS = frozenset(
    {"sum", "avg", "mean", "stddev", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "corr"}
)
_MAX_FIELDS = 1_000


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """What the engine must know of a query's plan."""

    inputs: tuple[str, ...]
    exchanges: tuple[str, ...]
    """Each as often as the plan reads it."""
    sources: int
    """How many streams the plan reads; an input that is read twice counts twice."""
    narrow: bool
    """Every row stays in the task that read it, no input is read twice, and nothing comes from other nodes."""
    stateful_operators: tuple[str, ...]
    """A text for each, without anything that differs between two plans of the same query."""
    has_watermark: bool
    gathers: bool
    """It brings rows together, with or without state: equal keys must be on one node."""
    regrouped: bool
    """It does so with every row, as a chain of operators: no row comes by another way."""
    warnings: tuple[str, ...]


def inspect(frame: DataFrame, query: str, allow_nondeterministic: bool = False) -> PlanFacts:
    """Look through the analyzed plan of `frame`.

    Raises NotDeterministicError naming the expression and the query; ConfigurationError if
    the frame reads another stream.
    """
    if not frame.isStreaming:
        raise ConfigurationError(
            f"query {query!r}: the frame does not read any input of the pipeline as a stream; start from "
            "the frames that kcontrol gives"
        )
    plan = plan_of(frame)
    if not allow_nondeterministic:
        _refuse_other_values(frame, query)
    nodes = list(nodes_in(plan))
    if any(inside and node.is_streaming for node, inside in with_subqueries(plan)):
        raise ConfigurationError(
            f"query {query!r} reads a stream within a subquery, which Spark can't run: join it instead"
        )
    names = [node.name for node in nodes]
    streaming = [node for node in nodes if node.is_streaming]
    for node in nodes:
        _refuse_other_streams(node, query)
    reads, exchanges = list(inputs_read(plan)), list(exchanges_read(plan))
    gathers = any(_is_stateful(node) or node.name in _GROUPING for node in streaming)
    return PlanFacts(
        inputs=tuple(dict.fromkeys(reads)),
        exchanges=tuple(exchanges),
        sources=len(reads) + len(exchanges),
        narrow=all(name in _NARROW for name in names) and len(set(reads)) == len(reads) and not exchanges,
        stateful_operators=tuple(text_of(node, _MAX_FIELDS) for node in streaming if _is_stateful(node)),
        has_watermark="EventTimeWatermark" in names,
        gathers=gathers,
        regrouped=gathers and len(reads) + len(exchanges) == 1 and "CTERelationRef" not in names,
        warnings=tuple(_warnings(nodes, query)),
    )


def _is_stateful(node: PlanNode) -> bool:
    if node.name == "Join":
        return all(child.is_streaming for child in node.children)
    return node.name in _STATEFUL


def inputs_read(plan: PlanNode) -> Iterator[str]:
    """The inputs of a plan, each as often as it is read."""
    return _read(plan, SOURCE_NAME, "input")


def exchanges_read(plan: PlanNode) -> Iterator[str]:
    """The exchanges of a plan, each as often as it is read."""
    return _read(plan, EXCHANGE_SOURCE, "exchange")


def _read(plan: PlanNode, source: str, option: str) -> Iterator[str]:
    for node in nodes_in(plan):
        if node.name == STREAM and node.source == source:
            yield node.options[option]


def _refuse_other_streams(node: PlanNode, query: str) -> None:
    if node.name == STREAM and node.source not in (SOURCE_NAME, EXCHANGE_SOURCE):
        raise ConfigurationError(
            f"query {query!r} reads a stream of its own ({node.source}); every stream must be an "
            "input of the pipeline, or its records would be in no step"
        )


def _refuse_other_values(frame: DataFrame, query: str) -> None:
    for found in other_values(frame):
        raise NotDeterministicError(
            f"query {query!r} uses {found.text!r} ({found.function}), which gives other values when the "
            f"step is run again: {found.instead}; or allow it with allow_nondeterministic=True, of the "
            "pipeline or of kcontrol.attach()"
        )


def _warnings(nodes: list[PlanNode], query: str) -> Iterator[str]:
    seen = {node.name for node in nodes if node.name in _FIRST_COME}
    for node in nodes:
        for expression in node.expressions:
            functions = _functions(expression)
            seen |= {
                name
                for name, is_float in functions
                if name in _ORDER_DEPENDENT or (name in _FLOAT_SUMS and is_float)
            }
    for name in sorted(seen):
        yield (
            f"query {query!r}: what {name} gives depends on the order of rows, which with several executors "
            "may differ when a step is run again"
        )


def _functions(expression: PlanExpression) -> Iterator[tuple[str, bool]]:
    for one in expression.within():
        yield one.function, any(child.type in ("double", "float") for child in one.children)

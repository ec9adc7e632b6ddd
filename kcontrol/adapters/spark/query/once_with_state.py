"""Which queries with state can be planned once: those of whose plan nothing differs from step to step but the version of
their state.

The streams of the plan are replaced by rows that tasks ask for when they run, and Spark plans it as it would plan a batch of
a streaming query. That plan is kept. What would be another thing in each step is left to Spark's streaming: a watermark, the
time of the step, a table, timers; and so is whatever has not been looked at.
"""

from __future__ import annotations

from kcontrol.adapters.spark.internals import plan_of
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.query.other_values import other_values
from kcontrol.adapters.spark.query.plan_nodes import STREAM, nodes_in, takes_the_time, with_subqueries

_LOOKED_AT = frozenset(
    {
        STREAM,
        "Aggregate",
        "Deduplicate",
        "Project",
        "Filter",
        "SubqueryAlias",
        "Generate",
        "Expand",
        "Union",
        "View",
        "WithCTE",
        "MapInPandas",
        "MapInArrow",
        "PythonMapInArrow",
    }
)
"""Logical operators, by their names, of which a plan that is kept means the same in each step."""


def why_not_with_state(bound: BoundQuery) -> str:
    """Why a query with state, or one of a pipeline that exchanges rows, needs to be run as a stream; '' if it does not."""
    if bound.has_watermark:
        return "it has a watermark"
    if bound.skipping:
        return "it counts the records that it skips"
    plan = plan_of(bound.frame)
    if takes_the_time(plan):
        return "it takes the time of the step"
    if any(inside for _, inside in with_subqueries(plan)):
        return "it has a subquery"
    nodes = list(nodes_in(plan))
    if any(not node.children and node.name != STREAM for node in nodes):
        return "it reads a table"
    unknown = next((node.name for node in nodes if node.name not in _LOOKED_AT), None)
    if unknown is not None:
        return f"it keeps state, and its plan has {unknown}" if bound.stateful else f"its plan has {unknown}"
    if bound.sources > len(bound.inputs) + len(bound.exchanges):
        return "it reads an input twice"
    if next(other_values(bound.frame), None) is not None:
        return "it gives other values when it is run again"
    return ""

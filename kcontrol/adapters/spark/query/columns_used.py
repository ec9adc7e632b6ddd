"""Which of an input's columns a query can see: the others need not travel from the task's Python to the JVM.

Spark prunes columns itself, but not into a data source that is written in Python: all of them would be copied
into the JVM's rows first. The analyzed plan is walked from its end to its sources with the attributes that
are still needed, as Catalyst's ColumnPruning does, through the operators whose needs are all in their
expressions; below any other, every column is used. It is the analyzed plan because that stays the same for
the life of a query: an optimized one may fold the date away today and need a column tomorrow.
"""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame

from kcontrol.adapters.spark.internals import PlanExpression, PlanNode, plan_of
from kcontrol.adapters.spark.query.plan_nodes import STREAM, nodes_in

_PASSING = frozenset(
    {
        "Filter",
        "SubqueryAlias",
        "View",
        "EventTimeWatermark",
        "CollectMetrics",
        "Join",
        "Deduplicate",
        "DeduplicateWithinWatermark",
    }
)
"""Operators that give the columns of their children on as they are, and look themselves only
at what their expressions name."""

_Needed = frozenset[int] | None
"""Numbers of attributes; None: all there are."""


def columns_used(frame: DataFrame) -> dict[str, tuple[str, ...]]:
    """By input: the columns that may have an effect on a streaming frame, in its order.
    An input left out is seen whole."""
    plan = plan_of(frame)
    if any(node.subqueries for node in nodes_in(plan)):
        return {}  # what is inside them is nobody's child
    used: dict[str, set[str]] = {}
    _walk(plan, None, used)
    return {
        name: tuple(column for column in _columns_of(plan, name) if column in columns)
        for name, columns in used.items()
    }


def _walk(node: PlanNode, needed: _Needed, used: dict[str, set[str]]) -> None:
    if node.name == STREAM:
        name = _input_of(node)
        if name is None:
            return
        columns = used.setdefault(name, set())
        columns |= {item.name for item in node.output if needed is None or item.number in needed}
        return
    below = _needed_below(node, needed)
    for child in node.children:
        _walk(child, None if below is None else below & _outputs([child]), used)


def _needed_below(node: PlanNode, needed: _Needed) -> _Needed:
    if node.name == "Project":
        return _references(item for item in node.expressions if needed is None or item.number in needed)
    if node.name == "Aggregate":
        return _references(node.expressions)
    if node.name in _PASSING and needed is not None:
        below = needed | _references(node.expressions)
        return below if below <= _outputs(node.children) else None
    return None


def _references(expressions: Iterable[PlanExpression]) -> frozenset[int]:
    return frozenset(number for expression in expressions for number in expression.references)


def _outputs(plans: Iterable[PlanNode]) -> frozenset[int]:
    return frozenset(attribute.number for plan in plans for attribute in plan.output)


def _columns_of(plan: PlanNode, name: str) -> list[str]:
    source = next(node for node in nodes_in(plan) if node.name == STREAM and _input_of(node) == name)
    return [attribute.name for attribute in source.output]


def _input_of(node: PlanNode) -> str | None:
    """None for an exchange, whose columns all travel."""
    return node.options.get("input")

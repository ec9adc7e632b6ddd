"""Which queries can be planned ahead of their step: those whose plan takes nothing from what is decided with it.

Spark plans a batch, and writes down where it ends, as soon as it has recorded the one before; nothing of that
needs to know which records the step has, for its tasks ask when they run. But the step's time is decided with
it, and Spark gives that to the batch when it plans it: to expressions, and to functions that keep state and
may ask for it. And no task may run while there is no step: a plan that Spark adapts to what it has shuffled,
that samples its rows or reads a table first, does that.
"""

from __future__ import annotations

from dataclasses import replace

from kcontrol.adapters.spark.internals import analyzed, has_current_like
from kcontrol.adapters.spark.query.bound import BoundQueries, BoundQuery
from kcontrol.adapters.spark.query.plan import NARROW
from kcontrol.adapters.spark.query.plan_nodes import STREAM, nodes_in, with_subqueries

AHEAD = "ahead"
"""What a node says of its queries when they are planned ahead of each step, with why they are not planned once."""
MOST_TASKS = 8
"""Of a query that is planned ahead: all that a step can have are planned, and those that a small one does not need
are run for nothing."""
_KEEPS_NO_TIME = frozenset({"Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "Join"})
"""Operators with state that go by their rows and the watermark alone, which Spark knows when it has recorded the
batch before."""


def why_not_ahead(bound: BoundQuery, max_tasks: int) -> str:
    """Why the query must not be planned before its step is decided, or should not be; '' if it is to be.

    max_tasks: that a step may read an input with.
    """
    tasks = max_tasks * bound.sources
    if tasks > MOST_TASKS:
        return f"each step would have {tasks} source tasks, however small it is"
    if has_current_like(bound.frame):
        return "it takes the time of the step"
    plan = analyzed(bound.frame)
    if any(inside for _, inside in with_subqueries(plan)):
        return "it has a subquery"
    nodes = list(nodes_in(plan))
    if any(node.children().isEmpty() and node.nodeName() != STREAM for node in nodes):
        return "it reads a table"
    moving = {node.nodeName() for node in nodes} - NARROW
    if moving and not bound.stateful:
        return "its rows move between tasks"
    other = moving - _KEEPS_NO_TIME
    return f"its plan has {min(other)}" if other else ""


def planned_by_spark(bound: BoundQueries, why_not_once: str, allowed: bool, max_tasks: int) -> BoundQueries:
    """Queries that Spark plans for each step: ahead of it if all of them may be, and that is allowed. With one that
    may not the others gain nothing, for a step begins when all are ready."""
    if not allowed:
        return replace(bound, planning=f"each step: {why_not_once}")
    whys = ((query.name, why_not_ahead(query, max_tasks)) for query in bound.queries)
    why = next((f"query {name!r}: {why}" for name, why in whys if why), "")
    if why:
        return replace(bound, planning=f"each step: {why}")
    return replace(bound, planning=f"{AHEAD}: {why_not_once}", ahead=True)

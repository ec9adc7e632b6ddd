"""Which queries without state can be planned once for all steps: those that need nothing of a stream. For those with state
see `once_with_state`.

A batch frame of the same source takes the place of the streaming one where the plan leaves every row in its
task, has no state and no watermark, reads nothing but inputs, and takes nothing from the time of the batch or
from metrics of it. That the batch frame means the same is not believed but looked at: both plans must have
the same operators and expressions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame

from kcontrol.adapters.spark.internals import PlanNode, plan_of
from kcontrol.adapters.spark.query.bound import BoundQuery
from kcontrol.adapters.spark.query.other_values import other_values
from kcontrol.adapters.spark.query.plan_nodes import (
    STREAM,
    nodes_in,
    takes_the_time,
    text_of,
    with_subqueries,
)
from kcontrol.adapters.spark.query.unread import is_with_unread

_MAX_FIELDS = 10_000
ONCE = "once"
"""What a node says of its queries when they are planned once."""
SWITCHED_OFF = "plan_once=False"
_METRICS = "CollectMetrics"


def each_step(why: str) -> str:
    """What a node says of its queries when Spark plans them for each step."""
    return f"each step: {why}"


def planning_of(whys: Mapping[str, str], queries: int) -> str:
    """What a node says of so many queries, each decided on by itself.

    whys: by query that is planned for each step, why it is.
    """
    said = "; ".join(f"query {name!r}: {why}" for name, why in whys.items())
    if not said:
        return ONCE
    return each_step(said) if len(whys) == queries else f"{ONCE}, each step where it can't be: {said}"


def why_not_once(bound: BoundQuery, frame: DataFrame) -> str:
    """Why a query without state needs to be run as a stream; '' if it does not.

    frame: as its function returned it.
    """
    if bound.has_watermark:
        return "it has a watermark"
    if bound.skipping:
        return "it counts the records that it skips"
    plan = plan_of(frame)
    if takes_the_time(plan):
        return "it takes the time of the step"
    if any(inside for _, inside in with_subqueries(plan)):
        return "it has a subquery"
    nodes = list(nodes_in(plan))
    if any(node.name == _METRICS for node in nodes):
        return f"its plan has {_METRICS}"
    if any(not node.children and node.name != STREAM for node in nodes):
        return "it reads a table"
    if bound.sources > len(bound.inputs):
        return "it reads an input twice"
    if not bound.narrow:
        return "its rows move between tasks"
    if next(other_values(frame), None) is not None:
        return "it gives other values when it is run again"
    return ""


def is_the_same(stream: DataFrame, batch: DataFrame) -> bool:
    """Whether a batch frame does what a streaming frame does with the records of a step."""
    return list(_shape(plan_of(stream))) == list(_shape(plan_of(batch)))


def _shape(plan: PlanNode) -> Iterator[tuple[str, ...]]:
    if not plan.children or is_with_unread(plan):
        yield ("source", *[f"{item.name} {item.type}" for item in plan.output])
        return
    # A streaming operator begins with "~".
    yield (plan.name, text_of(plan, _MAX_FIELDS).removeprefix("~"))
    for child in plan.children:
        yield from _shape(child)

"""Walking over logical plans."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kcontrol.adapters.spark.internals import PlanNode

STREAM = "StreamingRelationV2"
"""The name of the node that reads a stream."""
_NUMBERED = re.compile(r"#\d+L?|\[id=#\d+\]|@[0-9a-f]{5,}")


def nodes_in(plan: PlanNode) -> Iterator[PlanNode]:
    """The plan's node and all below it, parents first. Plans inside expressions are not among them."""
    yield plan
    for child in plan.children:
        yield from nodes_in(child)


def with_subqueries(plan: PlanNode, inside: bool = False) -> Iterator[tuple[PlanNode, bool]]:
    """The nodes of the plan and of the plans inside its expressions, which are marked
    True and come before their node."""
    for node in nodes_in(plan):
        for subquery in node.subqueries:
            yield from with_subqueries(subquery, True)
        yield node, inside


def takes_the_time(plan: PlanNode) -> bool:
    """Whether it has anything that Spark replaces by a value when it plans a batch."""
    return any(expression.current_like for node in nodes_in(plan) for expression in node.expressions)


def text_of(node: PlanNode, max_fields: int) -> str:
    """Operator and expressions; Spark numbers attributes anew in each plan, so the numbers are left out."""
    return _NUMBERED.sub("", node.text(max_fields))

"""Walking over Spark's logical plans through py4j."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

STREAM = "StreamingRelationV2"
"""The name of the node that reads a stream."""
_NUMBERED = re.compile(r"#\d+L?|\[id=#\d+\]|@[0-9a-f]{5,}")


def nodes_in(plan: Any) -> Iterator[Any]:
    """The plan's node and all below it, parents first. Plans inside expressions are not among them."""
    yield plan
    for child in each(plan.children()):
        yield from nodes_in(child)


def with_subqueries(plan: Any, inside: bool = False) -> Iterator[tuple[Any, bool]]:
    """The nodes of the plan and of the plans inside its expressions, which are marked
    True and come before their node."""
    for node in nodes_in(plan):
        for subquery in each(node.subqueries()):
            yield from with_subqueries(subquery, True)
        yield node, inside


def text_of(node: Any, max_fields: int) -> str:
    """Operator and expressions; Spark numbers attributes anew in each plan, so the numbers are left out."""
    return _NUMBERED.sub("", node.simpleString(max_fields))


def each(sequence: Any) -> Iterator[Any]:
    """The items of a Scala Seq."""
    for index in range(sequence.length()):
        yield sequence.apply(index)

"""Whether the operators of a query that bring rows together find all of them on one node,
though each node sees only its own.

What places a record on a node is the value of the column by which its input is partitioned. The analyzed plan
is followed from its inputs up with the attributes that still hold that value, unchanged, of the records that
a row was made of. An operator that brings rows together by keys is right on several nodes if one of the keys
is such an attribute; without keys it never is.

The column is the first that gets its name above the input: a field of the value that kcontrol parses, Kafka's
own `key`, or, where the query parses the value, what the query calls so.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kcontrol.adapters.spark.internals import PlanExpression, PlanNode
from kcontrol.adapters.spark.query.grouping import (
    LEFT_ONLY,
    Misplaced,
    brought_together,
    by_text,
    equated,
    keys_text,
    limits,
    number_of,
    of_several_frames,
    pairs_text,
    within_alias,
)
from kcontrol.adapters.spark.query.plan_nodes import STREAM

_MAPS = frozenset({"MapInPandas", "MapInArrow", "PythonMapInArrow"})
"""Operators that give rows with columns of their own, made by a function, and leave them in their task."""


@dataclass(frozen=True, slots=True)
class _Placed:
    """What is known of an operator's rows. attributes: numbers of those that place a row on its node.

    awaited: names of columns (in lower case) that will, once something is called so.
    """

    attributes: frozenset[int] = frozenset()
    awaited: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Walk:
    partitioned_by: Mapping[str, str]
    scattered: list[Misplaced] = field(default_factory=list)
    shared: dict[int, tuple[_Placed, list[int]]] = field(default_factory=dict)
    """Plans that are named once and used several times (WITH): what is known of them,
    and their attributes in order."""


def scattered(plan: PlanNode, partitioned_by: Mapping[str, str]) -> tuple[Misplaced, ...]:
    """What an analyzed plan does that needs rows of several nodes, such as 'groups by origin'.

    partitioned_by: the column of each input that says by which it is partitioned.
    """
    walk = _Walk(partitioned_by)
    _placed(plan, walk)
    return tuple(dict.fromkeys(walk.scattered))


def _placed(node: PlanNode, walk: _Walk) -> _Placed:
    name = node.name
    if name == STREAM:
        column = walk.partitioned_by.get(node.options.get("input", ""), "").lower()
        return _named(
            node.output, _Placed(awaited=frozenset({column}) if column else frozenset()), fresh=True
        )
    if name == "CTERelationRef":
        return _used_again(node, walk)
    below = [_placed(child, walk) for child in node.children]
    if not node.is_streaming or not below:
        return _Placed()
    if name == "Join":
        return _joined(node, below, walk)
    if name == "Union":
        return _union(node, below)
    if name == "CTERelationDef":
        walk.shared[node.cte] = (below[0], [column.number for column in node.output])
        return below[0]
    if name == "WithCTE":
        return below[-1]
    if name == "Project":
        return _named(node.expressions, below[0])
    together, limited = brought_together(node), limits(node)
    if together is not None:
        _check(*together, below[0], walk)
    elif limited is not None:
        walk.scattered.append(limited)
    elif len(below) > 1:
        walk.scattered.append(of_several_frames(name))
    if name == "Aggregate":
        return _named(node.aggregates, _Placed(below[0].attributes))
    return _named(node.output, below[0], fresh=name in _MAPS)


def _used_again(node: PlanNode, walk: _Walk) -> _Placed:
    placed, numbers = walk.shared.get(node.cte, (_Placed(), []))
    same = zip((column.number for column in node.output), numbers, strict=False)
    return _Placed(
        frozenset(number for number, origin in same if origin in placed.attributes), placed.awaited
    )


def _named(columns: Sequence[PlanExpression], below: _Placed, fresh: bool = False) -> _Placed:
    """The columns among what an operator gives that hold what places a row. fresh: the
    operator has made its columns itself."""
    found, awaited = set[int](), set(below.awaited)
    for column in columns:
        source = within_alias(column)
        if number_of(source) in below.attributes:
            found.add(column.number)
        elif column.name.lower() in below.awaited and (
            fresh or (source is not column and not source.foldable)
        ):
            found.add(column.number)
            awaited.discard(column.name.lower())
    return _Placed(frozenset(found), frozenset(awaited))


def _check(keys: Sequence[PlanExpression], what: str, below: _Placed, walk: _Walk) -> None:
    """Note the operator unless one of its keys places rows."""
    if not any(number_of(key) in below.attributes for key in keys):
        walk.scattered.append(Misplaced(keys_text(what, keys), by_text(keys)))


def _joined(node: PlanNode, below: list[_Placed], walk: _Walk) -> _Placed:
    left, right = below
    kind = node.join
    if all(child.is_streaming for child in node.children):
        pairs = list(equated(node))
        one_node = any(
            (number_of(a) in left.attributes and number_of(b) in right.attributes)
            or (number_of(b) in left.attributes and number_of(a) in right.attributes)
            for a, b in pairs
        )
        if not one_node:
            walk.scattered.append(pairs_text(pairs))
    # Where a side is filled up with nulls, its columns do not tell on which node the row is. And what gets an
    # awaited name after a join may be of either side, so nothing is awaited any more.
    kept = frozenset[int]()
    if kind not in ("RightOuter", "FullOuter"):
        kept |= left.attributes
    if kind not in LEFT_ONLY and kind != "FullOuter":
        kept |= right.attributes
    return _Placed(kept)


def _union(node: PlanNode, below: list[_Placed]) -> _Placed:
    """A column places a row if it does so in each of the frames."""
    found = {
        column.number
        for index, column in enumerate(node.output)
        if all(
            child.output[index].number in placed.attributes
            for child, placed in zip(node.children, below, strict=True)
        )
    }
    awaited = below[0].awaited if all(placed.awaited == below[0].awaited for placed in below) else frozenset()
    return _Placed(frozenset(found), awaited)

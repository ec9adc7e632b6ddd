"""Whether the operators of a query behind exchanges that bring rows together do so by exactly the columns by which rows
were exchanged, in the same order.

With fewer or other columns, rows that belong together are on several nodes. With more they would be together, but in a
partition of Spark's state that is not the shard by which they came: then no node could keep, or hand over, just the
state of its own shards. The analyzed plan is followed from its exchanges up with the attributes that still hold what
rows were exchanged by, unchanged.
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
    conjuncts,
    equated,
    is_session,
    keys_text,
    limits,
    number_of,
    of_several_frames,
    pairs_text,
    within_alias,
)
from kcontrol.adapters.spark.query.plan_nodes import STREAM, nodes_in
from kcontrol.errors import ConfigurationError

_Met = tuple[frozenset[int], ...] | None
"""By column of the exchange, in order: numbers of the attributes that hold it. None: nothing is known of the rows."""


@dataclass(slots=True)
class _Meeting:
    by: Mapping[str, Sequence[str]]
    misplaced: list[Misplaced] = field(default_factory=list)
    shared: dict[int, tuple[_Met, list[int]]] = field(default_factory=dict)
    """As in `placing`."""


def misplaced(plan: PlanNode, by: Mapping[str, Sequence[str]]) -> tuple[Misplaced, ...]:
    """What an analyzed plan does that is not by the columns of the exchange. by: of each exchange."""
    walk = _Meeting(by)
    _met(plan, walk)
    return tuple(dict.fromkeys(walk.misplaced))


def check_met(plan: PlanNode, by: Mapping[str, Sequence[str]], query: str) -> None:
    """Raise ConfigurationError, naming query and operator, unless all operators that bring rows together are right, and
    none has to see rows to be planned."""
    if any(node.name == "Sort" and node.is_streaming for node in nodes_in(plan)):
        raise ConfigurationError(
            f"query {query!r} sorts rows behind an exchange: Spark looks at them for that while it plans a step, before other "
            "nodes have sent them, and each node would sort its own. Leave the sort out"
        )
    for wrong in misplaced(plan, by):
        were = ", ".join(f"exchange {name!r} by {_listed(columns)}" for name, columns in by.items())
        raise ConfigurationError(
            f"query {query!r} {wrong.what}, but its rows come from {were}: what is behind an exchange groups, joins and "
            "keeps state by exactly the columns of the exchange, in the same order. Use "
            f"kcontrol.exchange(..., {wrong.by}), of columns that are made before it"
        )


def held_at_end(plan: PlanNode, by: Mapping[str, Sequence[str]]) -> tuple[frozenset[str], ...] | None:
    """By column of the exchanges that an analyzed plan reads, in order: the columns that it gives which hold it. None if it
    gives none for one of them."""
    met = _met(plan, _Meeting(by))
    if met is None:
        return None
    names = {item.number: item.name for item in plan.output}
    found = tuple(frozenset(names[number] for number in held if number in names) for held in met)
    return found if all(found) else None


def _listed(columns: Sequence[str]) -> str:
    return ", ".join(columns) or "nothing (all rows on one node)"


def _met(node: PlanNode, walk: _Meeting) -> _Met:
    name = node.name
    if name == STREAM:
        columns = walk.by.get(node.options.get("exchange", ""), ())
        numbers = {item.name: item.number for item in node.output}
        return tuple(frozenset({numbers[column]}) for column in columns)
    if name == "CTERelationRef":
        return _used_again(node, walk)
    below = [_met(child, walk) for child in node.children]
    if not node.is_streaming or not below:
        return None
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
        if below[0] != ():
            walk.misplaced.append(limited)
    elif len(below) > 1:
        walk.misplaced.append(of_several_frames(name))
    return _named(node.aggregates if name == "Aggregate" else node.output, below[0])


def _check(keys: Sequence[PlanExpression], what: str, below: _Met, walk: _Meeting) -> None:
    # Spark keeps the sessions of a key with it, wherever they begin and end.
    listed = [key for key in keys if not is_session(key)]
    exactly = (
        below is not None
        and len(listed) == len(below)
        and all(number_of(key) in held for key, held in zip(listed, below, strict=True))
    )
    if not exactly:
        walk.misplaced.append(Misplaced(keys_text(what, listed), by_text(listed)))


def _named(columns: Sequence[PlanExpression], below: _Met) -> _Met:
    """What is known of rows with these columns. Known they stay without columns, where all rows are on one node."""
    if below is None:
        return None
    found: list[set[int]] = [set() for _ in below]
    for column in columns:
        source = within_alias(column)
        for held, numbers in zip(below, found, strict=True):
            if number_of(source) in held:
                numbers.add(column.number)
    return tuple(map(frozenset, found))


def _used_again(node: PlanNode, walk: _Meeting) -> _Met:
    met, numbers = walk.shared.get(node.cte, (None, []))
    if met is None:
        return None
    mine = dict(zip(numbers, (column.number for column in node.output), strict=False))
    return tuple(frozenset(mine[number] for number in held if number in mine) for held in met)


def _joined(node: PlanNode, below: Sequence[_Met], walk: _Meeting) -> _Met:
    left, right = below
    streams = [child.is_streaming for child in node.children]
    kind = node.join
    if all(streams):
        pairs = list(_across(node))
        if not _on_exactly(pairs, left, right) or _is_null_safe(node):
            walk.misplaced.append(pairs_text(pairs))
    # Where a side is filled up with nulls, its columns don't tell where the row is.
    kept: list[_Met] = []
    if streams[0] and kind not in ("RightOuter", "FullOuter"):
        kept.append(left)
    if streams[1] and kind not in LEFT_ONLY and kind != "FullOuter":
        kept.append(right)
    known = [met for met in kept if met is not None]
    if len(known) < len(kept) or not known or len({len(met) for met in known}) > 1:
        return None
    return tuple(frozenset[int]().union(*held) for held in zip(*known, strict=True))


def _on_exactly(pairs: Sequence[tuple[PlanExpression, PlanExpression]], left: _Met, right: _Met) -> bool:
    if left is None or right is None or not len(left) == len(right) == len(pairs):
        return False
    return all(
        number_of(a) in mine and number_of(b) in other
        for (a, b), mine, other in zip(pairs, left, right, strict=True)
    )


def _across(node: PlanNode) -> Sequence[tuple[PlanExpression, PlanExpression]]:
    """The equalities between the two sides, what is of the left side first: those that Spark joins by."""
    left, right = (frozenset(item.number for item in child.output) for child in node.children)
    found = []
    for pair in equated(node):
        a, b = (frozenset(one.references) for one in pair)
        if a and b and a <= left and b <= right:
            found.append(pair)
        elif a and b and a <= right and b <= left:
            found.append((pair[1], pair[0]))
    return found


def _is_null_safe(node: PlanNode) -> bool:
    """Whether one of the equalities is `<=>`, for which Spark joins by other keys than the columns."""
    if node.condition is None:
        return False
    return any(one.kind == "EqualNullSafe" for one in conjuncts(node.condition))


def _union(node: PlanNode, below: Sequence[_Met]) -> _Met:
    """A column holds what rows were exchanged by if it does so in each of the frames."""
    known = [met for met in below if met is not None]
    if len(known) < len(below) or len({len(met) for met in known}) > 1:
        return None
    places = [[item.number for item in child.output] for child in node.children]
    columns = [item.number for item in node.output]
    return tuple(
        frozenset(
            column
            for index, column in enumerate(columns)
            if all(output[index] in met[number] for output, met in zip(places, known, strict=True))
        )
        for number in range(len(known[0]))
    )

"""By what the operators of an analyzed plan bring rows together, and how that is told to a user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kcontrol.adapters.spark.internals import ATTRIBUTE, PlanExpression, PlanNode

_BY_KEYS = {
    "Aggregate": "groups by",
    "Distinct": "leaves out what is equal in",
    "Deduplicate": "leaves out what is equal in",
    "DeduplicateWithinWatermark": "leaves out what is equal in",
    "FlatMapGroupsInPandas": "applies a function to groups by",
    "FlatMapGroupsInArrow": "applies a function to groups by",
    "FlatMapGroupsInPandasWithState": "keeps state by",
    "FlatMapGroupsWithState": "keeps state by",
    "TransformWithState": "keeps state by",
    "TransformWithStateInPySpark": "keeps state by",
}
"""Operators that have keys, and what each does by them."""
_SESSION = "spark.sessionWindow"
"""In the metadata of a column that is a session window."""
LEFT_ONLY = frozenset({"LeftOuter", "LeftSemi", "LeftAnti"})
"""Joins whose rows have nothing of the right side, or may have nothing."""


@dataclass(frozen=True, slots=True)
class Misplaced:
    """An operator that needs rows which are on several nodes. what: it does, such as 'groups by origin'. by: with what
    exchange() would bring them together."""

    what: str
    by: str


def number_of(expression: PlanExpression) -> int | None:
    """Of an attribute; None for any other expression."""
    return expression.number if expression.kind == ATTRIBUTE else None


def within_alias(column: PlanExpression) -> PlanExpression:
    """What a column is made of."""
    return column.children[0] if column.kind == "Alias" else column


def brought_together(node: PlanNode) -> tuple[Sequence[PlanExpression], str] | None:
    """By which keys an operator of one frame brings its rows together, and what it does by them; None: it does not."""
    if node.name == "Distinct":
        return node.output, _BY_KEYS[node.name]
    return None if node.keys is None else (node.keys, _BY_KEYS[node.name])


def is_session(key: PlanExpression) -> bool:
    """Whether a key is a session window, which is no part of the key that its state is found by."""
    return number_of(key) is not None and _SESSION in key.metadata


def limits(node: PlanNode) -> Misplaced | None:
    """What an operator is that gives some rows of all; None for any other."""
    wanted = node.name in ("GlobalLimit", "LocalLimit")
    return Misplaced("limits the number of rows", by_text([])) if wanted else None


def of_several_frames(name: str) -> Misplaced:
    """What an operator of that name is, which is no join and no union."""
    return Misplaced(f"brings rows of several frames together ({name})", by_text([]))


def equated(join: PlanNode) -> Iterator[tuple[PlanExpression, PlanExpression]]:
    """Both sides of each equality that a join's condition demands, in order."""
    if join.condition is not None:
        for one in conjuncts(join.condition):
            if one.kind in ("EqualTo", "EqualNullSafe"):
                left, right = one.children
                yield left, right


def conjuncts(condition: PlanExpression) -> Iterator[PlanExpression]:
    """All that must hold for a condition to hold."""
    if condition.kind == "And":
        for child in condition.children:
            yield from conjuncts(child)
    else:
        yield condition


def keys_text(what: str, keys: Sequence[PlanExpression]) -> str:
    """What an operator does by these keys."""
    names = ", ".join(_shown(key) for key in keys)
    return f"{what} {names}" if names else "brings all rows together, without a key"


def pairs_text(pairs: Sequence[tuple[PlanExpression, PlanExpression]]) -> Misplaced:
    """What a join does on these pairs."""
    on = " and ".join(f"{_shown(a)} = {_shown(b)}" for a, b in pairs)
    if not on:
        return Misplaced("joins without equal columns", f"{by_text([])} of both sides")
    left, right = by_text([a for a, _ in pairs]), by_text([b for _, b in pairs])
    both = (
        f"{left} of both sides" if left == right else f"{left} of the left side and {right} of the right one"
    )
    return Misplaced(f"joins on {on}", both)


def by_text(keys: Sequence[PlanExpression]) -> str:
    """What exchange() would be given to bring rows with equal keys together."""
    texts = [f'"{key.name}"' if number_of(key) is not None else f'F.expr("{key.sql}")' for key in keys]
    return f"by=[{', '.join(texts)}]"


def _shown(key: PlanExpression) -> str:
    return key.name if number_of(key) is not None else key.sql

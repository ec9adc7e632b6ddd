"""By what the operators of an analyzed plan bring rows together, and how that is told to a user."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_BY_GROUPS = {
    "FlatMapGroupsInPandas": "applies a function to groups by",
    "FlatMapGroupsInArrow": "applies a function to groups by",
    "FlatMapGroupsInPandasWithState": "keeps state by",
    "FlatMapGroupsWithState": "keeps state by",
    "TransformWithState": "keeps state by",
    "TransformWithStateInPySpark": "keeps state by",
}
"""Operators that have groups, and what each does with them."""
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


def number_of(expression: Any) -> int | None:
    """Of an attribute; None for any other expression."""
    if expression.getClass().getSimpleName() == "AttributeReference":
        number: int = expression.exprId().id()
        return number
    return None


def brought_together(node: Any) -> tuple[Any, str] | None:
    """By which keys an operator of one frame brings its rows together, and what it does by them; None: it does not."""
    name = node.nodeName()
    if name == "Aggregate":
        return node.groupingExpressions(), "groups by"
    if name == "Distinct":
        return node.output(), "leaves out what is equal in"
    if name in ("Deduplicate", "DeduplicateWithinWatermark"):
        return node.keys(), "leaves out what is equal in"
    if name == "TransformWithStateInPySpark":
        return node.left().output().take(node.groupingAttributesLen()), _BY_GROUPS[name]
    return (node.groupingAttributes(), _BY_GROUPS[name]) if name in _BY_GROUPS else None


def is_session(key: Any) -> bool:
    """Whether a key is a session window, which is no part of the key that its state is found by."""
    return number_of(key) is not None and bool(key.metadata().contains(_SESSION))


def limits(node: Any) -> Misplaced | None:
    """What an operator is that gives some rows of all; None for any other."""
    wanted = node.nodeName() in ("GlobalLimit", "LocalLimit")
    return Misplaced("limits the number of rows", by_text([])) if wanted else None


def of_several_frames(name: str) -> Misplaced:
    """What an operator of that name is, which is no join and no union."""
    return Misplaced(f"brings rows of several frames together ({name})", by_text([]))


def equated(join: Any) -> Iterator[tuple[Any, Any]]:
    """Both sides of each equality that a join's condition demands, in order."""
    if join.condition().isDefined():
        for one in conjuncts(join.condition().get()):
            if one.getClass().getSimpleName() in ("EqualTo", "EqualNullSafe"):
                yield one.left(), one.right()


def conjuncts(condition: Any) -> Iterator[Any]:
    """All that must hold for a condition to hold."""
    if condition.getClass().getSimpleName() == "And":
        yield from conjuncts(condition.left())
        yield from conjuncts(condition.right())
    else:
        yield condition


def keys_text(what: str, keys: Sequence[Any]) -> str:
    """What an operator does by these keys."""
    names = ", ".join(_shown(key) for key in keys)
    return f"{what} {names}" if names else "brings all rows together, without a key"


def pairs_text(pairs: Sequence[tuple[Any, Any]]) -> Misplaced:
    """What a join does on these pairs."""
    on = " and ".join(f"{_shown(a)} = {_shown(b)}" for a, b in pairs)
    if not on:
        return Misplaced("joins without equal columns", f"{by_text([])} of both sides")
    left, right = by_text([a for a, _ in pairs]), by_text([b for _, b in pairs])
    both = (
        f"{left} of both sides" if left == right else f"{left} of the left side and {right} of the right one"
    )
    return Misplaced(f"joins on {on}", both)


def by_text(keys: Sequence[Any]) -> str:
    """What exchange() would be given to bring rows with equal keys together."""
    texts = [f'"{key.name()}"' if number_of(key) is not None else f'F.expr("{key.sql()}")' for key in keys]
    return f"by=[{', '.join(texts)}]"


def _shown(key: Any) -> str:
    text: str = key.name() if number_of(key) is not None else key.sql()
    return text

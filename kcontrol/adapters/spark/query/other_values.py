"""Finds what a query takes from the wall clock, from chance, from the session or from the
machine, in its analyzed plan.

A step must give the same when it is run again, so a query's time is the step's. Spark itself flags
expressions that give other values each time they are evaluated. It does not flag those that it replaces by a
value when it plans a batch, which have the tree pattern CURRENT_LIKE: of them `MicroBatchExecution` gives the
batch's time, which is the step's, to the few in `BATCH_TIME`, outside of subqueries; all others would get the
time at which the batch is planned, or the session's user and database. So do the words 'now' and 'today'
where text becomes a time, and a time of day that becomes a timestamp, of that day.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from kcontrol.adapters.spark.internals import PlanExpression, plan_of
from kcontrol.adapters.spark.query.plan_nodes import with_subqueries

BATCH_TIME = frozenset(
    {
        "CurrentTimestamp",
        "CurrentTimestampNanos",
        "LocalTimestamp",
        "LocalTimestampNanos",
        "CurrentDate",
    }
)
"""Classes of the expressions that MicroBatchExecution replaces by the time of the batch."""
REWRITTEN = frozenset({"Now"})
"""Classes of those that `clock.follow_step` makes one of BATCH_TIME."""
SET_BY_KCONTROL = frozenset({"CurrentTimeZone"})
"""Classes of those whose value is a setting without which kcontrol does not start."""

_RAISING = frozenset({"raise_error", "assert_true"})
_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"})
_PARSED_TIMES = frozenset({"Cast", "ParseToDate", "ParseToTimestamp"})
_TIMES = frozenset({"date", "timestamp", "timestamp_ntz"})
_TODAY = re.compile(r"\s*(now|today|tomorrow|yesterday)\s*", re.IGNORECASE)
_LITERAL_TODAY = re.compile(r"\w+\s*(['\"])\s*(now|today|tomorrow|yesterday)\s*\1", re.IGNORECASE)

_FROM_RECORDS = "derive the value from the records"
_LITERAL = "write what it shall be as a literal, lit(...)"
_CLOCK = "use current_timestamp(), current_date() or localtimestamp(), which are the step's own time"
_OUTSIDE = "within a subquery it is the wall clock's: take it outside of the subquery, where it is the step's"
_INSTEAD = {
    "CurrentTime": "use date_format(current_timestamp(), 'HH:mm:ss'), which is of the step's own time",
    "CurrentUser": _LITERAL,
    "CurrentDatabase": _LITERAL,
    "CurrentCatalog": _LITERAL,
    "CurrentPath": _LITERAL,
    "SparkVersion": _LITERAL,
    "AesEncrypt": "give it an initialization vector that is derived from the record, or use the mode ECB",
}


@dataclass(frozen=True, slots=True)
class OtherValue:
    """An expression that would give another value when the step is run again. instead: what to write."""

    text: str
    function: str
    instead: str


def other_values(frame: DataFrame) -> Iterator[OtherValue]:
    """What in a frame's analyzed plan, subqueries included, gives other values when it is run again."""
    for node, inside in with_subqueries(plan_of(frame)):
        for expression in node.expressions:
            yield from _found(expression, inside)


def _found(expression: PlanExpression, inside_subquery: bool) -> Iterator[OtherValue]:
    """The innermost of an expression's parts that are to blame."""
    name = expression.kind
    if name in _SUBQUERIES:
        return  # the plan inside is looked through by itself
    before = False
    for child in expression.children:
        for found in _found(child, inside_subquery):
            before = True
            yield found
    if before:
        return
    instead = _instead(expression)
    if instead is None and expression.current_like:
        own = not any(child.current_like for child in expression.children)
        if own and name in BATCH_TIME | REWRITTEN:
            instead = _OUTSIDE if inside_subquery else None
        elif own and name not in SET_BY_KCONTROL:
            instead = _INSTEAD.get(name, _CLOCK)
    if instead is None and not expression.deterministic and not _raises(expression):
        instead = _FROM_RECORDS
    if instead is not None:
        yield OtherValue(expression.text, expression.function, instead)


def _instead(expression: PlanExpression) -> str | None:
    """What to write instead of what Spark has no flag for; None if it is none of these."""
    name, children = expression.kind, expression.children
    if name == "SparkVersion":
        return _INSTEAD[name]
    if name == "AesEncrypt":
        return _INSTEAD[name] if _has_random_vector(children) else None
    if name == "Literal":
        today = expression.type in _TIMES and _LITERAL_TODAY.fullmatch(_written(expression))
        return _CLOCK if today else None
    if name in _PARSED_TIMES and len(children) == 1 and (name != "Cast" or expression.type in _TIMES):
        time_of_day = name == "Cast" and children[0].type.startswith("time(")
        return _CLOCK if time_of_day or _TODAY.fullmatch(_constant(children[0])) else None
    return None


def _has_random_vector(children: Sequence[PlanExpression]) -> bool:
    """Whether aes_encrypt(text, key, mode, padding, vector, more) makes an
    initialization vector of its own."""
    if not children[4].foldable:
        return False
    return not children[4].java.eval(None) and _constant(children[2]).upper() != "ECB"


def _constant(expression: PlanExpression) -> str:
    """The text that an expression always gives; '' if it is no text or depends on rows."""
    if expression.type != "string" or not expression.foldable:
        return ""
    value = expression.java.eval(None)
    return "" if value is None else str(value.toString())


def _written(expression: PlanExpression) -> str:
    """How an expression was written in SQL; '' if it was not."""
    origin = expression.java.origin()
    if origin.sqlText().isEmpty() or origin.startIndex().isEmpty() or origin.stopIndex().isEmpty():
        return ""
    text: str = origin.sqlText().get()
    return text[origin.startIndex().get() : origin.stopIndex().get() + 1]


def _raises(expression: PlanExpression) -> bool:
    return any(one.function in _RAISING for one in expression.within())

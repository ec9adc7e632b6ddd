"""Whether a query merges rows that an exchange has combined before it does anything else with them.

A combined row stands for several, and for how many depends on the number of nodes: with one node for one alone. So what
is made of such rows is the same on any number of nodes only if they are grouped, and each column that was counted, summed up or
compared is merged by the function that does so. Spark keeps what is written on a column wherever that is passed on as
it is, and drops it from whatever is computed: so the plan tells which columns are parts.
"""

from __future__ import annotations

from collections.abc import Iterator

from kcontrol.adapters.spark.internals import ATTRIBUTE, PlanExpression, PlanNode
from kcontrol.adapters.spark.query.grouping import within_alias
from kcontrol.errors import ConfigurationError

COMBINED = "kcontrol.combined"
"""In the metadata of a column: the function by which it was combined."""
MERGED_BY = {"count": "sum", "sum": "sum", "min": "min", "max": "max"}
"""By which function parts are merged that were made by one."""
_PASSING = frozenset(
    {"Project", "Filter", "SubqueryAlias", "View", "Union", "EventTimeWatermark", "ResolvedHint"}
)
"""Operators that treat each row alone."""


def check_merged(plan: PlanNode, query: str) -> None:
    """Raise ConfigurationError, naming query and column, unless the analyzed plan of a query merges all combined rows."""
    if _Merging(query).partial(plan):
        raise ConfigurationError(
            f"query {query!r} gives combined rows on as they are, and how many of them a key has depends on the number "
            f"of nodes: {_HOW}"
        )


_HOW = (
    "behind exchange(combine=...) group first, by the columns of the exchange, and merge counts and sums with sum, min with "
    "min and max with max"
)


class _Merging:
    """shared: by common table expression, whether its rows are combined ones."""

    def __init__(self, query: str) -> None:
        self._query = query
        self._shared: dict[int, bool] = {}

    def partial(self, node: PlanNode) -> bool:
        """Whether a node of the plan gives combined rows."""
        name = node.name
        if name == "CTERelationRef":
            return self._shared.get(node.cte, False)
        below = [self.partial(child) for child in node.children]
        if name == "CTERelationDef":
            self._shared[node.cte] = below[0]
            return below[0]
        if name == "WithCTE":
            return below[-1]
        if not any(below):
            return any(_part_of(column) for column in node.output)
        if name == "Aggregate":
            self._check_aggregate(node)
            return False
        if name not in _PASSING:
            raise ConfigurationError(f"query {self._query!r} has {name} of combined rows: {_HOW}")
        parts = {tuple(map(_part_of, child.output)) for child in node.children}
        if len(parts) > 1:
            raise ConfigurationError(
                f"query {self._query!r} unites combined rows with others, or with such as were combined by other functions: "
                f"{_HOW}, and unite what that gives"
            )
        for expression in node.expressions:
            # A project may give a part on as it is; whatever else has expressions looks into it.
            given = within_alias(expression)
            if name != "Project" or given.kind != ATTRIBUTE:
                self._refuse_parts(given)
        return True

    def _check_aggregate(self, node: PlanNode) -> None:
        for key in node.keys or ():
            self._refuse_parts(key)
        for column in node.aggregates:
            for found in _aggregates(column):
                self._check_merges(found)

    def _check_merges(self, found: PlanExpression) -> None:
        function, *filters = found.children
        arguments = function.children
        part = _part_of(arguments[0]) if len(arguments) == 1 else None
        wanted = MERGED_BY.get(part or "")
        if wanted == function.function and not found.distinct and not filters:
            return
        told = f" with {arguments[0].name!r}, which is combined by {part}" if part else ""
        raise ConfigurationError(
            f"query {self._query!r} does {found.sql}{told}, and its rows are combined, each of them of several: {_HOW}"
        )

    def _refuse_parts(self, expression: PlanExpression) -> None:
        for attribute in expression.within():
            part = _part_of(attribute)
            if part:
                raise ConfigurationError(
                    f"query {self._query!r} uses {attribute.name!r} in {expression.sql}, before the parts that "
                    f"exchange(combine=...) has made by {part} are merged: {_HOW}"
                )


def _aggregates(expression: PlanExpression) -> Iterator[PlanExpression]:
    """The aggregates in an expression."""
    if expression.kind == "AggregateExpression":
        yield expression
        return
    for child in expression.children:
        yield from _aggregates(child)


def _part_of(column: PlanExpression) -> str | None:
    """By which function a column was combined; None if it was not, or is none."""
    return column.metadata.get(COMBINED) if column.kind == ATTRIBUTE else None

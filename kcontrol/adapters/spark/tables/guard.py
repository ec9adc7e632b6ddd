"""What a statement may be: one that reads, and reads nothing but the pipeline's tables.

Spark's own parser says what it is; no name in it was looked up then, and nothing was run. Its nodes are held against
those that are known to do no more than read rows that they are given: whatever is not among them, commands, scripts,
files by their path and streams included, is refused, so that what a later Spark adds is refused too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pyspark.errors import ParseException
from pyspark.sql import SparkSession

from kcontrol.adapters.spark.internals import parsed
from kcontrol.requests.table_questions import MAX_SQL_CHARACTERS, StatementRefusedError

_READING = frozenset(
    {
        *(
            "Project",
            "Filter",
            "Aggregate",
            "Sort",
            "GlobalLimit",
            "LocalLimit",
            "Offset",
            "Sample",
            "Distinct",
        ),
        *("Join", "LateralJoin", "Union", "Except", "Intersect", "Generate", "Pivot", "Unpivot", "Window"),
        *("SubqueryAlias", "LocalRelation", "OneRowRelation", "PipeOperator", "WithWindowDefinition"),
        *(
            "UnresolvedRelation",
            "UnresolvedWith",
            "UnresolvedHaving",
            "UnresolvedHint",
            "UnresolvedInlineTable",
        ),
        *("UnresolvedSubqueryColumnAliases", "UnresolvedTableValuedFunction", "UnresolvedTVFAliases"),
    }
)
"""Nodes that may be in a statement."""
_ROW_MAKERS = frozenset(
    {
        *(
            "range",
            "explode",
            "explode_outer",
            "posexplode",
            "posexplode_outer",
            "inline",
            "inline_outer",
            "stack",
        ),
        *("json_tuple", "variant_explode", "variant_explode_outer"),
    }
)
"""Functions that may stand in the place of a table."""
_REACHING_OUT = frozenset(
    {
        *("reflect", "java_method", "try_reflect"),  # call any method of any class of the JVM
        *("from_protobuf", "to_protobuf", "from_xml", "schema_of_xml"),  # read files that they are told of
    }
)
"""Functions that do more than compute."""
_NAMED_LATER = "ExpressionWithUnresolvedIdentifier"
"""A function or column whose name is an expression of its own: `IDENTIFIER(...)`."""
_QUERY = "org.apache.spark.sql.catalyst.expressions.PlanExpression"
"""What an expression is that has a query in it."""
_ASKING = "only one statement that reads can be asked: SELECT, WITH ... SELECT, VALUES, TABLE, EXPLAIN, DESCRIBE or SHOW TABLES"


@dataclass
class Statement:
    """tables: names of what it reads, in lower case. own: names that it gives itself (WITH), in lower case.
    lists: it asks which tables there are."""

    tables: set[str] = field(default_factory=set)
    own: set[str] = field(default_factory=set)
    lists: bool = False


def checked(spark: SparkSession, sql: str) -> Statement:
    """What a statement reads. Raises StatementRefusedError unless it reads, and nothing else but tables by a plain
    name."""
    if len(sql) > MAX_SQL_CHARACTERS:
        raise StatementRefusedError(
            f"the statement has {len(sql):,} characters; {MAX_SQL_CHARACTERS:,} are allowed"
        )
    try:
        plan = parsed(spark, sql)
    except ParseException as error:
        raise StatementRefusedError(f"Spark can't read the statement: {first_line(error)}") from error
    found = Statement()
    match _kind(plan):
        case "ExplainCommand":
            _check(plan.logicalPlan(), found)
        case "DescribeQueryCommand":
            _check(plan.plan(), found)
        case "DescribeRelation" | "ShowColumns":
            _check_described(plan, found)
        case "ShowTables" if all(_kind(each) == "CurrentNamespace$" for each in _each(plan.children())):
            found.lists = True
        case _:
            _check(plan, found)
    return found


def first_line(error: Exception) -> str:
    """What Spark says is wrong, without the statement and its own stack."""
    said = getattr(error, "getMessage", lambda: None)() or str(error)
    return next((line.strip() for line in said.splitlines() if line.strip()), type(error).__name__)


def _check(plan: Any, found: Statement) -> None:
    kind = _kind(plan)
    if kind not in _READING:
        raise StatementRefusedError(f"{_ASKING}; this one has Spark's {kind.removesuffix('$')}")
    match kind:
        case "UnresolvedRelation":
            if plan.isStreaming():
                raise StatementRefusedError(f"{_ASKING}; this one reads a stream")
            found.tables.add(_plain_name(plan))
        case "UnresolvedWith":
            found.own |= {str(each.productElement(0)).lower() for each in _each(plan.cteRelations())}
        case "UnresolvedTableValuedFunction":
            name = ".".join(map(str, _each(plan.name()))).lower()
            if name not in _ROW_MAKERS:
                raise StatementRefusedError(
                    f"the function {name!r} can't stand in the place of a table here; there are "
                    f"{', '.join(sorted(_ROW_MAKERS))}"
                )
        case "WithWindowDefinition":
            # What Spark itself does not count among the plan's expressions, nor the queries in them among its queries.
            for each in _each(plan.windowDefinitions().values().toSeq()):
                _check_expression(each)
                for query in _queries_in(each):
                    _check(query, found)
    for expression in _each(plan.expressions()):
        _check_expression(expression)
    for child in _below(plan):
        _check(child, found)


def _below(plan: Any) -> Iterator[Any]:
    """Plans within a plan: its children, what it names with WITH, and those of its expressions."""
    yield from _each(plan.children())
    if _kind(plan) == "UnresolvedWith":
        yield from _each(plan.innerChildren())
    yield from _each(plan.subqueries())


def _check_expression(expression: Any) -> None:
    kind = _kind(expression)
    name = ""
    if kind == "UnresolvedFunction":
        name = str(_each(expression.nameParts())[-1]).lower()
    if kind == _NAMED_LATER or name in _REACHING_OUT:
        what = "IDENTIFIER(...) of an expression" if kind == _NAMED_LATER else f"the function {name!r}"
        raise StatementRefusedError(
            f"the statement is refused: {what} could reach beyond the tables; leave it out"
        )
    for child in _each(expression.children()):
        _check_expression(child)


def _queries_in(expression: Any) -> Iterator[Any]:
    """The plans of the queries within an expression."""
    if _is_query(expression):
        yield expression.plan()
    for child in _each(expression.children()):
        yield from _queries_in(child)


def _is_query(expression: Any) -> bool:
    kind = expression.getClass()
    while kind is not None:
        if kind.getName() == _QUERY:
            return True
        kind = kind.getSuperclass()
    return False


def _check_described(plan: Any, found: Statement) -> None:
    [relation] = [each for each in _each(plan.children()) if _kind(each) == "UnresolvedTableOrView"]
    found.tables.add(_plain_name(relation))


def _plain_name(relation: Any) -> str:
    parts = [str(each) for each in _each(relation.multipartIdentifier())]
    if len(parts) != 1:
        raise StatementRefusedError(
            f"{'.'.join(parts)!r} is no table of the pipeline: their names have one part, and files, catalogs and "
            "databases can't be read"
        )
    return parts[0].lower()


def _kind(node: Any) -> str:
    return str(node.getClass().getName()).rpartition(".")[2]


def _each(found: Any) -> list[Any]:
    """What is in a Scala sequence."""
    return [found.apply(index) for index in range(found.size())]

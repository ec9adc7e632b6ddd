"""A frame's analyzed plan as values of Python.

Whoever looks through a plan asks for the class, the children and the attributes of each of its nodes and expressions, and a
question to a JVM takes a part of a millisecond, some thousand of them a second and more while it is cold. So a class of Java
(`PlanTree.java`) tells all of it in one answer, once for each frame. See docs/decisions/134-plans-read-at-once.md.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame

from kcontrol.adapters.spark.internals.compiled import compiled
from kcontrol.adapters.spark.internals.errors import thrown_by
from kcontrol.adapters.spark.internals.frames import analyzed
from kcontrol.adapters.spark.internals.used import lacking

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

CLASS = "kcontrol.PlanTree"
SOURCE = Path(__file__).with_name("PlanTree.java")
ATTRIBUTE = "AttributeReference"
_OPTIONS = ("input", "exchange")
"""Of a source, those that are asked for. Others hold secrets."""
_DETERMINISTIC, _CURRENT_LIKE, _FOLDABLE, _DISTINCT = 1, 2, 4, 8

_read: WeakKeyDictionary[DataFrame, PlanNode] = WeakKeyDictionary()
"""A frame's plan never changes."""


@dataclass(frozen=True, slots=True, eq=False)
class PlanExpression:
    """An expression of Catalyst's.

    kind: the name of its class. function: Spark's name for it. type: as Spark writes it; '' if it is not resolved or has
    none. current_like: it, or one below it, is replaced by a value when a batch is planned. number, name, metadata: of a named
    one, the metadata of an attribute only; -1, '' and {} for others. java: the object itself.
    """

    kind: str
    function: str
    type: str
    flags: int
    children: tuple[PlanExpression, ...]
    told_references: tuple[int, ...] | None
    number: int
    name: str
    metadata: Mapping[str, Any]
    place: int
    tree: JavaObject

    @property
    def deterministic(self) -> bool:
        return bool(self.flags & _DETERMINISTIC)

    @property
    def current_like(self) -> bool:
        return bool(self.flags & _CURRENT_LIKE)

    @property
    def foldable(self) -> bool:
        return bool(self.flags & _FOLDABLE)

    @property
    def distinct(self) -> bool:
        """Of an aggregate: of different values only."""
        return bool(self.flags & _DISTINCT)

    @property
    def references(self) -> tuple[int, ...]:
        """The numbers of the attributes that it depends on."""
        if self.told_references is not None:
            return self.told_references
        found = self.java.references().toSeq()
        return tuple(found.apply(place).exprId().id() for place in range(found.length()))

    @property
    def java(self) -> Any:
        return self.tree.expression(self.place)

    @property
    def sql(self) -> str:
        return str(self.java.sql())

    @property
    def text(self) -> str:
        return str(self.java.toString())

    def within(self) -> Iterator[PlanExpression]:
        """It and all below it, parents first."""
        yield self
        for child in self.children:
            yield from child.within()


@dataclass(frozen=True, slots=True, eq=False)
class PlanNode:
    """A node of a logical plan, with all below it.

    subqueries: the plans inside its expressions, which are nobody's children. keys: by which it brings rows of one frame
    together; None: it has none of that kind. aggregates: of an Aggregate, the columns that it gives. source, options: of a
    node that reads a stream, the name of the data source and some of its options. join, condition: of a Join, its type and
    what must hold of a pair of rows. cte: the number of a common table expression, and of a reference to one; -1 for
    others. event_time: of a watermark, its column.
    """

    name: str
    is_streaming: bool
    children: tuple[PlanNode, ...]
    subqueries: tuple[PlanNode, ...]
    expressions: tuple[PlanExpression, ...]
    output: tuple[PlanExpression, ...]
    keys: tuple[PlanExpression, ...] | None
    aggregates: tuple[PlanExpression, ...]
    source: str
    options: Mapping[str, str]
    join: str
    condition: PlanExpression | None
    cte: int
    event_time: PlanExpression | None
    place: int
    tree: _Tree

    def text(self, max_fields: int) -> str:
        """What Spark says of it in one line, of so many columns at most; '' for one without children."""
        return self.tree.texts(max_fields)[self.place]


class _Tree:
    """What a plan was read by, as the JVM has it."""

    def __init__(self, java: JavaObject) -> None:
        self._java = java
        self.texts = cache(self._texts)

    def _texts(self, max_fields: int) -> list[str]:
        found: list[str] = json.loads(self._java.texts(max_fields))
        return found


def plan_of(frame: DataFrame) -> PlanNode:
    """The analyzed plan of a frame. Raises SparkSettingError if this Spark's plans are not what kcontrol takes them for."""
    found = _read.get(frame)
    if found is None:
        found = _read[frame] = _plan_of(frame)
    return found


def _plan_of(frame: DataFrame) -> PlanNode:
    try:
        java = compiled(frame.sparkSession, CLASS, SOURCE.read_text(encoding="utf-8")).newInstance()
    except Py4JJavaError as error:
        raise lacking([f"what its plans are read by ({thrown_by(error)[0].message})"]) from error
    told_expressions, told_nodes = json.loads(java.read(analyzed(frame), ",".join(_OPTIONS)))
    expressions: list[PlanExpression] = []
    for told in told_expressions:
        expressions.append(_expression(told, expressions, java))
    nodes: list[PlanNode] = []
    tree = _Tree(java)
    for told in told_nodes:
        nodes.append(_node(told, nodes, expressions, tree))
    return nodes[-1]


def _expression(told: list[Any], before: list[PlanExpression], java: JavaObject) -> PlanExpression:
    kind, function, type_, flags, children, references, *named = told
    number, name, metadata = named or (-1, "", {})
    return PlanExpression(
        kind=kind,
        function=function,
        type=type_,
        flags=flags,
        children=tuple(before[place] for place in children),
        told_references=None if references is None else tuple(references),
        number=number,
        name=name,
        metadata=metadata,
        place=len(before),
        tree=java,
    )


def _node(
    told: list[Any], before: list[PlanNode], expressions: list[PlanExpression], tree: _Tree
) -> PlanNode:
    name, is_streaming, children, subqueries, all_, output, keys, more = told

    def listed(places: list[int]) -> tuple[PlanExpression, ...]:
        return tuple(expressions[place] for place in places)

    def one(what: str) -> PlanExpression | None:
        return expressions[more[what]] if what in more else None

    return PlanNode(
        name=name,
        is_streaming=bool(is_streaming),
        children=tuple(before[place] for place in children),
        subqueries=tuple(before[place] for place in subqueries),
        expressions=listed(all_),
        output=listed(output),
        keys=None if keys is None else listed(keys),
        aggregates=listed(more.get("aggregates", [])),
        source=more.get("source", ""),
        options=more.get("options", {}),
        join=more.get("join", ""),
        condition=one("condition"),
        cte=more.get("cte", -1),
        event_time=one("event_time"),
        place=len(before),
        tree=tree,
    )

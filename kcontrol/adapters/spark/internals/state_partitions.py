"""Some partitions of a query's state, without the others: how a batch is run so, and how Spark is told of those that were not.

Spark's batch must end with an id for each partition of each operator with state (checkpoint format 2). For one that was not run
it is given `NOT_RUN`, which names no version. It must name as its base what Spark holds as the current one, or Spark ends the
query: a mistake here is a failed batch, not wrong state (decision 074).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import DataFrame, SparkSession

from kcontrol.adapters.spark.internals.checking import field_of
from kcontrol.adapters.spark.internals.session import gateway_of, java_session, jvm, jvm_class
from kcontrol.adapters.spark.internals.used import CHECKPOINT_INFO, CURRENT_IDS, PRUNING_RDD, WRITER

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

NOT_RUN = "-"
"""The id of a state store that this query does not have."""
_SHUFFLE = "Exchange"
_REUSED = "ReusedExchange"
_MOVES = frozenset({_SHUFFLE, "Coalesce", "Union"})
STREAM = "MicroBatchScan"
"""What gives the rows of a stream in the physical plan of a batch, by its name."""
_WRITTEN, _READ = "shuffleRecordsWritten", "recordsRead"


class SomePartitions:
    """Of frames and RDDs, those partitions that have these numbers. Nothing computes what is left out."""

    def __init__(self, spark: SparkSession, partitions: Iterable[int]) -> None:
        numbers = jvm(spark).java.util.HashSet()
        for partition in partitions:
            numbers.add(partition)
        # A set of Scala's is the function that says what is in it.
        self._chosen = jvm(spark).scala.jdk.javaapi.CollectionConverters.asScala(numbers).toSet()
        self._create = jvm_class(spark, PRUNING_RDD).create

    def of(self, frame: DataFrame) -> tuple[DataFrame, int]:
        """The frame without its other partitions, and how many it has with them."""
        rdd = frame._jdf.queryExecution().toRdd()
        session = frame.sparkSession
        made = java_session(session).internalCreateDataFrame(self.of_rdd(rdd), frame._jdf.schema(), False)
        return DataFrame(made, session), int(rdd.getNumPartitions())

    def of_rdd(self, rdd: Any) -> Any:
        """The RDD without its other partitions."""
        return self._create(rdd, self._chosen)


@dataclass(frozen=True, slots=True)
class PlanPlaces:
    """Numbers of nodes in a query's physical plan, which are the same for all of its batches."""

    writers: tuple[int, ...]
    """Operators that keep state."""
    shuffles: tuple[tuple[int, int], ...]
    """Shuffles of streamed rows below an operator with state, each with how often it is read."""


def places_in(spark: SparkSession, plan: Any, stream: str = STREAM) -> PlanPlaces:
    """Looks at each node of a physical plan. stream: the name of those that give the rows of streams."""
    writers: list[int] = []
    shuffles: list[tuple[int, int]] = []
    reused: list[Any] = []
    for number, node, below_writer in _walk(spark, plan):
        name = node.nodeName()
        if is_instance_of(gateway_of(spark), node, WRITER):
            writers.append(number)
        elif below_writer and name == _REUSED:
            reused.append(node)
        elif below_writer and name == _SHUFFLE and _streams(node, stream):
            shuffles.append((number, 1))
    for node in reused:
        # The same shuffle, read once more: it counts what all read.
        shuffles = [
            (number, readers + (plan.p(number).sameResult(node.child()))) for number, readers in shuffles
        ]
    return PlanPlaces(tuple(writers), tuple(shuffles))


def moves_after_state(spark: SparkSession, plan: Any) -> bool:
    """Whether rows leave their partition, or partitions get other numbers, after an operator with state of a physical plan."""
    return any(
        name in _MOVES and _keeps_state(spark, node) for node in _nodes(plan) for name in (node.nodeName(),)
    )


def _keeps_state(spark: SparkSession, node: Any) -> bool:
    """Whether a node or one below it has state."""
    return any(is_instance_of(gateway_of(spark), each, WRITER) for each in _nodes(node))


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    kids = node.children()
    for place in range(kids.size()):
        yield from _nodes(kids.apply(place))


def _walk(spark: SparkSession, plan: Any) -> Iterator[tuple[int, Any, bool]]:
    """Each node with its number, and whether it is below one with state. Spark counts as the plan is printed: a node,
    then what is inside it, then its children."""
    number = 0

    def visit(node: Any, below: bool) -> Iterator[tuple[int, Any, bool]]:
        nonlocal number
        mine, number = number, number + 1
        yield mine, node, below
        below = below or is_instance_of(gateway_of(spark), node, WRITER)
        for kids in (node.innerChildren(), node.children()):
            for place in range(kids.size()):
                yield from visit(kids.apply(place), below)

    yield from visit(plan, False)


def _streams(node: Any, stream: str) -> bool:
    kids = node.children()
    return node.nodeName() == stream or any(
        _streams(kids.apply(place), stream) for place in range(kids.size())
    )


class StateWriter:
    """An operator with state in the physical plan of one batch that has been run."""

    def __init__(self, spark: SparkSession, node: Any) -> None:
        self._spark, self._node = spark, node
        self._told = node.checkpointInfoAccumulator()
        self._ids = self._told.value()

    @property
    def name(self) -> str:
        """As Spark names it, with its number in the query."""
        return f"{self._node.nodeName()} {self.operator}"

    @property
    def operator(self) -> int:
        return int(self._node.getStateInfo().operatorId())

    @property
    def run_count(self) -> int:
        """How many partitions have been run."""
        return int(self._ids.size())

    def run_partitions(self) -> list[int]:
        """Which ones; one that has been run twice is there twice."""
        return sorted(int(info.partitionId()) for info in self._ids)

    def stores(self) -> int:
        """That each partition has."""
        if self._ids.size():
            return len(self._ids.get(0).stateStoreCkptId().get())
        return int(self._node.stateStoreNames().size())

    def add_not_run(
        self, partitions: Sequence[int], version: int, nothing: JavaObject, bases: Sequence[Any]
    ) -> None:
        """Tell Spark that these were not run. nothing: as `nothing_of` gives it. bases: what Spark holds of each."""
        made = jvm_class(self._spark, CHECKPOINT_INFO)
        for partition, base in zip(partitions, bases, strict=True):
            self._told.add(made(partition, version, nothing, base))


def shuffled(node: Any, readers: int) -> tuple[int, int]:
    """How many rows a shuffle that has been run had for its readers, and how many they have read."""
    metrics = node.metrics()
    return readers * int(metrics.apply(_WRITTEN).value()), int(metrics.apply(_READ).value())


def count_anew(node: Any) -> None:
    """The next run of a shuffle is counted from 0."""
    metrics = node.metrics()
    for name in (_WRITTEN, _READ):
        metrics.apply(name).reset()


def nothing_of(spark: SparkSession, stores: int) -> JavaObject:
    """The ids of a partition of so many stores that was not run."""
    ids = gateway_of(spark).new_array(jvm(spark).java.lang.String, stores)
    for place in range(stores):
        ids[place] = NOT_RUN
    return some(spark, ids)


def some(spark: SparkSession, value: Any) -> JavaObject:
    """Scala's."""
    found: JavaObject = jvm(spark).scala.Option.apply(value)
    return found


def none(spark: SparkSession) -> JavaObject:
    found: JavaObject = jvm(spark).scala.Option.empty()
    return found


class CurrentIds:
    """What Spark holds as the ids of a running query's state. execution: a MicroBatchExecution."""

    def __init__(self, spark: SparkSession, execution: Any) -> None:
        self._spark = spark
        self._held = field_of(execution.getClass(), CURRENT_IDS).get(execution)

    def of(self, operator: int, partitions: Sequence[int]) -> list[Any]:
        """By partition, an Option of the ids of its stores; None before the first batch of all."""
        held = self._held.get(operator)
        if held.isEmpty():
            return [none(self._spark)] * len(partitions)
        ids = held.get()
        return [some(self._spark, ids[partition]) for partition in partitions]

"""A streaming plan with state that is planned once, and run for one step after another.

What Spark plans for a batch differs from what it plans for the next one in three things: the version of each state store and
its ids (checkpoint format 2), the shuffles, of which each is read by one batch only, and what is read. So the RDDs of one
batch are kept. Before each run they are given the version and the ids, and every shuffle is made anew of the parts of the one
before; what is read, tasks ask for when they run. The plan must have nothing else of its step: see `query/once_with_state`.

These are members of Spark's own classes, some of them private. `lacking_for_kept` says whether this Spark has them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from py4j.java_gateway import is_instance_of
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from kcontrol.adapters.spark.internals.checking import check, field_of
from kcontrol.adapters.spark.internals.frames import PlannedFrame, analyzed
from kcontrol.adapters.spark.internals.session import gateway_of, java_session, jvm, jvm_class
from kcontrol.adapters.spark.internals.state_partitions import (
    SomePartitions,
    count_anew,
    moves_after_state,
    places_in,
    shuffled,
)
from kcontrol.adapters.spark.internals.used import OFFSET_METADATA, PRUNING_RDD, WRITER
from kcontrol.errors import SparkSettingError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

_SQL = "org.apache.spark.sql."
_STREAMING = _SQL + "execution.streaming."
_STATE = _STREAMING + "state."
_EXECUTION = _STREAMING + "runtime.IncrementalExecution"
_PROPAGATOR = _STREAMING + "runtime.WatermarkPropagator"
_COMMANDS = _SQL + "execution.CommandExecutionMode"
_MODES = _SQL + "streaming.OutputMode"
_SHUFFLE = "org.apache.spark.ShuffleDependency"
_MAPPER = "com.fasterxml.jackson.databind.ObjectMapper"
_SCALA = "com.fasterxml.jackson.module.scala.DefaultScalaModule"
_RDD = "org.apache.spark.rdd.RDD"
_STREAM = "StreamingRelationV2"
_ROWS = "Scan ExistingRDD"
"""What gives the rows that are there instead, in the physical plan. Nothing else does: tables are read anew in each step."""
_INPUT, _EXCHANGE = "input", "exchange"
"""Options of the streams, whose values are their names."""
_STORES = {_STATE + "StateStoreRDD": "uniqueId", _STATE + "ReadStateStoreRDD": "stateStoreCkptIds"}
"""RDDs that open state stores, each with its field of their ids."""
_VERSION = "storeVersion"
_PLACE = "checkpointLocation"
_OPERATOR = "operatorId"
_DEPENDENCIES = "dependencies_"
_SHUFFLED = _SQL + "execution.ShuffledRowRDD"
_DATASET = _SQL + "classic.Dataset"
_SINGLE = _SQL + "catalyst.plans.physical.SinglePartition$"
_PARTITIONING = 2
"""Which of the arguments of a LogicalRDD it is."""

USED_BY_KEPT: Mapping[str, tuple[str, ...]] = {
    _EXECUTION: ("executedPlan", "toRdd"),
    _PROPAGATOR: ("noop",),
    WRITER: ("checkpointInfoAccumulator", "getStateStoreCheckpointInfo", "getStateInfo", "stateStoreNames"),
    _STATE + "StateStoreCoordinatorRef": ("deactivateInstances",),
    **{name: (_VERSION, _OPERATOR, _PLACE, ids) for name, ids in _STORES.items()},
    _SHUFFLED: ("dependency", "dependency_$eq"),
    _RDD: (_DEPENDENCIES, "dependencies"),
    _SHUFFLE: (
        *("rdd", "partitioner", "serializer", "keyOrdering", "aggregator", "mapSideCombine"),
        "shuffleWriterProcessor",
    ),
    _SQL + "classic.SparkSession": ("cloneSession", "internalCreateDataFrame"),
    _MAPPER: ("writeValueAsString", "readValue", "registerModule"),
    _SCALA: (),
    PRUNING_RDD: ("create",),
    _DATASET: ("ofRows",),
    _SINGLE: ("MODULE$",),
    _SQL + "execution.metric.SQLMetric": ("reset", "value"),
}
"""As `USED`, of what only this module needs."""

StoreIds = tuple[tuple[str, ...], ...]
"""Of one operator with state: by partition, the ids of its stores' versions."""


def lacking_for_kept(spark: SparkSession) -> str:
    """What this Spark lacks to keep a plan with state, as a sentence; '' if it has it all."""
    try:
        check(spark, USED_BY_KEPT)
    except SparkSettingError as error:
        return str(error)
    return ""


class StateSession:
    """Spark's session for one query from its start to its end, with settings of its own; to its state stores, one run of a
    streaming query. settings: that differ from those of `spark`."""

    def __init__(self, spark: SparkSession, settings: Mapping[str, str]) -> None:
        self.spark = spark
        self.java = java_session(spark).cloneSession()
        for name, value in settings.items():
            self.java.conf().set(name, value)
        view = jvm(spark)
        self.run_id, self.query_id = view.java.util.UUID.randomUUID(), view.java.util.UUID.randomUUID()
        self.metadata = jvm_class(spark, OFFSET_METADATA).apply(0, 0, self.java.conf())
        self.schemas = view.scala.collection.mutable.HashMap()
        self.mapper = jvm_class(spark, _MAPPER)()
        self.mapper.registerModule(jvm_class(spark, _SCALA)())
        self._strings = view.java.lang.Class.forName("[[Ljava.lang.String;")
        self.option = view.scala.Option
        """Kept, because each part of such a name is looked for among the classes of all jars, each time."""

    def told(self) -> dict[str, Any]:
        """What Spark writes down of a batch's settings."""
        found: dict[str, Any] = json.loads(self.metadata.json())
        return found

    def array(self, ids: StoreIds) -> JavaObject:
        """As Spark holds them."""
        made: JavaObject = self.mapper.readValue(json.dumps(ids), self._strings)
        return made

    def close(self) -> None:
        """Let executors give back the state stores."""
        # That of all sessions. Whoever asks the clone for it makes a listener of Spark's bus that holds the clone for ever.
        java_session(self.spark).streams().stateStoreCoordinator().deactivateInstances(self.run_id)


@dataclass(frozen=True, slots=True)
class KeptQuery:
    """What is to be planned. frame: streaming. state: the directory of its state stores, as a URL. mode: Spark's output
    mode. owned: the partitions of its state that are run; None: all. stateful: without state, the query and its writers are one
    plan, as of a batch (decision 190)."""

    frame: DataFrame
    state: str
    mode: str
    owned: Collection[int] | None = None
    stateful: bool = True


class KeptPlan:
    """The plan of a query, for steps with the source tasks that it was made with. Used by one thread at a time.

    The order within a step: `begin`, `run`, `ids`.
    """

    def __init__(
        self,
        session: StateSession,
        query: KeptQuery,
        sources: Callable[[str], DataFrame],
        tasks: Mapping[str, int],
        writing: Callable[[DataFrame], DataFrame],
        batch: int,
        ids: Mapping[int, StoreIds],
        *,
        first: bool,
    ) -> None:
        """sources: by input or exchange, a batch frame that takes the place of the stream. tasks: how many of its
        partitions are run, the first ones. writing: puts the writers at the end of a frame. batch, ids: of the first
        batch that it may run, and of the state before it. first: of this session; Spark then checks what it has written
        down of the state."""
        self._session = session
        leaves = _Leaves(session, sources, tasks, streams=query.stateful)
        plan = analyzed(query.frame).transform(self._partial(leaves))
        self._operators: dict[int, Any] = {}
        self.runs_some = False
        """Whether only the owned partitions are run. Where rows move between tasks behind the state, all are."""
        self._meeting: list[tuple[Any, int]] = []
        """Shuffles before the state of which some partitions are not run, with how often each is read."""
        rows = self._rows_of_state(plan, query, batch, ids, first) if query.stateful else self._batch(plan)
        self._frame = PlannedFrame(writing(rows))
        self._shuffles: list[_Shuffle] = []
        self._stores: list[_Store] = []
        self._look(self._frame.rdd)
        self._fresh = True

    def _batch(self, plan: Any) -> DataFrame:
        """What has no state is planned together with what writes it, so that no row is made in between."""
        self.partitions = 0
        made = jvm_class(self._session.spark, _DATASET).ofRows(self._session.java, plan)
        return DataFrame(made, self._session.spark)

    def _rows_of_state(
        self, plan: Any, query: KeptQuery, batch: int, ids: Mapping[int, StoreIds], first: bool
    ) -> DataFrame:
        session = self._session
        execution = self._execution(plan, query, batch, ids, first)
        rows = execution.toRdd()
        physical = execution.executedPlan()
        self._operators = {int(node.getStateInfo().operatorId()): node for node in self._writers(physical)}
        self.runs_some = query.owned is not None and not moves_after_state(session.spark, physical)
        self.partitions = int(rows.getNumPartitions())
        """Of the state, with those that are not run."""
        if query.owned is not None and self.runs_some:
            rows = SomePartitions(session.spark, query.owned).of_rdd(rows)
            shuffles = places_in(session.spark, physical, _ROWS).shuffles
            self._meeting = [(physical.p(number), readers) for number, readers in shuffles]
        java = session.java.internalCreateDataFrame(rows, query.frame._jdf.schema(), False)
        return DataFrame(java, session.spark)

    def _partial(self, function: Any) -> Any:
        view = jvm(self._session.spark)
        ensure_callback_server_started(gateway_of(self._session.spark))  # type: ignore[no-untyped-call]
        return view.scala.PartialFunction.fromFunction(function)

    def _execution(
        self, plan: Any, query: KeptQuery, batch: int, ids: Mapping[int, StoreIds], first: bool
    ) -> Any:
        session, view = self._session, jvm(self._session.spark)
        held = view.scala.collection.mutable.HashMap()
        for operator, stores in ids.items():
            held.put(operator, session.array(stores))
        mode = getattr(jvm_class(session.spark, _MODES), query.mode.capitalize())()
        return jvm_class(session.spark, _EXECUTION)(
            session.java,
            plan,
            mode,
            query.state,
            session.query_id,
            session.run_id,
            batch,
            view.scala.Option.empty(),
            session.metadata,
            jvm_class(session.spark, _PROPAGATOR).noop(),
            first,
            held,
            session.schemas,
            jvm_class(session.spark, _COMMANDS).ALL(),
            False,
            False,
        )

    def _writers(self, node: Any) -> Iterator[Any]:
        if is_instance_of(gateway_of(self._session.spark), node, WRITER):
            yield node
        kids = node.children()
        for place in range(kids.size()):
            yield from self._writers(kids.apply(place))

    def _look(self, top: Any) -> None:
        """Find what has to be changed before each run."""
        seen: dict[int, Any] = {}
        found = [top]
        shuffles: dict[int, _Shuffle] = {}
        while found:
            rdd = found.pop()
            if seen.setdefault(rdd.id(), rdd) is not rdd:
                continue
            kind = rdd.getClass()
            name = kind.getName()
            if name == _SHUFFLED:
                made = rdd.dependency()
                shuffle = shuffles.setdefault(made.shuffleId(), _Shuffle(self._session.spark, made))
                shuffle.readers.append((rdd, field_of(kind, _DEPENDENCIES)))
            elif name in _STORES:
                operator = field_of(kind, _OPERATOR).getLong(rdd)
                self._stores.append(
                    _Store(operator, rdd, kind, field_of(kind, _VERSION), field_of(kind, _STORES[name]))
                )
            needed = rdd.dependencies()
            found += [needed.apply(place).rdd() for place in range(needed.size())]
        self._shuffles = list(shuffles.values())

    def move_to(self, state: str) -> None:
        """Before the first run: the state stores are in another directory than that with which this was planned.

        state: its URL.
        """
        for store in self._stores:
            field_of(store.kind, _PLACE).set(store.rdd, state)

    def begin(self, version: int, ids: Mapping[int, StoreIds]) -> None:
        """The next run is that of the batch after `version`, on the state with these ids."""
        if not self._fresh:
            for shuffle in self._shuffles:
                shuffle.renew()
        self._fresh = False
        option = self._session.option
        held = {operator: option.apply(self._session.array(stores)) for operator, stores in ids.items()}
        for store in self._stores:
            store.version_field.setLong(store.rdd, version)
            store.ids_field.set(store.rdd, held[store.operator] if store.operator in held else option.empty())
        for node in self._operators.values():
            node.checkpointInfoAccumulator().reset()
        for node, _ in self._meeting:
            count_anew(node)

    def run(self) -> None:
        """As a job of the calling thread."""
        self._frame.run()

    def ids(self) -> dict[int, list[dict[str, Any]]]:
        """By operator, what Spark says of each partition that was run: `partitionId`, `batchVersion`, `stateStoreCkptId` and
        `baseStateStoreCkptId`, the last two by store."""
        return {operator: self._told_by(node) for operator, node in self._operators.items()}

    def _told_by(self, node: Any) -> list[dict[str, Any]]:
        # Spark's own answer is refused unless all partitions have told.
        told = (
            node.checkpointInfoAccumulator().value() if self.runs_some else node.getStateStoreCheckpointInfo()
        )
        found: list[dict[str, Any]] = json.loads(self._session.mapper.writeValueAsString(told))
        return sorted(found, key=lambda one: int(one["partitionId"]))

    def stores(self, operator: int) -> int:
        """How many each partition of its state has, as far as is known without having run one."""
        return int(self._operators[operator].stateStoreNames().size())

    def lost_rows(self) -> tuple[int, int] | None:
        """Rows that a shuffle of the last run had for partitions of the state, and those that were read, where these are fewer
        because they belong to partitions that are not run; None: there are none."""
        counts = (shuffled(node, readers) for node, readers in self._meeting)
        return next(((written, read) for written, read in counts if written != read), None)


@dataclass(frozen=True, slots=True)
class _Store:
    """An RDD that opens state stores of an operator, its class, and the fields in which it differs from step to step."""

    operator: int
    rdd: Any
    kind: Any
    version_field: Any
    ids_field: Any


class _Shuffle:
    """What is shuffled on one way of a plan, and who reads it."""

    def __init__(self, spark: SparkSession, first: Any) -> None:
        self.readers: list[tuple[Any, Any]] = []
        """Each with the field that keeps, once asked, what it depends on."""
        self._made = jvm_class(spark, _SHUFFLE)
        anything = jvm(spark).scala.reflect.ClassTag.Any()
        self._parts = (
            first.rdd(),
            first.partitioner(),
            first.serializer(),
            first.keyOrdering(),
            first.aggregator(),
            first.mapSideCombine(),
            first.shuffleWriterProcessor(),
            *[anything] * 3,
        )

    def renew(self) -> None:
        """The next run shuffles anew. What was shuffled before goes once nobody refers to it."""
        made = self._made(*self._parts)
        for rdd, dependencies in self.readers:
            getattr(rdd, "dependency_$eq")(made)
            dependencies.set(rdd, None)


class _Leaves:
    """A function of Scala's that puts rows in the place of each stream of a plan. streams: as rows of a batch of a streaming
    query; else the plan is one of a batch."""

    def __init__(
        self,
        session: StateSession,
        sources: Callable[[str], DataFrame],
        tasks: Mapping[str, int],
        *,
        streams: bool,
    ) -> None:
        self._session, self._sources, self._tasks, self._streams = session, sources, tasks, streams

    def apply(self, node: Any) -> Any:
        """The node, or what is there instead."""
        if node.getClass().getSimpleName() != _STREAM:
            return node
        options = node.extraOptions()
        name = options.get(_INPUT) or options.get(_EXCHANGE)
        frame = self._sources(name)
        rows = frame._jdf.queryExecution().toRdd()
        if rows.getNumPartitions() != self._tasks[name]:
            rows = SomePartitions(self._session.spark, range(self._tasks[name])).of_rdd(rows)
        made = self._session.java.internalCreateDataFrame(rows, frame._jdf.schema(), self._streams)
        leaf = made.queryExecution().analyzed()
        # The same columns as the stream's, by Spark's numbers of them.
        arguments = gateway_of(self._session.spark).new_array(
            jvm(self._session.spark).java.lang.Object, leaf.productArity()
        )
        arguments[0] = node.output()
        for place in range(1, leaf.productArity()):
            arguments[place] = leaf.productElement(place)
        if self._tasks[name] == 1 and not self._streams:
            # Spark shuffles nothing to bring together what is in one task, if it is told that it is.
            arguments[_PARTITIONING] = getattr(jvm_class(self._session.spark, _SINGLE), "MODULE$")
        return leaf.makeCopy(arguments)

    class Java:
        """For py4j."""

        implements = ("scala.Function1",)

"""The one door to what of Spark is no API: PySpark's handles of objects in the JVM, and
members of Spark's own classes.

Nobody else touches `_jvm`, `_jdf`, `_jsq`, `_gateway` and their like; ruff's SLF001 sees to it. The plans and
executions that come through this door are Scala objects, and what is asked of them anywhere in kcontrol
stands in `USED`. `check` looks for all of it as soon as there is a session, so that another Spark is one
sentence at the start and not a failing step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
from py4j.java_gateway import JavaPackage, is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from kcontrol.errors import SparkSettingError

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

SPARK_VERSION = (4, 3)
"""Its planner, state store and Python data sources are used in ways that may change with the next."""

_SQL = "org.apache.spark.sql."
_LOGICAL = _SQL + "catalyst.plans.logical."
_EXPRESSIONS = _SQL + "catalyst.expressions."
_RUNTIME = _SQL + "execution.streaming.runtime."
_STATEFUL = _SQL + "execution.streaming.operators.stateful."
OFFSET_METADATA = _SQL + "execution.streaming.checkpointing.OffsetSeqMetadata"

USED: Mapping[str, tuple[str, ...]] = {
    # A batch, while it runs and when it has run.
    "org.apache.spark.util.ManualClock": ("setTime",),
    _RUNTIME + "StreamingQueryWrapper": ("streamingQuery",),
    _RUNTIME + "MicroBatchExecution": ("triggerClock", "lastExecution", "watermarkTracker"),
    _RUNTIME + "IncrementalExecution": (
        "executedPlan",
        "offsetSeqMetadata",
        "observedMetrics",
        "shouldRunAnotherBatch",
    ),
    _RUNTIME + "WatermarkTracker": ("updateWatermark", "currentWatermark", "setWatermark"),
    _STATEFUL + "EventTimeWatermarkExec": ("eventTimeStats", "nodeName"),
    _STATEFUL + "EventTimeStats": ("max", "count"),
    OFFSET_METADATA: ("apply", "json", "copy", "batchWatermarkMs", "batchTimestampMs", "conf"),
    _SQL + "execution.QueryExecution": ("analyzed", "toRdd"),
    "org.apache.spark.rdd.RDD": ("count", "getNumPartitions", "toJavaRDD"),
    "org.apache.spark.api.java.JavaRDD": ("collectPartitions",),
    _SQL + "execution.SparkPlan": ("metrics", "p"),
    _SQL + "execution.metric.SQLMetric": ("value",),
    _SQL + "classic.Dataset": ("ofRows", "mapInArrow", "queryExecution"),
    # A plan, before anything runs.
    _LOGICAL + "LogicalPlan": (
        *(
            "nodeName",
            "children",
            "isStreaming",
            "output",
            "expressions",
            "subqueries",
            "simpleString",
            "containsPattern",
        ),
        "transformAllExpressions",
    ),
    _SQL + "catalyst.streaming.StreamingRelationV2": ("extraOptions", "sourceName"),
    _LOGICAL + "EventTimeWatermark": ("eventTime",),
    _LOGICAL + "Aggregate": ("groupingExpressions", "aggregateExpressions"),
    _LOGICAL + "Project": ("projectList",),
    _LOGICAL + "Deduplicate": ("keys",),
    _LOGICAL + "DeduplicateWithinWatermark": ("keys",),
    _LOGICAL + "CTERelationDef": ("id",),
    _LOGICAL + "CTERelationRef": ("cteId",),
    _LOGICAL + "Join": ("joinType", "condition"),
    _LOGICAL + "FlatMapGroupsInPandas": ("groupingAttributes",),
    _LOGICAL + "FlatMapGroupsInArrow": ("groupingAttributes",),
    _LOGICAL + "FlatMapGroupsInPandasWithState": ("groupingAttributes",),
    _LOGICAL + "FlatMapGroupsWithState": ("groupingAttributes",),
    _LOGICAL + "TransformWithState": ("groupingAttributes",),
    _LOGICAL + "TransformWithStateInPySpark": ("groupingAttributesLen", "left"),
    _EXPRESSIONS + "Expression": (
        *(
            "children",
            "deterministic",
            "foldable",
            "eval",
            "resolved",
            "dataType",
            "prettyName",
            "references",
            "sql",
            "origin",
        ),
        "containsPattern",
    ),
    _EXPRESSIONS + "NamedExpression": ("name", "exprId", "metadata"),
    _EXPRESSIONS + "ExprId": ("id",),
    _EXPRESSIONS + "Alias": ("child",),
    _EXPRESSIONS + "And": ("left", "right"),
    _EXPRESSIONS + "EqualTo": ("left", "right"),
    _EXPRESSIONS + "EqualNullSafe": ("left", "right"),
    _EXPRESSIONS + "CurrentTimestamp": (),
    _SQL + "types.DataType": ("simpleString",),
    _SQL + "types.Metadata": ("getLong",),
    _SQL + "catalyst.trees.Origin": ("sqlText", "startIndex", "stopIndex"),
    _SQL + "catalyst.trees.TreePattern": ("CURRENT_LIKE",),
    _SQL + "catalyst.analysis.UnsupportedOperationChecker": ("checkForStreaming",),
    "scala.PartialFunction": ("fromFunction",),
    # An error.
    "org.apache.spark.SparkThrowable": (),
    "org.apache.spark.api.python.PythonErrorUtils": ("getCondition", "getMessageParameters"),
}
"""By class of the JVM: the names of its methods and fields that kcontrol uses."""

_UNRESOLVED = _SQL + "catalyst.analysis."
USED_OF_STATEMENTS: Mapping[str, tuple[str, ...]] = {
    _SQL + "classic.SparkSession": ("sessionState",),
    _SQL + "internal.SessionState": ("sqlParser",),
    _SQL + "catalyst.parser.ParserInterface": ("parsePlan",),
    _LOGICAL + "LogicalPlan": ("children", "innerChildren", "subqueries", "expressions", "isStreaming"),
    _LOGICAL + "UnresolvedWith": ("cteRelations",),
    _LOGICAL + "WithWindowDefinition": ("windowDefinitions",),
    _SQL + "execution.command.ExplainCommand": ("logicalPlan",),
    _SQL + "execution.command.DescribeQueryCommand": ("plan",),
    _UNRESOLVED + "UnresolvedRelation": ("multipartIdentifier", "isStreaming"),
    _UNRESOLVED + "UnresolvedTableOrView": ("multipartIdentifier",),
    _UNRESOLVED + "UnresolvedTableValuedFunction": ("name",),
    _UNRESOLVED + "UnresolvedFunction": ("nameParts",),
}
"""The same, of a statement as Spark's parser reads it: only whoever answers questions needs these."""

_METHOD = re.compile(r"([\w$]+)\(")
_MISSING = (
    # JavaClass.__getattr__ and JVMView.__getattr__: the member with its class
    re.compile(r"(?P<member>\S+) does not exist in the JVM"),
    # get_return_value, with what ReflectionEngine.java says: the member and the classes of its arguments
    re.compile(
        r"An error occurred while calling \S+ Trace:\npy4j\.Py4JException: (?P<member>\w+ .*) does not exist\n"
    ),
)
_MAX_CAUSES = 32


# --- whether this is the Spark that kcontrol is made for ----------------------------------------------------


def check_version(version: str = pyspark.__version__, where: str = "PySpark") -> None:
    """Raise SparkSettingError when `version`, found `where`, is not of the line that kcontrol is made for."""
    wanted = ".".join(map(str, SPARK_VERSION))
    if version.split(".")[:2] != wanted.split("."):
        raise SparkSettingError(
            f"{where} is of version {version}; kcontrol needs {wanted}: pip install 'pyspark=={wanted}.*'"
        )


def check(spark: SparkSession, used: Mapping[str, tuple[str, ...]] | None = None) -> None:
    """Raise SparkSettingError unless the JVM behind a session is of the right version and has all that is
    `used`, by default `USED`."""
    check_version(spark.version, "the Spark of this session")
    missing = [
        f"{name}.{member}" if member else name
        for name, members in (USED if used is None else used).items()
        for member in _missing(spark, name, members)
    ]
    if missing:
        raise _lacking(missing, f" calls itself {spark.version}, but")


def _lacking(missing: Iterable[str], although: str = "") -> SparkSettingError:
    return SparkSettingError(
        f"this Spark{although} lacks what kcontrol needs of it: {', '.join(missing)}; use Apache "
        f"Spark {'.'.join(map(str, SPARK_VERSION))} as it is released"
    )


def lack_of(error: BaseException) -> SparkSettingError | None:
    """What is to be said if an error of py4j's is that the JVM has no such class, method
    or field; None if it is another.

    An object that the JVM has forgotten does not exist either, as py4j says it; that is no lack of this
    Spark.
    """
    if isinstance(error, TypeError) and str(error) == "'JavaPackage' object is not callable":
        return _lacking(["a class that is called (py4j does not say which)"])
    found = next((match for told in _MISSING if (match := told.match(str(error)))), None)
    return None if found is None or isinstance(error, Py4JJavaError) else _lacking([found["member"]])


def _missing(spark: SparkSession, name: str, members: tuple[str, ...]) -> list[str]:
    """The members that a class does not have; [''] if there is no such class."""
    view = jvm(spark)
    loader = view.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        found = view.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError as error:
        if thrown_by(error)[0].name == "java.lang.ClassNotFoundException":
            return [""]
        raise
    # A text for all methods together, because each question to the JVM takes a part of a millisecond.
    there = set(_METHOD.findall(view.scala.runtime.ScalaRunTime.stringOf(found.getMethods())))
    return [member for member in members if member not in there and not has_field(found, member)]


def has_field(owner: Any, name: str) -> bool:
    """Whether a class of the JVM, or one above it, has such a field, whoever may see it."""
    return field_of(owner, name) is not None


def field_of(owner: Any, name: str) -> Any:
    """The field of that name of a class of the JVM, or of one above it, open to all; None if there is
    none."""
    while owner is not None:
        for declared in owner.getDeclaredFields():
            if declared.getName() == name:
                declared.setAccessible(True)
                return declared
        owner = owner.getSuperclass()
    return None


# --- the session and its JVM --------------------------------------------------------------------------------


def jvm(spark: SparkSession) -> Any:
    """The classes of the session's JVM, by their packages."""
    return spark.sparkContext._jvm


def jvm_class(spark: SparkSession, name: str) -> Any:
    """One of them, by its whole name. Raises SparkSettingError if there is no such class."""
    found = jvm(spark)
    for part in name.split("."):
        found = getattr(found, part)
    if isinstance(found, JavaPackage):  # so py4j takes what it does not know
        raise _lacking([name])
    return found


def gateway_of(spark: SparkSession) -> Any:
    """Py4j's connection to the session's JVM. Its `proc` is the process of the JVM, if PySpark has started
    it."""
    return spark.sparkContext._gateway


def own_gateway() -> Any:
    """The same of this process, whether there is a session or not; None before the first."""
    return SparkContext._gateway


def use_gateway(gateway: Any) -> None:
    """Have PySpark use a JVM that was started for it."""
    SparkContext._ensure_initialized(gateway=gateway)


def active_context() -> SparkContext | None:
    """Of this process, if there is one."""
    return SparkContext._active_spark_context


def java_session(spark: SparkSession) -> Any:
    """The session as the JVM has it."""
    return spark._jsparkSession


def hadoop_configuration(spark: SparkSession) -> Any:
    """What Hadoop's file systems are made with."""
    return spark.sparkContext._jsc.hadoopConfiguration()


def spark_home() -> Path:
    """Where the Spark is installed that PySpark starts when nobody names another."""
    return Path(_find_spark_home())


def parsed(spark: SparkSession, statement: str) -> Any:
    """The plan of a statement as Spark's parser reads it, a LogicalPlan: no name in it was looked up yet.

    Raises what PySpark makes of a ParseException.
    """
    return java_session(spark).sessionState().sqlParser().parsePlan(statement)


# --- frames and queries -------------------------------------------------------------------------------------


def analyzed(frame: DataFrame) -> Any:
    """The frame's analyzed plan, a LogicalPlan."""
    return frame._jdf.queryExecution().analyzed()


def rewritten(frame: DataFrame, change: Any) -> DataFrame:
    """The frame with a Scala function (an object of Python's that implements
    scala.Function1) applied to all expressions."""
    context = frame.sparkSession.sparkContext
    view: Any = context._jvm
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    plan = analyzed(frame).transformAllExpressions(view.scala.PartialFunction.fromFunction(change))
    dataset = view.org.apache.spark.sql.classic.Dataset.ofRows(java_session(frame.sparkSession), plan)
    return DataFrame(dataset, frame.sparkSession)


class PlannedFrame:
    """A frame that is planned now, and can be run again and again, in the SQL execution that is under way, if
    one is.

    `DataFrame.collect` would begin an execution of its own, with a description for the user interface, and
    bring rows to Python. A shuffle is run once: what it wrote is read again by every later run.
    """

    def __init__(self, frame: DataFrame) -> None:
        self._gateway = gateway_of(frame.sparkSession)
        self._rdd = frame._jdf.queryExecution().toRdd()

    @cached_property
    def partitions(self) -> int:
        return int(self._rdd.getNumPartitions())

    def run(self, partitions: Sequence[int] | None = None) -> None:
        """Run all of it, or some partitions, as a job of the calling thread.

        Where partitions are named their rows are brought together: a frame that only writes has none.
        """
        if partitions is None:
            self._rdd.count()
            return
        numbers = self._gateway.new_array(self._gateway.jvm.int, len(partitions))
        for place, partition in enumerate(partitions):
            numbers[place] = partition
        self._rdd.toJavaRDD().collectPartitions(numbers)


def has_current_like(frame: DataFrame) -> bool:
    """Whether the frame's plan has anything that Spark replaces by a value when it plans a batch."""
    pattern = jvm(frame.sparkSession).org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    return bool(analyzed(frame).containsPattern(pattern))


def java_column(column: Any) -> JavaObject:
    """What the JVM has of a column."""
    found: JavaObject = column._jc
    return found


def map_in_arrow(frame: DataFrame, function: JavaObject) -> DataFrame:
    """As `frame.mapInArrow`, with a function that is in the JVM already, without barrier or resource
    profile."""
    return DataFrame(frame._jdf.mapInArrow(function, False, None), frame.sparkSession)


def execution_of(query: StreamingQuery) -> Any:
    """What runs the query's batches, a MicroBatchExecution."""
    return query._jsq.streamingQuery()


# --- errors -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Thrown:
    """An exception of the JVM, as it describes itself."""

    name: str
    """Of its class, with its package."""
    message: str
    condition: str = ""
    """Spark's name for what is wrong; '' if it has none, or is not Spark's."""
    parameters: Mapping[str, str] = field(default_factory=dict)
    """What the condition's message is made of."""


def thrown_by(error: BaseException) -> tuple[Thrown, ...]:
    """The exception of the JVM behind an error of PySpark's or py4j's, and its causes after
    it; none if it began in Python.

    Asks the JVM. Raises Py4JError or OSError if that has ended.
    """
    first = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    return tuple(_described(each) for each in islice(_causes(first), _MAX_CAUSES))


def _causes(thrown: Any) -> Iterator[Any]:
    while thrown is not None:
        yield thrown
        thrown = thrown.getCause()


def _described(thrown: Any) -> Thrown:
    gateway = own_gateway()
    name, message = thrown.getClass().getName(), thrown.getMessage() or ""
    if not is_instance_of(gateway, thrown, "org.apache.spark.SparkThrowable"):
        return Thrown(name, message)
    told = gateway.jvm.org.apache.spark.api.python.PythonErrorUtils
    return Thrown(name, message, told.getCondition(thrown) or "", dict(told.getMessageParameters(thrown)))

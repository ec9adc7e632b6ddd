"""The one door to what of Spark is no API: PySpark's handles of objects in the JVM, and members of Spark's own classes.

Nobody else touches `_jvm`, `_jdf`, `_jsq`, `_gateway` and their like; ruff's SLF001 sees to it. The plans and executions that
come through this door are Scala objects, and what is asked of them anywhere in kcontrol stands in `USED`. `check` looks for all
of it as soon as there is a session, so that another Spark is one sentence at the start and not a failing step.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyspark
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
OFFSET_METADATA = _SQL + "execution.streaming.checkpointing.OffsetSeqMetadata"

USED: Mapping[str, tuple[str, ...]] = {
    # A batch, while it runs and when it has run.
    "org.apache.spark.util.ManualClock": ("setTime",),
    _RUNTIME + "StreamingQueryWrapper": ("streamingQuery",),
    _RUNTIME + "MicroBatchExecution": ("triggerClock", "lastExecution", "watermarkTracker"),
    _RUNTIME + "IncrementalExecution": ("executedPlan", "offsetSeqMetadata", "observedMetrics", "shouldRunAnotherBatch"),
    _RUNTIME + "WatermarkTracker": ("updateWatermark", "currentWatermark"),
    OFFSET_METADATA: ("apply", "json", "copy", "batchWatermarkMs", "batchTimestampMs", "conf"),
    _SQL + "execution.QueryExecution": ("analyzed", "toRdd"),
    _SQL + "execution.SparkPlan": ("metrics", "p"),
    _SQL + "execution.metric.SQLMetric": ("value",),
    _SQL + "classic.Dataset": ("ofRows", "mapInArrow", "queryExecution"),
    # A plan, before anything runs.
    _LOGICAL + "LogicalPlan": (
        *("nodeName", "children", "isStreaming", "output", "expressions", "subqueries", "simpleString", "containsPattern"),
        "transformAllExpressions",
    ),
    _SQL + "catalyst.streaming.StreamingRelationV2": ("extraOptions", "sourceName"),
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
        *("children", "deterministic", "foldable", "eval", "resolved", "dataType", "prettyName", "references", "sql", "origin"),
        "containsPattern",
    ),
    _EXPRESSIONS + "NamedExpression": ("name", "exprId"),
    _EXPRESSIONS + "ExprId": ("id",),
    _EXPRESSIONS + "Alias": ("child",),
    _EXPRESSIONS + "And": ("left", "right"),
    _EXPRESSIONS + "EqualTo": ("left", "right"),
    _EXPRESSIONS + "EqualNullSafe": ("left", "right"),
    _EXPRESSIONS + "CurrentTimestamp": (),
    _SQL + "types.DataType": ("simpleString",),
    _SQL + "catalyst.trees.Origin": ("sqlText", "startIndex", "stopIndex"),
    _SQL + "catalyst.trees.TreePattern": ("CURRENT_LIKE",),
    _SQL + "catalyst.analysis.UnsupportedOperationChecker": ("checkForStreaming",),
    "scala.PartialFunction": ("fromFunction",),
}
"""By class of the JVM: the names of its methods and fields that kcontrol uses."""

_METHOD = re.compile(r"([\w$]+)\(")


# --- whether this is the Spark that kcontrol is made for ------------------------------------------------------------------


def check_version(version: str = pyspark.__version__, where: str = "PySpark") -> None:
    """Raise SparkSettingError when `version`, found `where`, is not of the line that kcontrol is made for."""
    wanted = ".".join(map(str, SPARK_VERSION))
    if version.split(".")[:2] != wanted.split("."):
        raise SparkSettingError(f"{where} is of version {version}; kcontrol needs {wanted}: pip install 'pyspark=={wanted}.*'")


def check(spark: SparkSession) -> None:
    """Raise SparkSettingError unless the JVM behind a session is of the right version and has all that is `USED`."""
    check_version(spark.version, "the Spark of this session")
    missing = [
        f"{name}.{member}" if member else name for name, members in USED.items() for member in _missing(spark, name, members)
    ]
    if missing:
        raise SparkSettingError(
            f"this Spark calls itself {spark.version}, but lacks what kcontrol needs of it: {', '.join(missing)}; use Apache "
            f"Spark {'.'.join(map(str, SPARK_VERSION))} as it is released"
        )


def _missing(spark: SparkSession, name: str, members: tuple[str, ...]) -> list[str]:
    """The members that a class does not have; [''] if there is no such class."""
    view = jvm(spark)
    loader = view.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        found = view.java.lang.Class.forName(name, False, loader)
    except Exception as error:
        if "ClassNotFoundException" in str(error):
            return [""]
        raise
    # A text for all methods together, because each question to the JVM takes a part of a millisecond.
    there = set(_METHOD.findall(view.scala.runtime.ScalaRunTime.stringOf(found.getMethods())))
    return [member for member in members if member not in there and not has_field(found, member)]


def has_field(owner: Any, name: str) -> bool:
    """Whether a class of the JVM, or one above it, has such a field, whoever may see it."""
    return field_of(owner, name) is not None


def field_of(owner: Any, name: str) -> Any:
    """The field of that name of a class of the JVM, or of one above it, open to all; None if there is none."""
    while owner is not None:
        for field in owner.getDeclaredFields():
            if field.getName() == name:
                field.setAccessible(True)
                return field
        owner = owner.getSuperclass()
    return None


# --- the session and its JVM ----------------------------------------------------------------------------------------------


def jvm(spark: SparkSession) -> Any:
    """The classes of the session's JVM, by their packages."""
    return spark.sparkContext._jvm


def jvm_class(spark: SparkSession, name: str) -> Any:
    """One of them, by its whole name."""
    found = jvm(spark)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def gateway_of(spark: SparkSession) -> Any:
    """Py4j's connection to the session's JVM. Its `proc` is the process of the JVM, if PySpark has started it."""
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


# --- frames and queries ---------------------------------------------------------------------------------------------------


def analyzed(frame: DataFrame) -> Any:
    """The frame's analyzed plan, a LogicalPlan."""
    return frame._jdf.queryExecution().analyzed()


def rewritten(frame: DataFrame, change: Any) -> DataFrame:
    """The frame with a Scala function (an object of Python's that implements scala.Function1) applied to all expressions."""
    context = frame.sparkSession.sparkContext
    view: Any = context._jvm
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    plan = analyzed(frame).transformAllExpressions(view.scala.PartialFunction.fromFunction(change))
    dataset = view.org.apache.spark.sql.classic.Dataset.ofRows(java_session(frame.sparkSession), plan)
    return DataFrame(dataset, frame.sparkSession)


def run(frame: DataFrame) -> None:
    """Run the frame in the SQL execution that is under way, which is the batch's.

    `DataFrame.collect` would begin one of its own, with a description for the user interface, and bring rows to Python.
    """
    frame._jdf.queryExecution().toRdd().count()


def java_column(column: Any) -> JavaObject:
    """What the JVM has of a column."""
    found: JavaObject = column._jc
    return found


def map_in_arrow(frame: DataFrame, function: JavaObject) -> DataFrame:
    """As `frame.mapInArrow`, with a function that is in the JVM already, without barrier or resource profile."""
    return DataFrame(frame._jdf.mapInArrow(function, False, None), frame.sparkSession)


def execution_of(query: StreamingQuery) -> Any:
    """What runs the query's batches, a MicroBatchExecution."""
    return query._jsq.streamingQuery()

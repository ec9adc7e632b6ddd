"""What of Spark beyond its API kcontrol uses, by name, in the one line of versions that it is made for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcontrol.errors import SparkSettingError

SPARK_VERSION = (4, 3)
"""Its planner, state store and Python data sources are used in ways that may change with the next."""

_SQL = "org.apache.spark.sql."
_LOGICAL = _SQL + "catalyst.plans.logical."
_EXPRESSIONS = _SQL + "catalyst.expressions."
_RUNTIME = _SQL + "execution.streaming.runtime."
_SCHEDULER = "org.apache.spark.scheduler."
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
    "org.apache.spark.rdd.RDD": ("count", "getNumPartitions", "toJavaRDD", "context", "id"),
    "org.apache.spark.api.java.JavaRDD": ("collectPartitions",),
    # The settings of a thread's jobs, all at once.
    "com.fasterxml.jackson.databind.ObjectMapper": ("readValue",),
    # A job that is run again.
    "org.apache.spark.SparkContext": ("dagScheduler", "getLocalProperties", "isStopped"),
    _SCHEDULER + "DAGScheduler": ("activeJobs", "runJob"),
    _SCHEDULER + "ActiveJob": ("finalStage", "listener", "callSite"),
    _SCHEDULER + "ResultStage": ("rdd", "func"),
    _SCHEDULER + "JobWaiter": ("resultHandler",),
    _SQL + "execution.SparkPlan": ("metrics", "p"),
    _SQL + "execution.metric.SQLMetric": ("value",),
    _SQL + "classic.Dataset": ("ofRows", "mapInArrow", "queryExecution"),
    # A plan, before anything runs.
    _LOGICAL + "LogicalPlan": (
        *("nodeName", "children", "isStreaming", "output", "expressions", "subqueries", "simpleString"),
        "transformAllExpressions",
    ),
    _SQL + "catalyst.streaming.StreamingRelationV2": ("extraOptions", "sourceName"),
    _LOGICAL + "EventTimeWatermark": ("eventTime",),
    _LOGICAL + "Aggregate": ("groupingExpressions", "aggregateExpressions"),
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
        ),
        *("sql", "origin", "containsPattern"),
    ),
    _EXPRESSIONS + "NamedExpression": ("name", "exprId", "metadata"),
    _EXPRESSIONS + "ExprId": ("id",),
    _EXPRESSIONS + "Alias": (),
    _EXPRESSIONS + "aggregate.AggregateExpression": ("isDistinct",),
    _EXPRESSIONS + "And": (),
    _EXPRESSIONS + "EqualTo": (),
    _EXPRESSIONS + "EqualNullSafe": (),
    _EXPRESSIONS + "CurrentTimestamp": (),
    _SQL + "types.DataType": ("simpleString",),
    _SQL + "types.Metadata": ("json",),
    _SQL + "catalyst.trees.Origin": ("sqlText", "startIndex", "stopIndex"),
    _SQL + "catalyst.trees.TreePattern": ("CURRENT_LIKE",),
    _SQL + "catalyst.analysis.UnsupportedOperationChecker": ("checkForStreaming",),
    "org.codehaus.janino.SimpleCompiler": ("cook", "setParentClassLoader", "getClassLoader", "getBytecodes"),
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

WRITER = _STATEFUL + "StateStoreWriter"
CHECKPOINT_INFO = _STATEFUL + "StatefulOpStateStoreCheckpointInfo"
PRUNING_RDD = "org.apache.spark.rdd.PartitionPruningRDD"
CURRENT_IDS = "currentStateStoreCkptId"

USED_FOR_SHARDS: Mapping[str, tuple[str, ...]] = {
    PRUNING_RDD: ("create",),
    WRITER: ("checkpointInfoAccumulator", "stateStoreNames", "getStateInfo"),
    CHECKPOINT_INFO: ("apply",),
    _RUNTIME + "MicroBatchExecution": (CURRENT_IDS,),
    _SQL + "classic.SparkSession": ("internalCreateDataFrame",),
}
"""The same of what only a node uses that runs some of its state's partitions; without it, it runs them all."""

STATE_REWRITER = _SQL + "execution.streaming.state.StateRewriter"

USED_FOR_REWRITING: Mapping[str, tuple[str, ...]] = {
    STATE_REWRITER: ("run",),
    _SQL + "classic.SparkSession": ("sessionState",),
    _SQL + "internal.SessionState": ("newHadoopConf",),
}
"""The same of what only whoever cuts state into another number of partitions uses."""


def lacking(missing: Iterable[str], although: str = "") -> SparkSettingError:
    return SparkSettingError(
        f"this Spark{although} lacks what kcontrol needs of it: {', '.join(missing)}; use Apache "
        f"Spark {'.'.join(map(str, SPARK_VERSION))} as it is released"
    )

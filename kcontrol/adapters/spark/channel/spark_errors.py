"""What an error of Spark's means for an attempt, as one table (Spark 4.3).

An error in the JVM is a chain of exceptions, each the cause of the one before it. From the outermost on, the
first that the table knows decides: by its *condition*, the name of Spark's own for what is wrong
(error-conditions.json); if it has none, by its *class*; and of a SparkException that has neither condition
nor known cause by the beginning of its message, which Spark's scheduler writes. No text that a user's code
has written is ever searched, so a query whose own HTTP connection is reset is a query that fails, and no lost
node: its error comes as the parameter of a PYTHON_EXCEPTION.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcontrol.adapters.spark.channel.crossing import carried_in
from kcontrol.adapters.spark.internals import Thrown
from kcontrol.core.model import FailureKind

QUERY, LOST = FailureKind.QUERY, FailureKind.LOST

CONDITIONS: Mapping[str, FailureKind | None] = {
    # Only passed on: the cause tells.
    "STREAM_FAILED": None,
    "FOREACH_BATCH_USER_FUNCTION_ERROR": None,
    # A Python process has said what was raised in it: a task, and a planner, where all code is kcontrol's.
    "PYTHON_EXCEPTION": QUERY,
    "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR": LOST,
    # A planner that did not start in time.
    "STREAMING_PYTHON_RUNNER_INITIALIZATION_COMMUNICATION_FAILURE": LOST,
    "STREAMING_PYTHON_RUNNER_INITIALIZATION_TIMEOUT_FAILURE": LOST,
    "_LEGACY_ERROR_TEMP_3001": LOST,  # the daemon of Python workers ended before it had said its port
    # Somebody has ended it: who, is known where it was done.
    "SPARK_JOB_CANCELLED": LOST,
    "OPERATION_CANCELED": LOST,
    # What one part of Spark holds, or says, did not reach another.
    "INTERNAL_ERROR_BROADCAST": LOST,
    "INTERNAL_ERROR_EXECUTOR": LOST,
    "INTERNAL_ERROR_NETWORK": LOST,
    "INTERNAL_ERROR_SHUFFLE": LOST,
    "INTERNAL_ERROR_STORAGE": LOST,
    "_LEGACY_ERROR_TEMP_3003": LOST,  # block not found
    "_LEGACY_ERROR_TEMP_3036": LOST,  # a block can't be stored
    "_LEGACY_ERROR_TEMP_3037": LOST,  # block not found
}
"""By condition; None: look at the cause."""

OTHER_CONDITION = QUERY
"""Spark has a name for it, so it is what the plan, the data or a setting asked for."""

PYTHON_TEXT: Mapping[str, str] = {
    "PYTHON_EXCEPTION": "traceback",
    "PYTHON_DATA_SOURCE_ERROR": "msg",
    "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR": "msg",
}
"""By condition: the parameter that holds the text of Python's exception."""

CALLBACK = "py4j.Py4JException"
"""Raised where the JVM has called the driver's Python, the sink; its message is Python's text of that."""

CLASSES: Mapping[str, FailureKind] = {
    CALLBACK: LOST,
    "py4j.Py4JNetworkException": LOST,
    # The connection to a Python process or to another part of Spark has ended. What a UDF or a source of
    # Spark's meets comes within an exception that has a condition.
    "java.io.EOFException": LOST,
    "java.io.IOException": LOST,
    "java.net.ConnectException": LOST,
    "java.net.SocketException": LOST,
    "java.net.SocketTimeoutException": LOST,
    "java.nio.channels.AsynchronousCloseException": LOST,
    "java.nio.channels.ClosedByInterruptException": LOST,
    "java.nio.channels.ClosedChannelException": LOST,
    # Somebody has ended the thread, the task or the executor.
    "java.lang.InterruptedException": LOST,
    "org.apache.spark.ExecutorDeadException": LOST,
    "org.apache.spark.TaskKilledException": LOST,
    "org.apache.spark.rpc.RpcEndpointNotFoundException": LOST,
    "org.apache.spark.rpc.RpcEnvStoppedException": LOST,
    "org.apache.spark.rpc.RpcTimeoutException": LOST,
    "org.apache.spark.executor.CommitDeniedException": LOST,
    "org.apache.spark.executor.KilledByTaskReaperException": LOST,
    "org.apache.spark.shuffle.FetchFailedException": LOST,
    "org.apache.spark.shuffle.MetadataFetchFailedException": LOST,
    "org.apache.spark.storage.BlockNotFoundException": LOST,
}
"""By class of the JVM, to the letter: a FileNotFoundException is no IOException here."""

TASK_ENDS = (
    *("ExecutorLostFailure", "ExecutorShutdownFailure", "FetchFailed", "Resubmitted", "TaskCommitDenied"),
    *("TaskKilled", "TaskResultLost", "UnknownReason"),
)
"""How a task ends without an exception: subclasses of TaskFailedReason, whose text begins with their name."""

_SPARK_EXCEPTION = "org.apache.spark.SparkException"
_SCHEDULER = re.compile(
    # TaskSetManager.handleFailedTask, DAGScheduler.abortStage
    r"Job aborted due to stage failure: Task \d+ in stage \S+ failed \d+ times, most recent failure: "
    rf"Lost task \S+ in stage \S+ \(TID \d+\) \(\S+ executor \S+\): (?:{'|'.join(TASK_ENDS)})\b"
    # DAGScheduler.handleTaskCompletion
    r"|Job aborted due to stage failure: \w+ \d+ \(.*\) has failed the maximum allowable number of times: "
    # DAGScheduler.cleanUpAfterSchedulerStop
    r"|Job \d+ cancelled because SparkContext was shut down"
    # BasePythonRunner.ReaderIterator, PythonWorkerFactory
    r"|Python worker exited unexpectedly \(crashed\)"
    r"|Python worker failed to connect back\."
    r"|Timed out while waiting for the Python worker to connect back"
)
"""Beginnings of what Spark says of a loss for which it has neither a condition nor a cause."""

MAX_MESSAGE_CHARS = 2_000
_TRACEBACK_LINE = re.compile(r"^[A-Za-z_][\w.]*(?::.*|$)", re.MULTILINE)
"""The exception that a traceback ends with: its class, and what it says, if anything."""
_CALL = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_LIBRARY = re.compile(
    r"[/\\](?:site-packages|dist-packages|pyspark|pyspark\.zip|lib[/\\]python[\d.]+|kcontrol[/\\]adapters)[/\\]|^<"
)


@dataclass(frozen=True, slots=True)
class Judged:
    """What an error means for the attempt, and which of Spark's many lines says why."""

    kind: FailureKind
    message: str


def judge(chain: Sequence[Thrown], text: str) -> Judged:
    """What the table says of an exception of the JVM and its causes, outermost first; QUERY if it knows none
    of them.

    text: all that Spark says, which is looked at for what to show to people, and for nothing else.
    """
    for thrown in chain:
        judged = _judge_one(thrown, text)
        if judged is not None:
            return judged
    return Judged(QUERY, root_cause(text))


def _judge_one(thrown: Thrown, text: str) -> Judged | None:
    """None if the cause is to be looked at."""
    python = (
        thrown.message
        if thrown.name == CALLBACK
        else thrown.parameters.get(PYTHON_TEXT.get(thrown.condition, ""), "")
    )
    own = carried_in(python)
    if own is not None:
        return Judged(own.kind, own.message)
    if thrown.condition:
        kind = CONDITIONS.get(thrown.condition, OTHER_CONDITION)
        return None if kind is None else Judged(kind, root_cause(python or text))
    if thrown.name in CLASSES:
        said = root_cause(python) if python else f"{thrown.name}: {thrown.message or 'the other end is gone'}"
        return Judged(CLASSES[thrown.name], said)
    if thrown.name == _SPARK_EXCEPTION and _SCHEDULER.match(thrown.message):
        return Judged(LOST, thrown.message.partition("\n")[0])
    return None


def _place(innermost: str) -> str:
    """File and line of the last call in a traceback that is neither Spark's, kcontrol's nor a library's."""
    own = [found for found in _CALL.finditer(innermost) if not _LIBRARY.search(found["file"])]
    return f" ({own[-1]['file']}, line {own[-1]['line']})" if own else ""


def root_cause(text: str) -> str:
    """The line of many that says what happened: the end of the innermost Python traceback, or Spark's own."""
    innermost = text.rpartition("Traceback (most recent call last):")[2] if "Traceback" in text else ""
    lines = [match.group(0) for match in _TRACEBACK_LINE.finditer(innermost)]
    if lines:
        return f"{lines[0]}{_place(innermost)}"[:MAX_MESSAGE_CHARS]
    causes = [
        line.removeprefix("Caused by: ") for line in text.splitlines() if line.startswith("Caused by: ")
    ]
    first = next((line for line in text.splitlines() if line.strip()), "no message")
    return (causes[-1] if causes else first).strip()[:MAX_MESSAGE_CHARS]

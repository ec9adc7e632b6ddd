"""Whose fault an exception of the JVM is, and which of Spark's many lines says so, as Spark 4.3 raises
them."""

from __future__ import annotations

import pytest

from kcontrol.adapters.spark.channel.crossing import CarriedError
from kcontrol.adapters.spark.channel.spark_errors import judge, root_cause
from kcontrol.adapters.spark.internals import Thrown
from kcontrol.core.model import FailureKind

QUERY, LOST = FailureKind.QUERY, FailureKind.LOST

PYTHON = """[STREAM_FAILED] Query [id = 1] terminated with exception: Job aborted
org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the Python worker: \
Traceback (most recent call last):
  File "worker.py", line 1, in main
    process()
Traceback (most recent call last):
  File "query.py", line 7, in ratio
    return 1 / 0
ZeroDivisionError: division by zero

	at org.apache.spark.api.python.BasePythonRunner.read(PythonRunner.scala:1)
"""
JAVA = """An error occurred while calling o1.collect
: org.apache.spark.SparkException: Job aborted due to stage failure
	at org.apache.spark.Foo.bar(Foo.scala:1)
Caused by: java.lang.ArithmeticException: [DIVIDE_BY_ZERO] Division by zero.
	at org.apache.spark.Foo.baz(Foo.scala:2)
"""
FAILED = "Job aborted due to stage failure: Task 0 in stage 0.0 failed 1 times, most recent failure: "
LOST_TASK = f"{FAILED}Lost task 0.0 in stage 0.0 (TID 0) (192.0.2.7 executor 1): "
PLANNER = "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR"


def spark(message: str, condition: str = "", /, **parameters: str) -> Thrown:
    return Thrown("org.apache.spark.SparkException", message, condition, parameters)


def python(last: str, line: str = 'File "query.py", line 7, in fetch') -> Thrown:
    """As a Python worker's exception comes."""
    text = f"Traceback (most recent call last):\n  {line}\n    answer = fetch()\n{last}\n"
    message = f"[PYTHON_EXCEPTION] An exception was thrown from the Python worker: {text} SQLSTATE: 38000"
    told = {"msg": "An exception was thrown from the Python worker", "traceback": text}
    return Thrown("org.apache.spark.api.python.PythonException", message, "PYTHON_EXCEPTION", told)


def ended(cause: str, message: str = "") -> Thrown:
    return Thrown(
        "org.apache.spark.sql.streaming.StreamingQueryException", cause, "STREAM_FAILED", {"message": message}
    )


EOF = Thrown("java.io.EOFException", "")
CRASHED = spark(
    "Python worker exited unexpectedly (crashed). Consider setting 'spark.python.worker.faulthandler.enabled'"
)


@pytest.mark.parametrize(
    "chain",
    [
        [spark(f"{LOST_TASK}org.apache.spark.SparkException: Python worker exited unexpectedly"), CRASHED, EOF],
        [spark(f"{LOST_TASK}ExecutorLostFailure (executor 1 exited) Reason: Command exited with code "
               "137\nDriver")],
        [spark(f"{LOST_TASK}TaskResultLost (result lost from block manager)")],
        [spark("Job aborted due to stage failure: ShuffleMapStage 3 (count at Native:0) has failed the "
               "maximum allowable number of times: 1. Most recent failure "
               "reason:\norg.apache.spark.shuffle.FetchFailedException")],
        [spark("[SPARK_JOB_CANCELLED] Job 3 cancelled part of", "SPARK_JOB_CANCELLED", jobId="3", reason="part of")],
        [spark("Job 8 cancelled because SparkContext was shut down")],
        [spark("Python worker failed to connect back."), Thrown("java.net.SocketTimeoutException", "Accept timed out")],
        [ended("[STREAM_FAILED] Query [id = 1] terminated with exception:  SQLSTATE: XXKST"), EOF],
        [ended("x"), Thrown("py4j.Py4JException", "An exception was raised by the Python Proxy.")],
        [spark("Job aborted due to stage failure: x"), Thrown("java.io.IOException", "Broken pipe")],
        [Thrown("java.lang.InterruptedException", "")],
        [spark("Failed to get broadcast_1_piece0", "INTERNAL_ERROR_BROADCAST", message="Failed to get")],
        [ended("x"), spark("x", PLANNER, action="latestOffset", msg="KeyError: 'step'")],
    ],
    ids=[
        *("a worker was killed", "an executor was killed", "a result is gone", "shuffle files are gone", "a job was cancelled"),
        *("the application was stopped", "a worker does not start", "a planner was killed", "a batch was given up"),
        *("a connection has ended", "a thread was interrupted", "a broadcast is gone", "a planner has a fault"),
    ],
)  # fmt: skip
def test_what_spark_has_lost_is_lost(chain: list[Thrown]) -> None:
    assert judge(chain, "").kind is LOST


@pytest.mark.parametrize(
    "chain",
    [
        [python("ConnectionResetError: [Errno 104] Connection reset by peer")],
        [python("BrokenPipeError: [Errno 32] Broken pipe")],
        [python("EOFError: Ran out of input")],
        [python("RuntimeError: Python worker exited unexpectedly (crashed)")],
        [python("RuntimeError: ExecutorLostFailure (executor 1 exited)")],
        [python("MemoryError")],
        [python("SystemExit: 3")],
        [spark(f"{LOST_TASK}{python('ConnectionResetError: x').message}"), python("ConnectionResetError: x")],
        [spark(f"{LOST_TASK}com.example.NoKryo: ExecutorLostFailure (Connection reset, TaskKilled)")],
        [spark("[USER_RAISED_EXCEPTION] Job 3 cancelled because", "USER_RAISED_EXCEPTION", errorMessage="Job 3 cancelled")],
        [spark("[FAILED_EXECUTE_UDF] x", "FAILED_EXECUTE_UDF", reason="x"), Thrown("java.net.SocketException", "x")],
        [spark("[FAILED_READ_FILE.FILE_NOT_EXIST] x", "FAILED_READ_FILE.FILE_NOT_EXIST"), EOF],
        [spark("Job aborted due to stage failure: x"), Thrown("java.io.FileNotFoundException", "Connection reset")],
        [Thrown("java.lang.IllegalStateException", "Connection reset")],
        [],
    ],
    ids=[
        *("a connection of a UDF", "a pipe of a UDF", "a file of a UDF", "Spark's words by a UDF", "more of them"),
        *("no memory in a UDF", "an exit in a UDF", "with the failed job before it", "an exception that Java can't pickle"),
        *("raise_error", "a UDF of Java", "a table that is gone", "a file that is gone", "no error of Spark's", "nothing"),
    ],
)  # fmt: skip
def test_what_a_query_does_is_the_querys(chain: list[Thrown]) -> None:
    assert judge(chain, "").kind is QUERY


@pytest.mark.parametrize("kind", list(FailureKind))
def test_an_error_of_kcontrols_own_keeps_its_kind_and_its_text(kind: FailureKind) -> None:
    text = "step 1, output 'out': x\nand Connection reset"
    own = CarriedError(kind, text)
    header = "Traceback (most recent call last):"
    last = f"{type(own).__module__}.{type(own).__qualname__}: {own}"
    for chain in (
        [python(last)],
        [ended(last), spark(last, PLANNER, action="latestOffset", msg=f"{header}\n{last}\n")],
        [
            ended(last),
            Thrown("py4j.Py4JException", f"An exception was raised. Return Message: {header}\n{last}\n"),
        ],
    ):
        assert judge(chain, "") == judge(chain, "all that Spark says")
        assert (judge(chain, "").kind, judge(chain, "").message) == (kind, text)


def test_a_users_error_that_speaks_of_one_of_kcontrols_is_the_users() -> None:
    own = f"{CarriedError.__module__}.CarriedError: [lost] x"
    for said in (f"I have seen {own}", f"two lines\n{own}"):
        assert judge([python(f"ValueError: {said}")], "").kind is QUERY


def test_the_users_file_and_line_are_shown() -> None:
    judged = judge([python("ConnectionResetError: [Errno 104] Connection reset by peer")], "")
    assert judged.message == "ConnectionResetError: [Errno 104] Connection reset by peer (query.py, line 7)"


def test_an_error_without_a_word_is_shown_by_its_class() -> None:
    assert judge([python("MemoryError")], "").message == "MemoryError (query.py, line 7)"


def test_of_a_loss_the_words_of_spark_are_shown() -> None:
    aborted = spark(f"{LOST_TASK}org.apache.spark.SparkException: Python worker exited unexpectedly")
    assert judge([aborted, CRASHED, EOF], "x").message == CRASHED.message
    assert judge([ended("x"), EOF], "x").message == "java.io.EOFException: the other end is gone"
    assert (
        judge([ended("x"), Thrown("java.io.IOException", "Broken pipe")], "").message
        == "java.io.IOException: Broken pipe"
    )


def test_the_innermost_python_error_is_shown() -> None:
    assert root_cause(PYTHON) == "ZeroDivisionError: division by zero (query.py, line 7)"


@pytest.mark.parametrize(
    "library",
    [
        "/usr/lib/python3.11/json/decoder.py",
        "/x/site-packages/pandas/core.py",
        "/x/pyspark.zip/pyspark/worker.py",
    ],
)
def test_the_line_of_the_users_own_file_is_shown(library: str) -> None:
    text = PYTHON.replace(
        "    return 1 / 0\n", f'    return 1 / 0\n  File "{library}", line 99, in decode\n    x\n'
    )
    assert root_cause(text) == "ZeroDivisionError: division by zero (query.py, line 7)"
    only = text.replace('  File "query.py", line 7, in ratio\n    return 1 / 0\n', "")
    assert root_cause(only) == "ZeroDivisionError: division by zero"


def test_the_last_java_cause_is_shown() -> None:
    assert root_cause(JAVA) == "java.lang.ArithmeticException: [DIVIDE_BY_ZERO] Division by zero."


def test_a_message_has_a_bound() -> None:
    assert len(root_cause("x" * 100_000)) <= 2_000

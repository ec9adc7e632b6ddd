"""Whose fault an exception is, and which of Spark's many lines says what happened."""

from __future__ import annotations

import pytest

from kcontrol.adapters.spark.channel.failures import as_step_failure, root_cause
from kcontrol.core.model import FailureKind
from kcontrol.errors import FencedError, InputGoneError, RetriableError, StepFailedError, TopicError

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


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (FencedError("x"), FailureKind.FENCED),
        (RetriableError("x"), FailureKind.BROKER),
        (InputGoneError("x"), FailureKind.INPUT_GONE),
        (TopicError("x"), FailureKind.QUERY),
        (StepFailedError(FailureKind.DIGEST, "x"), FailureKind.DIGEST),
        (RuntimeError(PYTHON), FailureKind.QUERY),
        (RuntimeError("Python worker exited unexpectedly (crashed)"), FailureKind.LOST),
        (RuntimeError("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)"), FailureKind.LOST),
        (RuntimeError("Job 3 cancelled part of cancelled job group 7"), FailureKind.LOST),
        (RuntimeError("org.apache.spark.shuffle.FetchFailedException"), FailureKind.LOST),
    ],
)
def test_kinds(error: Exception, kind: FailureKind) -> None:
    assert as_step_failure(error, 3, "q").kind == kind


def test_the_innermost_python_error_is_shown() -> None:
    told = "ZeroDivisionError: division by zero (query.py, line 7)"
    assert root_cause(PYTHON) == told
    assert str(as_step_failure(RuntimeError(PYTHON), 3, "q")) == f"step 3, query 'q': {told}"


@pytest.mark.parametrize(
    "library", ["/usr/lib/python3.11/json/decoder.py", "/x/site-packages/pandas/core.py", "/x/pyspark.zip/pyspark/worker.py"]
)
def test_the_line_of_the_users_own_file_is_shown(library: str) -> None:
    text = PYTHON.replace("    return 1 / 0\n", f'    return 1 / 0\n  File "{library}", line 99, in decode\n    x\n')
    assert root_cause(text) == "ZeroDivisionError: division by zero (query.py, line 7)"
    only = text.replace('  File "query.py", line 7, in ratio\n    return 1 / 0\n', "")
    assert root_cause(only) == "ZeroDivisionError: division by zero"


def test_the_last_java_cause_is_shown() -> None:
    assert root_cause(JAVA) == "java.lang.ArithmeticException: [DIVIDE_BY_ZERO] Division by zero."


def test_a_message_has_a_bound() -> None:
    assert len(root_cause("x" * 100_000)) <= 2_000

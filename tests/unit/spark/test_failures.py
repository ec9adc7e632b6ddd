"""Whose fault an exception in the driver is, and what is said of it. Those of the JVM:
test_spark_errors.py."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError, Py4JNetworkError
from pyspark.errors import PySparkTypeError

from kcontrol.adapters.spark.channel.attempt import AttemptCancelledError
from kcontrol.adapters.spark.channel.crossing import CarriedError, carried, carried_in
from kcontrol.adapters.spark.channel.failures import as_step_failure, judged
from kcontrol.core.model import FailureKind
from kcontrol.errors import FencedError, SparkSettingError, StepFailedError, TopicError

QUERY, LOST = FailureKind.QUERY, FailureKind.LOST
CALL = "An error occurred while calling o220.opens"
TRACE = f"{CALL}. Trace:\npy4j.Py4JException: {{}}\n\tat py4j.Gateway.invoke(Gateway.java:274)\n\n"
UNANSWERED = "Spark's JVM does not answer: "
LACKS = "this Spark lacks what kcontrol needs of it: "


@pytest.mark.parametrize(
    ("error", "kind", "told"),
    [
        (FencedError("x"), FailureKind.FENCED, "x"),
        (TopicError("x"), QUERY, "x"),
        (SparkSettingError("x"), QUERY, "x"),
        (
            Py4JNetworkError("Error while sending or receiving"),
            LOST,
            f"{UNANSWERED}Error while sending or receiving",
        ),
        (
            ConnectionRefusedError(111, "Connection refused"),
            LOST,
            f"{UNANSWERED}[Errno 111] Connection refused",
        ),
        (Py4JError(CALL), LOST, f"{UNANSWERED}{CALL}"),
        (FileNotFoundError(2, "No such file"), LOST, "FileNotFoundError: [Errno 2] No such file"),
        (PySparkTypeError("Argument `x` should be a Column"), QUERY, "Argument `x` should be a Column"),
        (KeyError("q"), LOST, "KeyError: 'q'"),
    ],
)
def test_an_error_is_told_with_step_and_query(error: Exception, kind: FailureKind, told: str) -> None:
    failure = as_step_failure(error, 3, "q")
    assert (failure.kind, str(failure)) == (kind, f"step 3, query 'q': {told}")


@pytest.mark.parametrize(
    ("error", "member"),
    [
        (
            Py4JError(TRACE.format("Method opens([class java.lang.Integer]) does not exist")),
            "Method opens([class ",
        ),
        (Py4JError(TRACE.format("Constructor a.B([]) does not exist")), "Constructor a.B([])"),
        (
            Py4JError("org.apache.spark.util.Utils.nope does not exist in the JVM"),
            "org.apache.spark.util.Utils.nope",
        ),
        (TypeError("'JavaPackage' object is not callable"), "a class that is called"),
    ],
    ids=["a method", "a constructor", "a static member", "a class"],
)
def test_what_this_spark_lacks_is_named_and_no_jvm_is_blamed(error: Exception, member: str) -> None:
    failure = as_step_failure(error, 3, "q")
    assert failure.kind is QUERY
    assert str(failure).startswith(f"step 3, query 'q': {LACKS}{member}")
    assert str(failure).endswith("use Apache Spark 4.3 as it is released")


def test_an_object_that_the_jvm_has_forgotten_is_no_lack_of_spark() -> None:
    gone = Py4JError(TRACE.format("Target Object ID does not exist for this gateway :o220"))
    assert as_step_failure(gone, 3, "q").kind is LOST


def test_what_is_a_failure_already_stays_one() -> None:
    digest = StepFailedError(FailureKind.DIGEST, "step 3: x")
    assert as_step_failure(digest, 3, "q") is digest
    cancelled = as_step_failure(AttemptCancelledError("step 3: the attempt was cancelled"), 3, "q")
    assert (cancelled.kind, str(cancelled)) == (LOST, "step 3: the attempt was cancelled")


def test_only_what_spark_raises_is_judged_on_its_way() -> None:
    with pytest.raises(StepFailedError) as failed, judged():
        raise Py4JNetworkError("x")
    assert failed.value.kind is LOST
    with pytest.raises(FencedError), judged():
        raise FencedError("x")


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (StepFailedError(FailureKind.REFUSED, "two\nlines"), FailureKind.REFUSED, "two\nlines"),
        (FencedError("[query] x"), FailureKind.FENCED, "[query] x"),
        (ConnectionResetError(104, "reset"), LOST, "ConnectionResetError: [Errno 104] reset"),
        (EOFError(), LOST, "EOFError: "),
    ],
)
def test_an_error_is_the_same_on_the_other_side_of_spark(
    error: Exception, kind: FailureKind, message: str
) -> None:
    with pytest.raises(CarriedError) as raised, carried():
        raise error
    name = f"{CarriedError.__module__}.{CarriedError.__qualname__}"
    again = carried_in(
        f'Traceback (most recent call last):\n  File "x.py", line 1, in read\n{name}: {raised.value}\n'
    )
    assert again is not None
    assert (again.kind, again.message) == (kind, message.strip())


def test_a_fault_of_kcontrols_code_keeps_its_traceback() -> None:
    with pytest.raises(KeyError), carried():
        raise KeyError("x")
    assert carried_in("Traceback (most recent call last):\nKeyError: 'x'\n") is None

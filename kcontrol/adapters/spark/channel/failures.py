"""What an exception in the driver means for an attempt: whose fault it is, and what to say of it.

Errors of kcontrol's own in tasks are told over the side channel (`reporting.py`) before Spark's exception
comes; the first reason of an attempt counts.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from kcontrol.adapters.spark.channel.attempt import AttemptCancelledError
from kcontrol.adapters.spark.channel.spark_errors import Judged, judge
from kcontrol.adapters.spark.internals import lack_of, thrown_by
from kcontrol.core.failures import kind_of
from kcontrol.core.model import FailureKind
from kcontrol.errors import KcontrolError, StepFailedError

_log = logging.getLogger(__name__)

SPARK_ERRORS = (PySparkException, Py4JError, OSError)
"""All that a call of PySpark raises: Spark's own errors, py4j's, and those of a JVM that is gone."""


def as_step_failure(error: BaseException, step: int, query: str) -> StepFailedError:
    """`error`, raised while `query` ran `step`, as a StepFailedError that names both and the root cause."""
    return failure_of(error, f"step {step}, query {query!r}: ")


def failure_of(error: BaseException, where: str = "") -> StepFailedError:
    """`error` as a StepFailedError of its kind. where: what its message begins with, unless it says so
    itself."""
    if isinstance(error, StepFailedError):
        return error
    if isinstance(error, AttemptCancelledError):
        return StepFailedError(kind_of(error), str(error))
    found = _judged(error)
    return StepFailedError(found.kind, f"{where}{found.message}")


@contextmanager
def judged() -> Iterator[None]:
    """Raises what Spark or py4j raises within as a StepFailedError of its kind."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise failure_of(error) from error


def _judged(error: BaseException) -> Judged:
    if isinstance(error, KcontrolError):
        return Judged(kind_of(error), str(error))
    if isinstance(error, PySparkException | Py4JJavaError):
        try:
            return _judged_in_jvm(error)
        except (Py4JError, OSError) as gone:
            return _no_answer(gone)
    lack = lack_of(error)
    if lack is not None:
        return Judged(kind_of(lack), str(lack))
    if isinstance(error, Py4JError | ConnectionError):
        return _no_answer(error)
    return Judged(kind_of(error), f"{type(error).__name__}: {error}")


def _judged_in_jvm(error: BaseException) -> Judged:
    text = str(error)
    _log.debug("all that Spark says: %s", text)
    return judge(thrown_by(error), text)


def _no_answer(error: BaseException) -> Judged:
    return Judged(FailureKind.LOST, f"Spark's JVM does not answer: {error}")

"""What an exception from Spark means for an attempt: the user's fault, or Spark's having lost something.

kcontrol's own errors in tasks arrive with their class over the side channel, before Spark's exception does. What is left is
judged by the words that Spark uses: there is no class in what py4j or a Python worker's traceback brings.
"""

from __future__ import annotations

import logging
import re

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from kcontrol.adapters.spark.channel.attempt import AttemptCancelledError
from kcontrol.core.failures import kind_of
from kcontrol.core.model import FailureKind
from kcontrol.errors import KcontrolError, StepFailedError

_log = logging.getLogger(__name__)

MAX_MESSAGE_CHARS = 2_000

SPARK_ERRORS = (PySparkException, Py4JError, OSError)
"""All that a call of PySpark raises: Spark's own errors, py4j's, and those of the connection to a JVM that is gone."""

_LOST_WORDS = re.compile(
    r"Python worker exited unexpectedly|Python worker failed to connect back|ExecutorLostFailure|Executor heartbeat timed out"
    r"|FetchFailed|MetadataFetchFailedException|ExecutorDeadException|Could not find executor|Block .* not found"
    r"|SparkContext was shut down|cancelled as part of cancellation|Job .* cancelled|TaskKilled|CommitDeniedException"
    r"|java\.lang\.InterruptedException"
    r"|Broken pipe|Connection reset|EOFException|Stream closed"
    # A planner process that was killed: Spark reports the end of its stream without a word.
    r"|terminated with exception:\s+SQLSTATE"
)
_TRACEBACK_LINE = re.compile(
    r"^(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning)|[A-Za-z_][\w.]*): ?.*", re.MULTILINE
)
_CALL = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_LIBRARY = re.compile(
    r"[/\\](?:site-packages|dist-packages|pyspark|pyspark\.zip|lib[/\\]python[\d.]+|kcontrol[/\\]adapters)[/\\]|^<"
)


def as_step_failure(error: BaseException, step: int, query: str) -> StepFailedError:
    """`error`, raised while `query` ran `step`, as a StepFailedError whose message names both and the root cause."""
    if isinstance(error, StepFailedError):
        return error
    if isinstance(error, AttemptCancelledError):
        return StepFailedError(FailureKind.LOST, str(error))
    if isinstance(error, KcontrolError):
        return StepFailedError(kind_of(error), f"step {step}, query {query!r}: {error}")
    if isinstance(error, OSError) or (isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)):
        return StepFailedError(FailureKind.LOST, f"step {step}, query {query!r}: Spark's JVM does not answer: {error}")
    text = str(error)
    _log.debug("step %d, query %r failed; all that Spark says: %s", step, query, text)
    kind = FailureKind.LOST if _LOST_WORDS.search(text) else FailureKind.QUERY
    return StepFailedError(kind, f"step {step}, query {query!r}: {root_cause(text)}")


def _place(innermost: str) -> str:
    """File and line of the last call in a traceback that is neither Spark's, kcontrol's nor a library's."""
    own = [found for found in _CALL.finditer(innermost) if not _LIBRARY.search(found["file"])]
    return f" ({own[-1]['file']}, line {own[-1]['line']})" if own else ""


def root_cause(text: str) -> str:
    """The line of Spark's many that says what happened: the end of the innermost Python traceback, or Spark's own first."""
    innermost = text.rpartition("Traceback (most recent call last):")[2] if "Traceback" in text else ""
    lines = [match.group(0) for match in _TRACEBACK_LINE.finditer(innermost)]
    if lines:
        return f"{lines[0]}{_place(innermost)}"[:MAX_MESSAGE_CHARS]
    causes = [line.removeprefix("Caused by: ") for line in text.splitlines() if line.startswith("Caused by: ")]
    first = next((line for line in text.splitlines() if line.strip()), "no message")
    return (causes[-1] if causes else first).strip()[:MAX_MESSAGE_CHARS]

"""Which kind of failure an error is: the one table of kcontrol's own errors, for coordinators, nodes,
planners and tasks.

What Spark and py4j raise is told apart where Spark is known (`adapters/spark/channel/spark_errors.py`). What
a kind leads to is in `retry.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

from kcontrol.core.model import FailureKind
from kcontrol.errors import (
    AccessError,
    CheckpointError,
    CommitUnknownError,
    DigestMismatchError,
    FencedError,
    InputGoneError,
    KcontrolError,
    RegistryAwayError,
    RegistryError,
    RetriableError,
    SparkLostError,
    StepFailedError,
)

KINDS: Mapping[type[BaseException], FailureKind] = {
    FencedError: FailureKind.FENCED,
    RetriableError: FailureKind.BROKER,
    CommitUnknownError: FailureKind.BROKER,
    AccessError: FailureKind.DENIED,
    DigestMismatchError: FailureKind.DIGEST,
    InputGoneError: FailureKind.INPUT_GONE,
    SparkLostError: FailureKind.LOST,
    RegistryAwayError: FailureKind.LOST,  # tried again, but not for ever
    RegistryError: FailureKind.DENIED,
    CheckpointError: FailureKind.LOST,  # the disk, or where checkpoints are kept: not the query's doing
    KcontrolError: FailureKind.QUERY,  # settings, topics and records that are not as they must be
    BaseException: FailureKind.LOST,  # nobody foresaw it: it is tried again, but not for ever
}
"""By class of error; for an error that is of several of them, the most special counts."""


def kind_of(error: BaseException) -> FailureKind:
    """The kind of an error; that of a StepFailedError is the one that it was raised with."""
    if isinstance(error, StepFailedError):
        return error.kind
    return next(KINDS[cls] for cls in type(error).__mro__ if cls in KINDS)


def without_step(step: int, text: str) -> str:
    """What went wrong in a step, for whoever names the step himself."""
    return text.removeprefix(f"step {step}: ").removeprefix(f"step {step}, ")


def of_step(step: int, text: str, more: str = "") -> str:
    """What went wrong, with the step before it, once, and what more is known of it."""
    return f"step {step}{more}: {without_step(step, text)}"

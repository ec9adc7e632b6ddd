"""What the writer tasks of one attempt must know, on its way to them: a local property of Spark, as JSON.

It is not part of the functions that the tasks run: those are pickled once for all steps of a query. Spark
shows local properties in its user interface and writes them to its event log, so there is no secret in it.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from pyspark import TaskContext

from kcontrol.adapters.spark.channel.messages import Placement
from kcontrol.adapters.spark.channel.targets import OutputTarget
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError

JOB_PROPERTY = "kcontrol.job"
"""Spark's local property that holds the WriteJob of the attempt under way."""


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What every writer task of one query's batch knows. serial: the attempt's."""

    serial: int
    placement: Placement
    tasks: int
    replay: bool
    targets: tuple[OutputTarget, ...]
    spool: str | None = None
    """In a replay: the directory, on this machine, that takes the rows; None: only their digests are
    wanted."""

    def to_json(self) -> str:
        """As `job_from_json` reads it."""
        return json.dumps(asdict(self))


def job_from_json(text: str) -> WriteJob:
    """The job that `to_json` wrote."""
    fields = json.loads(text)
    targets = tuple(
        OutputTarget(**{**target, "own": tuple(target["own"])}) for target in fields.pop("targets")
    )
    return WriteJob(placement=Placement(fields.pop("placement")), targets=targets, **fields)


def job_of(context: TaskContext) -> WriteJob:
    """The job of the task under way. Raises StepFailedError (LOST) when the task has none."""
    text = context.getLocalProperty(JOB_PROPERTY)
    if text is None:
        raise StepFailedError(
            FailureKind.LOST,
            f"this Spark task has no local property {JOB_PROPERTY!r}, which says what it writes and where to",
        )
    return job_from_json(text)

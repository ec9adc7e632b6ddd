"""What the writer tasks of one attempt must know, on its way to them: a local property of Spark, as JSON.

It is not part of the functions that the tasks run: those are pickled once for all steps of a query. Spark
shows local properties in its user interface and writes them to its event log, so there is no secret in it.
A job that is begun ahead of its step has a number there instead, for which its tasks are told the rest.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from pyspark import TaskContext

from kcontrol.adapters.spark.channel.client import ChannelAddress, client_of
from kcontrol.adapters.spark.channel.messages import AskJob, Placement
from kcontrol.adapters.spark.channel.targets import OutputTarget, SendTarget
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError

JOB_PROPERTY = "kcontrol.job"
"""Spark's local property that holds the WriteJob of the attempt under way, or the number of a job that was
begun ahead."""
_AHEAD = "ahead"


@dataclass(frozen=True, slots=True)
class WriteJob:
    """What every writer task of one query's batch knows. serial: the attempt's."""

    serial: int
    placement: Placement
    tasks: int
    replay: bool
    targets: tuple[OutputTarget, ...]
    spool: str | None = None
    """In a replay: the directory, on this machine, that takes the rows, in a rehearsal those that would be sent; None: only
    their digests are wanted."""
    sends: tuple[SendTarget, ...] = ()
    """What goes to other nodes, instead of to outputs."""

    def to_json(self) -> str:
        """As `job_from_json` reads it."""
        return json.dumps(asdict(self))


def job_from_json(text: str) -> WriteJob:
    """The job that `to_json` wrote."""
    fields = json.loads(text)
    placement = Placement(fields.pop("placement"))
    targets = tuple(_output(target) for target in fields.pop("targets"))
    sends = tuple(_sent(target) for target in fields.pop("sends"))
    return WriteJob(placement=placement, targets=targets, sends=sends, **fields)


def _output(fields: dict[str, Any]) -> OutputTarget:
    return OutputTarget(**{**fields, "own": tuple(fields["own"])})


def _sent(fields: dict[str, Any]) -> SendTarget:
    output = None if fields["output"] is None else _output(fields["output"])
    return SendTarget(**{**fields, "output": output, "owners": tuple(fields["owners"])})


def ahead_property(number: int) -> str:
    """What JOB_PROPERTY holds for a job that is begun before it is known which attempt it works for."""
    return json.dumps({_AHEAD: number})


def job_of(context: TaskContext, address: ChannelAddress, query: str) -> WriteJob | None:
    """The job of the task under way; None: it was begun ahead and is not needed. Waits until that is known.

    Raises StepFailedError (LOST) when the task has none, or when the driver can't be asked.
    """
    text = context.getLocalProperty(JOB_PROPERTY)
    if text is None:
        raise StepFailedError(
            FailureKind.LOST,
            f"this Spark task has no local property {JOB_PROPERTY!r}, which says what it writes and where to",
        )
    number = json.loads(text).get(_AHEAD)
    if number is None:
        return job_from_json(text)
    told = client_of(address).ask(AskJob(query, number)).json
    return None if told is None else job_from_json(told)


def needed_job_of(context: TaskContext, address: ChannelAddress, query: str) -> WriteJob:
    """As `job_of`, for a task that may not end without having done anything. Raises StepFailedError (LOST) if its job is not
    needed, too."""
    job = job_of(context, address, query)
    if job is None:
        raise StepFailedError(FailureKind.LOST, "the step that this task was started for has not come")
    return job

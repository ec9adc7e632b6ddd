"""What the engine asks of a step whose queries are planned ahead of it (decision 055)."""

from __future__ import annotations

from kcontrol.adapters.spark.channel.answers import ChannelEndpoint
from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.core.model import FailureKind, PipelineSpec, StepWork
from kcontrol.errors import StepFailedError


def check_tasks(attempt: AttemptLedger, spec: PipelineSpec, host: ChannelEndpoint) -> None:
    """What is planned must have as many source tasks as the step.

    Raises StepFailedError (LOST) for one that was made by a definition with more of them: it can be run once the
    queries are open again, for they are planned for as many then.
    """
    needed = max(len(attempt.source_tasks(item.name)) for item in spec.inputs)
    planned = host.tasks_ahead
    if 0 < planned < needed:
        host.tasks_ahead = needed
        raise StepFailedError(
            FailureKind.LOST,
            f"step {attempt.work.step} has {needed} source tasks of an input, and the queries were planned for "
            f"{planned}: they must be opened again",
        )


def is_full(work: StepWork, spec: PipelineSpec) -> bool:
    """Whether the step held as much as one may: there is a backlog then, and the next one holds as much whenever
    it is decided."""
    return sum(item.to - item.from_ for item in work.division) >= spec.policy.max_records

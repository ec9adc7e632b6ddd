"""What a step's result says of the rows that nodes exchange: what this one sent, and that it took all that was sent to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.messages import RunToRead
from kcontrol.adapters.spark.engine.node_work import NodeWork
from kcontrol.core.model import ExchangeTaken, FailureKind, StepResult

CountRuns = Callable[[str, Sequence[RunToRead]], int]
"""How many rows runs of an exchange hold."""


def early_result(attempt: AttemptLedger, work: NodeWork, stage: int) -> StepResult:
    """Of a stage that others follow: what it has sent."""
    recorded_ms = attempt.phases_ms.get("recorded")
    return StepResult(
        *((), (), (), False),
        plan_ms=int(attempt.phases_ms.get("planned", 0)),
        recorded_ms=None if recorded_ms is None else int(recorded_ms),
        sent=attempt.exchanging.sent(work.of_stage(stage)),
    )


def with_exchanges(
    result: StepResult, attempt: AttemptLedger, work: NodeWork, count_again: CountRuns
) -> StepResult:
    """The result of all stages with what was taken, and sent: by the last stage, in a replay by all of them.

    count_again: for runs that no task has read to the end. Raises StepFailedError (LOST), which ends the attempt, when
    something that was sent to this node was not read.
    """
    taken = tuple(_taken(attempt, work, name, count_again) for name in sorted(work.exchanges))
    if attempt.expected is None:
        return replace(result, sent=attempt.exchanging.sent(work.of_stage(work.last_stage)), taken=taken)
    sent = attempt.exchanging.sent(work.names)
    return replace(result, sent=(*sent, *work.silent(attempt, sent)), taken=taken)


def _taken(attempt: AttemptLedger, work: NodeWork, exchange: str, count_again: CountRuns) -> ExchangeTaken:
    """Each query that reads an exchange must have read all that was sent through it."""
    wanted = sum(run.records for run in attempt.exchanging.ready(exchange))
    readers = work.reading(exchange)
    for query in readers:
        left = attempt.exchanging.untaken(query, exchange)
        if left and count_again(exchange, left) != sum(run.records for run in left):
            raise _lost(attempt, exchange, wanted, f"query {query!r} finds others")
    if wanted and not readers:
        raise _lost(attempt, exchange, wanted, "no query of it reads them")
    return ExchangeTaken(exchange, work.node, wanted)


def _lost(attempt: AttemptLedger, exchange: str, rows: int, why: str) -> Exception:
    return attempt.fail(
        FailureKind.LOST,
        f"step {attempt.work.step}: {rows} rows were sent to this node through exchange {exchange!r}, and {why}",
    )

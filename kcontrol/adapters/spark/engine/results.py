"""From what tasks reported to a StepResult."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from kcontrol.adapters.spark.channel.attempt import AttemptLedger, Counted, QueryResult, ReadRange
from kcontrol.adapters.spark.channel.exchanging import Run
from kcontrol.adapters.spark.channel.input_check import splits_by_partition
from kcontrol.adapters.spark.engine.node_work import NodeWork
from kcontrol.core.model import (
    ExchangeTaken,
    FailureKind,
    InputRange,
    InputSlice,
    LateRows,
    OutputSlice,
    Skipped,
    SourceSplit,
    StepResult,
)
from kcontrol.wire.digest import add_digests


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Counts what no task read to its end (a plan with a limit, or one that Spark proved to be empty), so that the
    boundary always tells what the step's input was: a split, and runs of an exchange."""

    split: Callable[[InputRange, SourceSplit], Counted]
    runs: Callable[[str, Sequence[Run]], int]


def early_result(attempt: AttemptLedger, work: NodeWork, stage: int) -> StepResult:
    """What a stage has sent, that others follow."""
    return StepResult(
        *((), (), (), False),
        plan_ms=int(attempt.phases_ms.get("planned", 0)),
        recorded_ms=_recorded_ms(attempt),
        sent=attempt.exchanging.sent(work.of_stage(stage)),
    )


def step_result(
    attempt: AttemptLedger, results: Mapping[str, QueryResult], work: NodeWork, read_again: ReadAgain
) -> StepResult:
    """Put together what all queries of one attempt found and wrote, with what the last stage has sent; of a replay,
    what all have.

    Raises StepFailedError (LOST) when two results contradict each other.
    """
    replay = attempt.expected is not None
    sent = attempt.exchanging.sent(work.names if replay else work.of_stage(work.last_stage))
    return StepResult(
        inputs=input_slices(attempt, work.inputs(attempt.work), read_again),
        outputs=_outputs(attempt, results),
        skipped=_skipped(attempt, results),
        watermark_moved=any(result.watermark_moved for result in results.values()),
        plan_ms=int(attempt.phases_ms.get("planned", 0)),
        run_ms=int(attempt.phases_ms.get("written", 0)),
        recorded_ms=_recorded_ms(attempt),
        late_rows=tuple(
            LateRows(name, work.node, rows)
            for name in sorted(results)
            if (rows := results[name].late_rows) is not None
        ),
        sent=(*sent, *work.silent(attempt, sent)) if replay else sent,
        taken=tuple(_taken(attempt, work, name, read_again) for name in sorted(work.exchanges)),
    )


def _recorded_ms(attempt: AttemptLedger) -> int | None:
    return int(attempt.phases_ms["recorded"]) if "recorded" in attempt.phases_ms else None


def _taken(attempt: AttemptLedger, work: NodeWork, exchange: str, read_again: ReadAgain) -> ExchangeTaken:
    """What this node has read of an exchange: each query that reads it has read all that was sent."""
    runs = attempt.exchanging.ready(exchange)
    wanted, found = sum(run.records for run in runs), 0
    readers = work.reading(exchange)
    for query in readers:
        left = attempt.exchanging.untaken(query, exchange)
        found = wanted - sum(run.records for run in left) + (read_again.runs(exchange, left) if left else 0)
        if found != wanted:
            break
    if found != wanted:
        raise attempt.fail(
            FailureKind.LOST,
            f"step {attempt.work.step}: {wanted} rows were sent to this node through exchange {exchange!r}, and "
            f"{', '.join(readers) or 'no query'} has read {found}",
        )
    return ExchangeTaken(exchange, work.node, found)


def input_slices(
    attempt: AttemptLedger, mine: Sequence[InputRange], read_again: ReadAgain
) -> tuple[InputSlice, ...]:
    """What the step's input was, by partition. mine: the part of the division that this node reads."""
    reads = attempt.reads()
    splits = splits_by_partition(attempt.work.layout.splits)
    inputs = []
    for item in mine:
        counted = [
            reads.get(ReadRange(s.input, s.partition, s.from_, s.to)) or read_again.split(item, s)
            for s in splits.get((item.input, item.partition), [])
        ]
        records, digest = sum(c.records for c in counted), add_digests(c.digest for c in counted)
        where = (item.input, item.topic, item.topic_id, item.partition, item.from_, item.to)
        inputs.append(InputSlice(*where, records, digest, attempt.digest_version))
    return tuple(inputs)


def _outputs(attempt: AttemptLedger, results: Mapping[str, QueryResult]) -> tuple[OutputSlice, ...]:
    found: dict[tuple[str, int], OutputSlice] = {}
    for query in sorted(results):
        for item in results[query].outputs:
            if (item.output, item.partition) in found:
                raise attempt.fail(
                    FailureKind.LOST,
                    f"step {attempt.work.step}: two tasks wrote to partition {item.partition} of output "
                    f"{item.output!r}",
                )
            found[item.output, item.partition] = item
    return tuple(found[key] for key in sorted(found))


def _skipped(attempt: AttemptLedger, results: Mapping[str, QueryResult]) -> tuple[Skipped, ...]:
    counts: dict[str, int] = {}
    for query in sorted(results):
        for item in results[query].skipped:
            if counts.setdefault(item.input, item.records) != item.records:
                raise attempt.fail(
                    FailureKind.LOST,
                    f"step {attempt.work.step}: queries disagree about the bad records of input "
                    f"{item.input!r}: {counts[item.input]} and {item.records}",
                )
    return tuple(Skipped(name, records) for name, records in sorted(counts.items()))

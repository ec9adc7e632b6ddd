"""From what tasks reported to a StepResult."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kcontrol.adapters.spark.channel.attempt import AttemptLedger, Counted, ReadRange
from kcontrol.adapters.spark.channel.input_check import splits_by_partition
from kcontrol.adapters.spark.channel.query_result import QueryResult
from kcontrol.core.model import (
    EventTimes,
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

ReadAgain = Callable[[InputRange, SourceSplit], Counted]


def step_result(
    attempt: AttemptLedger,
    results: Mapping[str, QueryResult],
    mine: Sequence[InputRange],
    read_again: ReadAgain,
    node: int,
) -> StepResult:
    """Put together what all queries of one attempt found and wrote.

    mine: the part of the division that this node reads. read_again: counts a split that no task read to its
    end (a plan with a limit, or one that Spark proved to be empty), so that the boundary always tells what
    the step's input was.
    node: the number of this node.
    Raises StepFailedError (LOST) when two results contradict each other.
    """
    return StepResult(
        inputs=input_slices(attempt, mine, read_again),
        outputs=_outputs(attempt, results),
        skipped=_skipped(attempt, results),
        watermark_moved=any(result.watermark_moved for result in results.values()),
        plan_ms=int(attempt.phases_ms.get("planned", 0)),
        run_ms=int(attempt.phases_ms.get("written", 0)),
        held_ms=attempt.held_ms,
        recorded_ms=int(attempt.phases_ms["recorded"]) if "recorded" in attempt.phases_ms else None,
        late_rows=tuple(
            LateRows(name, node, rows)
            for name in sorted(results)
            if (rows := results[name].late_rows) is not None
        ),
        event_times=tuple(
            EventTimes(name, node, results[name].max_times_ms)
            for name in sorted(results)
            if results[name].max_times_ms
        ),
    )


def input_slices(
    attempt: AttemptLedger, mine: Sequence[InputRange], read_again: ReadAgain
) -> tuple[InputSlice, ...]:
    """What the step's input was, by partition. See `step_result`."""
    reads = attempt.reads()
    splits = splits_by_partition(attempt.work.layout.splits)
    inputs = []
    for item in mine:
        counted = [
            reads.get(ReadRange(s.input, s.partition, s.from_, s.to)) or read_again(item, s)
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

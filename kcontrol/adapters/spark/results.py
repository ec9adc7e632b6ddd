"""From what tasks reported to a StepResult, and from a replay's StepResult to the log's verdict on it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from kcontrol.adapters.spark.attempt import Attempt, Counted, QueryResult, ReadRange
from kcontrol.core.model import (
    EMPTY_DIGEST,
    FailureKind,
    InputRange,
    InputSlice,
    LateRows,
    OutputSlice,
    Skipped,
    SourceSplit,
    StepBoundary,
    StepResult,
)
from kcontrol.errors import StepFailedError

_MODULUS = 1 << 128

ReadAgain = Callable[[InputRange, SourceSplit], Counted]


def add_digests(digests: Iterable[str]) -> str:
    """The digest of all records together (design 3: a sum modulo 2**128)."""
    return f"{sum(int(digest, 16) for digest in digests) % _MODULUS:032x}"


def step_result(
    attempt: Attempt, results: Mapping[str, QueryResult], mine: Sequence[InputRange], read_again: ReadAgain, node: int
) -> StepResult:
    """Put together what all queries of one attempt found and wrote.

    mine: the part of the division that this node reads. read_again: counts a split that no task read to its end (a plan
    with a limit, or one that Spark proved to be empty), so that the boundary always tells what the step's input was.
    node: the number of this node.
    Raises StepFailedError (LOST) when two results contradict each other.
    """
    reads = attempt.reads()
    splits: dict[tuple[str, int], list[SourceSplit]] = {}
    for split in attempt.work.layout.splits:
        if split.from_ < split.to:
            splits.setdefault((split.input, split.partition), []).append(split)
    inputs = []
    for item in mine:
        counted = [
            reads.get(ReadRange(s.input, s.partition, s.from_, s.to)) or read_again(item, s)
            for s in splits.get((item.input, item.partition), [])
        ]
        records, digest = sum(c.records for c in counted), add_digests(c.digest for c in counted)
        inputs.append(InputSlice(item.input, item.topic, item.topic_id, item.partition, item.from_, item.to, records, digest))
    return StepResult(
        inputs=tuple(inputs),
        outputs=_outputs(attempt, results),
        skipped=_skipped(attempt, results),
        watermark_moved=any(result.watermark_moved for result in results.values()),
        plan_ms=int(attempt.phases_ms.get("planned", 0)),
        run_ms=int(attempt.phases_ms.get("written", 0)),
        recorded_ms=int(attempt.phases_ms["recorded"]) if "recorded" in attempt.phases_ms else None,
        late_rows=tuple(
            LateRows(name, node, rows) for name in sorted(results) if (rows := results[name].late_rows) is not None
        ),
    )


def _outputs(attempt: Attempt, results: Mapping[str, QueryResult]) -> tuple[OutputSlice, ...]:
    found: dict[tuple[str, int], OutputSlice] = {}
    for query in sorted(results):
        for item in results[query].outputs:
            if (item.output, item.partition) in found:
                raise attempt.fail(
                    FailureKind.LOST,
                    f"step {attempt.work.step}: two tasks wrote to partition {item.partition} of output {item.output!r}",
                )
            found[item.output, item.partition] = item
    return tuple(found[key] for key in sorted(found))


def _skipped(attempt: Attempt, results: Mapping[str, QueryResult]) -> tuple[Skipped, ...]:
    counts: dict[str, int] = {}
    for query in sorted(results):
        for item in results[query].skipped:
            if counts.setdefault(item.input, item.records) != item.records:
                raise attempt.fail(
                    FailureKind.LOST,
                    f"step {attempt.work.step}: queries disagree about the bad records of input {item.input!r}: "
                    f"{counts[item.input]} and {item.records}",
                )
    return tuple(Skipped(name, records) for name, records in sorted(counts.items()))


def check_replay(found: StepResult, expected: StepBoundary, own: Mapping[str, Sequence[int]]) -> None:
    """Compare a replay with the log: records and digests of every input and output partition of this node, and late rows.

    own: by output, the partitions that this node writes. Raises StepFailedError (DIGEST) for the first difference.
    """
    found_inputs = {(item.input, item.partition): item for item in found.inputs}
    for slice_ in expected.inputs:
        key = (slice_.input, slice_.partition)
        if key in found_inputs:
            got = found_inputs[key]
            _compare(expected.step, "input", key, (slice_.records, slice_.digest), (got.records, got.digest))
    wanted = {(i.output, i.partition): i for i in expected.outputs if i.partition in own.get(i.output, ())}
    given = {(item.output, item.partition): item for item in found.outputs}
    for key in sorted(wanted.keys() | given.keys()):
        before, now = wanted.get(key), given.get(key)
        _compare(
            expected.step,
            "output",
            key,
            (before.records, before.digest) if before else (0, EMPTY_DIGEST),
            (now.records, now.digest) if now else (0, EMPTY_DIGEST),
        )

    _compare_late_rows(found, expected)


def _compare_late_rows(found: StepResult, expected: StepBoundary) -> None:
    """Of the queries that were counted both times: not, in boundaries of before they were, or if a watermark was added."""
    before = {(one.query, one.node): one.rows for one in expected.late_rows}
    for one in found.late_rows:
        rows = before.get((one.query, one.node), one.rows)
        if rows != one.rows:
            raise StepFailedError(
                FailureKind.DIGEST,
                f"step {expected.step}: the watermark of query {one.query!r} dropped other rows than the log says: expected "
                f"{rows}, found {one.rows}",
            )


def _compare(step: int, what: str, key: tuple[str, int], expected: tuple[int, str], found: tuple[int, str]) -> None:
    if expected != found:
        name, partition = key
        raise StepFailedError(
            FailureKind.DIGEST,
            f"step {step}: {what} {name!r} partition {partition} differs from the log: expected {expected[0]} records with "
            f"digest {expected[1]}, found {found[0]} with {found[1]}",
        )

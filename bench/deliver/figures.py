"""What one run took, and both sides of a comparison. No I/O."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bench.figures import Spread

SPARK, WHOLE, ALONE = "spark", "whole", "alone"
"""Spark's foreachBatch, from topic to table; kcontrol from topic to table, by a pipeline and its delivery at once; the
delivery alone, out of a backlog of committed steps."""


@dataclass(frozen=True)
class Commit:
    """A step or micro-batch that the table has got: when, and how many rows."""

    at_ms: float
    rows: int


@dataclass(frozen=True)
class Rates:
    """Of one run, after its warm-up."""

    rows_per_s: float
    steps_per_s: float


def rates(commits: Sequence[Commit], warm_up: int, since_ms: float | None = None) -> Rates:
    """From the commit of the last step of the warm-up to that of the last step. since_ms: from then instead.

    Raises RuntimeError when no step is left after the warm-up.
    """
    counted = commits[warm_up:]
    if not counted or warm_up < 1:
        raise RuntimeError(f"{len(commits)} steps are too few to leave out {warm_up}")
    begin_ms = commits[warm_up - 1].at_ms if since_ms is None else since_ms
    took_s = (counted[-1].at_ms - begin_ms) / 1_000
    return Rates(sum(each.rows for each in counted) / took_s, len(counted) / took_s)


def without_rest(commits: Sequence[Commit], step_rows: int) -> list[Commit]:
    """Without what was left over: Spark rounds down what it reads of each partition, and a last batch has the rest."""
    found = list(commits)
    while found and found[-1].rows < step_rows / 2:
        found.pop()
    return found


def committed(moments_ms: Sequence[float], rows: Sequence[int]) -> list[Commit]:
    """Raises RuntimeError unless each step or batch has its one transaction in the table."""
    if len(moments_ms) != len(rows):
        raise RuntimeError(
            f"the table has {len(moments_ms)} transactions with rows, and there were {len(rows)} steps"
        )
    return [Commit(at_ms, count) for at_ms, count in zip(moments_ms, rows, strict=True)]


@dataclass(frozen=True)
class Side:
    """Of all runs of one side that have figures."""

    side: str
    rows_per_s: Spread
    steps_per_s: Spread
    times_as_fast: float | None
    """As Spark, by rows/s; None: it has no figure."""


@dataclass(frozen=True)
class Compared:
    """One kind of table. failed: one sentence for each run without a figure."""

    target: str
    mode: str
    step_rows: int
    sides: tuple[Side, ...]
    failed: tuple[str, ...] = ()


def sides(found: Sequence[tuple[str, Rates]]) -> tuple[Side, ...]:
    """By the name of a side, in the order of SPARK, WHOLE, ALONE."""
    spreads = {}
    for side in (SPARK, WHOLE, ALONE):
        if of_side := [each for name, each in found if name == side]:
            spreads[side] = (
                Spread.of(each.rows_per_s for each in of_side),
                Spread.of(each.steps_per_s for each in of_side),
            )
    spark = spreads[SPARK][0].median if SPARK in spreads else None
    return tuple(
        Side(side, rows, steps, None if spark is None else rows.median / spark)
        for side, (rows, steps) in spreads.items()
    )

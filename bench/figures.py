"""What was measured, and the medians and ratios of it. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from statistics import median
from typing import Any


@dataclass(frozen=True)
class MeasuredStep:
    """One step after warm-up. period_ms: from the step before to this one, which is what throughput is made
    of.

    busy_ms: what the side itself says the step took, without the wait for the next.
    """

    records: int
    period_ms: float
    busy_ms: float


@dataclass(frozen=True)
class Run:
    """The measured steps of one process that ran one workload once."""

    side: str
    workload: str
    step_records: int
    steps: tuple[MeasuredStep, ...]

    @property
    def records_per_s(self) -> float:
        """All records of the run over the time of all its steps, so that slow steps count in full."""
        return 1_000 * sum(step.records for step in self.steps) / sum(step.period_ms for step in self.steps)


@dataclass(frozen=True)
class Spread:
    """Median, least and greatest of several figures."""

    median: float
    least: float
    greatest: float
    count: int

    @classmethod
    def of(cls, figures: Iterable[float]) -> Spread:
        found = sorted(figures)
        return cls(median(found), found[0], found[-1], len(found))


def whole(spread: Spread | None) -> str:
    """For tables, without places behind the point."""
    if spread is None:
        return "-"
    return f"{spread.median:,.0f} ({spread.least:,.0f} to {spread.greatest:,.0f})"


@dataclass(frozen=True)
class Tail:
    """Median, 99th percentile (by nearest rank: of fewer than 100 figures the greatest)
    and greatest of several figures."""

    median: float
    p99: float
    greatest: float
    count: int

    @classmethod
    def of(cls, figures: Iterable[float]) -> Tail:
        found = sorted(figures)
        return cls(median(found), found[ceil(0.99 * len(found)) - 1], found[-1], len(found))


@dataclass(frozen=True)
class Comparison:
    """One workload at one step size: both sides, and how many times kcontrol is as fast (more is better, 1 is
    equal)."""

    workload: str
    step_records: int
    spark: Spread | None
    kcontrol: Spread | None
    ratio: float | None


def throughput(runs: Sequence[Run]) -> list[Comparison]:
    """Records/s by workload, over runs."""
    return _compare(runs, lambda run: [run.records_per_s], larger_is_better=True)


def step_times(runs: Sequence[Run]) -> list[Comparison]:
    """Milliseconds from step to step by workload, over all steps of all runs."""
    return _compare(runs, lambda run: [step.period_ms for step in run.steps], larger_is_better=False)


def _compare(runs: Sequence[Run], figures: Any, *, larger_is_better: bool) -> list[Comparison]:
    keys = list(dict.fromkeys((run.workload, run.step_records) for run in runs))
    compared = []
    for workload, step_records in keys:
        sides = {}
        for side in ("spark", "kcontrol"):
            found = [
                figure
                for run in runs
                if (run.side, run.workload, run.step_records) == (side, workload, step_records)
                for figure in figures(run)
            ]
            sides[side] = Spread.of(found) if found else None
        spark, kcontrol = sides["spark"], sides["kcontrol"]
        ratio = None
        if spark is not None and kcontrol is not None:
            ratio = kcontrol.median / spark.median if larger_is_better else spark.median / kcontrol.median
        compared.append(Comparison(workload, step_records, spark, kcontrol, ratio))
    return compared


def plain(value: Any) -> Any:
    """Dataclasses as JSON takes them."""
    return asdict(value)

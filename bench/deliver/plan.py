"""What is measured: which tables, in steps of which size, and how many."""

from __future__ import annotations

from dataclasses import dataclass

from bench.deliver.columns import APPEND, UPSERT

POSTGRES, DELTA = "postgres", "delta"
CORES = PARTITIONS = 2


@dataclass(frozen=True)
class Size:
    """Of steps, and micro-batches. step_rows: a multiple of 8. Steps are counted after the warm-up."""

    step_rows: int
    warm_up: int
    counted: int

    @property
    def steps(self) -> int:
        return self.warm_up + self.counted

    @property
    def rows(self) -> int:
        return self.step_rows * self.steps

    @property
    def warm_up_rows(self) -> int:
        return self.step_rows * self.warm_up


@dataclass(frozen=True)
class Case:
    """One kind of table, and how rows come into it."""

    target: str
    mode: str


CASES = (Case(POSTGRES, APPEND), Case(POSTGRES, UPSERT), Case(DELTA, APPEND))
SIZES = (Size(100_000, 6, 10), Size(1_000, 200, 200))
QUICK_SIZES = (Size(2_000, 4, 6),)

"""What is measured, in which order, and where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Places:
    """The broker, the topic that both sides read, and what both may use of the machine."""

    bootstrap_servers: str
    source: str
    partitions: int
    cores: int


@dataclass(frozen=True)
class Measurement:
    """One workload at one step size; steps are counted after the warm-up."""

    workload: str
    step_records: int
    warm_up_steps: int
    steps: int

    @property
    def records(self) -> int:
        """What the source must hold: one step more than is counted, because Spark's last one only ends the one before."""
        return self.step_records * (self.warm_up_steps + self.steps + 1)


LARGE = (
    Measurement("passthrough", 800_000, 2, 4),
    Measurement("keyed", 800_000, 2, 4),
    Measurement("aggregate", 800_000, 2, 4),
)
SMALL = (
    Measurement("passthrough", 1_000, 20, 40),
    Measurement("aggregate", 1_000, 20, 40),
)
QUICK_LARGE = (
    Measurement("passthrough", 200_000, 1, 2),
    Measurement("aggregate", 200_000, 1, 2),
)
QUICK_SMALL = (
    Measurement("passthrough", 1_000, 10, 15),
    Measurement("aggregate", 1_000, 10, 15),
)


def alternating(sides: tuple[str, ...], repeats: int) -> Iterator[str]:
    """A B, B A, A B, ...: a machine that gets slower with time is not held against one side."""
    for turn in range(repeats):
        yield from sides if turn % 2 == 0 else reversed(sides)

"""Blocks of steps of one pipeline, with something beside it and without: both sides in the same processes."""

from __future__ import annotations

from itertools import pairwise
from statistics import median

from bench.running import Running
from examples.step_feed import Boundary

WITHOUT, WITH = "without", "with"
SIDES = (WITHOUT, WITH)
SETTLE_STEPS = 4
"""After what is beside it has begun or ended."""


def block_ms(pipeline: Running, steps: int) -> float:
    """The median time from step to step, of so many steps."""
    begin = pipeline.feed.committed + SETTLE_STEPS
    return median(_periods_ms(await_steps(pipeline, begin + steps)[begin - 1 : begin + steps]))


def _periods_ms(steps: list[Boundary]) -> list[float]:
    return [after["committed_ms"] - before["committed_ms"] for before, after in pairwise(steps)]


def await_steps(pipeline: Running, steps: int) -> list[Boundary]:
    """All committed steps, once there are so many. Raises RuntimeError."""
    return pipeline.await_steps(lambda found: len(found) >= steps, f"{steps}")

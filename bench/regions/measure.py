"""What regions cost: drains, and going back."""

from __future__ import annotations

from collections.abc import Callable

from bench import plan
from bench.regions.drains import measure_drains
from bench.regions.held import measure_held
from bench.regions.report import RegionFigures
from bench.regions.rollback import measure_rollbacks


def measure_regions(bootstrap_servers: str, quick: bool, say: Callable[[str], None]) -> RegionFigures:
    """All three. Raises RuntimeError when something stands still or fails, RetriableError when a drain takes too long."""
    draining, holding, going_back = (
        (plan.QUICK_DRAINING, plan.QUICK_HOLDING, plan.QUICK_GOING_BACK)
        if quick
        else (plan.DRAINING, plan.HOLDING, plan.GOING_BACK)
    )
    drains = tuple(measure_drains(bootstrap_servers, draining, say))
    for cost in drains:
        say(
            f"drains of {cost.workload}, {cost.step_records:,} records a step: {cost.per_s:.2f} a second, "
            f"{100 * cost.lost:.1f} % of the throughput lost"
        )
    held = tuple(measure_held(bootstrap_servers, holding, say))
    return RegionFigures(drains, held, tuple(measure_rollbacks(bootstrap_servers, going_back, say)))

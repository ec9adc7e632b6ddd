"""What it gains not to plan when a step is known: the same steps with the plan kept (a query without state) or made
ahead of each step (one with state), and with one made for each step.

Both ways take turns, each run in new processes. Above 1 the first way gains.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from bench.figures import Spread
from bench.kcontrol_side import periods_ms
from bench.plan import Measurement, Places, alternating
from bench.running import running
from bench.topics import make_source

SOURCE = "planning"
PARTITIONS = CORES = 2
EACH_STEP = "each step"
WAYS = {"passthrough": ("once", EACH_STEP), "aggregate": ("ahead", EACH_STEP)}
"""By workload."""


@dataclass(frozen=True)
class PlanningGain:
    """Milliseconds from step to step, of all runs of a way. before: planned before a step is known."""

    workload: str
    step_records: int
    before: Spread
    each_step: Spread

    @property
    def ratio(self) -> float:
        return self.each_step.median / self.before.median


def measure_planning(
    bootstrap_servers: str, measurements: Sequence[Measurement], repeats: int, say: Callable[[str], None]
) -> list[PlanningGain]:
    """Every measurement, both ways. Raises RuntimeError when a pipeline stands still or loses records."""
    places = Places(bootstrap_servers, SOURCE, PARTITIONS, CORES)
    records = max(measurement.records for measurement in measurements)
    make_source(bootstrap_servers, SOURCE, records, PARTITIONS, say)
    gains = []
    for measurement in measurements:
        ways = WAYS[measurement.workload]
        found: dict[str, list[float]] = {way: [] for way in ways}
        for way in alternating(ways, repeats):
            times_ms = _times_ms(places, measurement, way)
            found[way] += times_ms
            what = f"{measurement.workload} {measurement.step_records:,}"
            say(f"{what} planned {way}: {median(times_ms):.0f} ms a step")
        spreads = (Spread.of(found[way]) for way in ways)
        gains.append(PlanningGain(measurement.workload, measurement.step_records, *spreads))
    return gains


def _times_ms(places: Places, measurement: Measurement, way: str) -> list[float]:
    name = f"bench-planning-{uuid.uuid4().hex[:8]}"
    planned = {"plan_once": way == "once", "plan_ahead": way == "ahead"}
    pipeline = running(places, name, measurement.workload, measurement.step_records, **planned)
    return periods_ms(places, measurement, name, pipeline)

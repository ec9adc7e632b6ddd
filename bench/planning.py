"""What it gains to plan a query once: the same steps with the plan kept, and with one made for
each step.

Both ways take turns, each run in new processes. Above 1 the kept plan gains.
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
WAYS = ("once", "each step")


@dataclass(frozen=True)
class PlanningGain:
    """Milliseconds from step to step, of all runs of a way."""

    workload: str
    step_records: int
    once: Spread
    each_step: Spread

    @property
    def ratio(self) -> float:
        return self.each_step.median / self.once.median


def measure_planning(
    bootstrap_servers: str, measurements: Sequence[Measurement], repeats: int, say: Callable[[str], None]
) -> list[PlanningGain]:
    """Every measurement, both ways. Raises RuntimeError when a pipeline stands still or loses records."""
    places = Places(bootstrap_servers, SOURCE, PARTITIONS, CORES)
    records = max(measurement.records for measurement in measurements)
    make_source(bootstrap_servers, SOURCE, records, PARTITIONS, say)
    gains = []
    for measurement in measurements:
        found: dict[str, list[float]] = {way: [] for way in WAYS}
        for way in alternating(WAYS, repeats):
            times_ms = _times_ms(places, measurement, once=way == "once")
            found[way] += times_ms
            what = f"{measurement.workload} {measurement.step_records:,}"
            say(f"{what} planned {way}: {median(times_ms):.0f} ms a step")
        spreads = (Spread.of(found[way]) for way in WAYS)
        gains.append(PlanningGain(measurement.workload, measurement.step_records, *spreads))
    return gains


def _times_ms(places: Places, measurement: Measurement, once: bool) -> list[float]:
    name = f"bench-planning-{uuid.uuid4().hex[:8]}"
    pipeline = running(places, name, measurement.workload, measurement.step_records, plan_once=once)
    return periods_ms(places, measurement, name, pipeline)

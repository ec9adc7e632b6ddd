"""What it costs to bring rows together by key across nodes: the aggregate on two nodes, the same steps in four ways.

- partitioned: equal keys lie in one partition of the input (`partitioned_by`), so that each node finds them by itself;
- exchange: `kcontrol.exchange`, whatever the partitions, and rows without keys, which stay on the node that made them;
- combined: the same, with `combine`: each node brings its rows of a step to one a key before it sends them;
- delivered: as exchange, and rows with keys, which go to the nodes that own their output partitions.

The ways take turns, each run in new processes. Above 1 an exchange takes longer.
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
from bench.topics import create_topics, fill

SOURCE = "exchanged"
NODES = PARTITIONS = CORES = 2
WAYS = ("partitioned", "exchange", "combined", "delivered")


@dataclass(frozen=True)
class ExchangeCost:
    """Milliseconds from step to step, of all runs of a way. times_as_long: as the first way's median."""

    workload: str
    step_records: int
    way: str
    step_ms: Spread
    times_as_long: float


def measure_exchange(
    bootstrap_servers: str, measurements: Sequence[Measurement], repeats: int, say: Callable[[str], None]
) -> list[ExchangeCost]:
    """Every measurement in every way. Raises RuntimeError when a pipeline stands still or loses records."""
    places = Places(bootstrap_servers, SOURCE, PARTITIONS, CORES)
    records = max(measurement.records for measurement in measurements)
    say(f"filling the source with {records:,} records")
    create_topics(bootstrap_servers, SOURCE, partitions=PARTITIONS)
    fill(bootstrap_servers, SOURCE, records, PARTITIONS, by_key=True)
    costs = []
    for measurement in measurements:
        found: dict[str, list[float]] = {way: [] for way in WAYS}
        for way in alternating(WAYS, repeats):
            times_ms = _times_ms(places, measurement, way)
            found[way] += times_ms
            what = f"{measurement.workload} {measurement.step_records:,}"
            say(f"{what} {way}: {median(times_ms):.0f} ms a step")
        base = median(found[WAYS[0]])
        for way in WAYS:
            spread = Spread.of(found[way])
            costs.append(
                ExchangeCost(
                    measurement.workload, measurement.step_records, way, spread, spread.median / base
                )
            )
    return costs


def _times_ms(places: Places, measurement: Measurement, way: str) -> list[float]:
    name = f"bench-exchange-{uuid.uuid4().hex[:8]}"
    pipeline = running(places, name, measurement.workload, measurement.step_records, NODES, meets=way)
    return periods_ms(places, measurement, name, pipeline)

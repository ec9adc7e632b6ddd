"""What it costs to bring rows together by key across nodes: the aggregate on two nodes, the same steps in four ways.

- partitioned: equal keys lie in one partition of the input (`partitioned_by`), so that each node finds them by itself;
- exchange: `kcontrol.exchange`, whatever the partitions, and rows without keys, which stay on the node that made them;
- combined: the same, with `combine`: each node brings its rows of a step to one a key before it sends them;
- delivered: as exchange, and rows with keys, which go to the nodes that own their output partitions.

The ways take turns, each run in new processes, which make small steps first and large ones then: an exchange has more code than
none, and while the JVM compiles it, large steps take half as long again. Above 1 an exchange takes longer.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from bench.figures import Spread
from bench.nodes import counted_steps, measured_by_number, steps_of_sizes
from bench.plan import Measurement, Places, alternating
from bench.topics import create_topics, fill

SOURCE = "exchanged"
NODES = PARTITIONS = CORES = 2
WAYS = ("partitioned", "exchange", "combined", "delivered")
SPARE_STEPS = 200
"""Small steps that are made while the definition is changed."""


@dataclass(frozen=True)
class ExchangeCost:
    """Milliseconds from step to step, of all runs of a way. times_as_long: as the first way's median."""

    workload: str
    step_records: int
    way: str
    step_ms: Spread
    times_as_long: float


def measure_exchange(
    bootstrap_servers: str, sizes: Sequence[Measurement], repeats: int, say: Callable[[str], None]
) -> list[ExchangeCost]:
    """Every size of one workload's steps, in this order, in every way, in so many runs of each.

    Raises RuntimeError when a pipeline stands still or loses records.
    """
    places = Places(bootstrap_servers, SOURCE, PARTITIONS, CORES)
    records = sum(size.records for size in sizes) + SPARE_STEPS * sizes[0].step_records
    records += 2 * sizes[-1].step_records
    say(f"filling the source with {records:,} records")
    create_topics(bootstrap_servers, SOURCE, partitions=PARTITIONS)
    fill(bootstrap_servers, SOURCE, records, PARTITIONS, by_key=True)
    found: dict[tuple[Measurement, str], list[float]] = {(size, way): [] for size in sizes for way in WAYS}
    for way in alternating(WAYS, repeats):
        for size, times_ms in _times_ms(places, sizes, way).items():
            found[size, way] += times_ms
            say(f"{size.workload} {size.step_records:,} {way}: {median(times_ms):.0f} ms a step")
    costs = []
    for size in sizes:
        base = median(found[size, WAYS[0]])
        for way in WAYS:
            spread = Spread.of(found[size, way])
            costs.append(ExchangeCost(size.workload, size.step_records, way, spread, spread.median / base))
    return costs


def _times_ms(places: Places, sizes: Sequence[Measurement], way: str) -> dict[Measurement, list[float]]:
    """Of one run: from step to step, of the counted steps of each size."""
    name = f"bench-exchange-{uuid.uuid4().hex[:8]}"
    steps = steps_of_sizes(places, name, sizes, NODES, PARTITIONS, meets=way)
    measured = measured_by_number(steps)
    return {size: [measured[number].period_ms for number in counted_steps(size, steps)] for size in sizes}

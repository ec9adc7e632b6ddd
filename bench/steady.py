"""What the control plane takes of a step in a pipeline that has run for a while, in small steps and in large ones.

A pipeline that makes large steps from its first one on has made some dozens of them when it is measured: whatever runs once a
step, in the broker and in Spark's JVM, is interpreted then. Here the same processes have made a thousand small steps before.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from statistics import median

from bench.nodes import counted_steps, steps_of_sizes
from bench.phases import Phases, phases
from bench.plan import Measurement, Places
from bench.topics import make_source

SOURCE = "steady"
PARTITIONS = CORES = 2
SPARE_STEPS = 500
"""Small steps that are made while the definition is changed."""

Steady = Mapping[tuple[str, int], Sequence[Phases]]
"""By workload and records a step."""


def measure_steady(
    bootstrap_servers: str, pairs: Sequence[tuple[Measurement, Measurement]], say: Callable[[str], None]
) -> Steady:
    """pairs: of one workload, small steps and then large ones. Raises RuntimeError when a pipeline stands still or loses
    records."""
    places = Places(bootstrap_servers, SOURCE, PARTITIONS, CORES)
    records = max(
        small.records + large.records + SPARE_STEPS * small.step_records + 2 * large.step_records
        for small, large in pairs
    )
    make_source(bootstrap_servers, SOURCE, records, PARTITIONS, say)
    found: dict[tuple[str, int], Sequence[Phases]] = {}
    for pair in pairs:
        name = f"bench-steady-{uuid.uuid4().hex[:8]}"
        steps = steps_of_sizes(places, name, pair, 1, PARTITIONS)
        spent = {each.step: each for each in phases(steps)}
        for measurement in pair:
            key = measurement.workload, measurement.step_records
            found[key] = [spent[each] for each in counted_steps(measurement, steps) if each in spent]
            control_ms = median(each.control_ms for each in found[key])
            say(f"{key[0]} {key[1]:,} a step: {control_ms:.0f} ms of the control plane")
    return found

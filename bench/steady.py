"""What the control plane takes of a step in a pipeline that has run for a while, in small steps and in large ones.

A pipeline that makes large steps from its first one on has made some dozens of them when it is measured: whatever runs once a
step, in the broker and in Spark's JVM, is interpreted then. Here the same processes have made a thousand small steps before.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import median

from bench.nodes import await_steps_of, with_steps_of
from bench.phases import Phases, phases
from bench.plan import Measurement, Places
from bench.running import check_written, records_read, running
from bench.topics import create_topics, delete_topics, make_source
from examples.step_feed import Boundary

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
        steps = _steps(places, pair)
        spent = {each.step: each for each in phases(steps)}
        for measurement in pair:
            key = measurement.workload, measurement.step_records
            found[key] = _of(measurement, steps, spent)
            control_ms = median(each.control_ms for each in found[key])
            say(f"{key[0]} {key[1]:,} a step: {control_ms:.0f} ms of the control plane")
    return found


def _steps(places: Places, pair: Sequence[Measurement]) -> list[Boundary]:
    name = f"bench-steady-{uuid.uuid4().hex[:8]}"
    create_topics(places.bootstrap_servers, name, partitions=PARTITIONS)
    try:
        with running(places, name, pair[0].workload, pair[0].step_records) as pipeline:
            for measurement in pair:
                if measurement is not pair[0]:
                    pipeline.redefine(partial(with_steps_of, records=measurement.step_records))
                steps = await_steps_of(pipeline, measurement)
            pipeline.stop()
    finally:
        delete_topics(places.bootstrap_servers, name)
    return steps


def _of(measurement: Measurement, steps: Sequence[Boundary], spent: Mapping[int, Phases]) -> Sequence[Phases]:
    """Of the steps of one size after their warm-up."""
    of_size = [step for step in steps if records_read(step) == measurement.step_records]
    for step in of_size:
        check_written(measurement.workload, step, measurement.step_records)
    counted = of_size[measurement.warm_up_steps :][: measurement.steps]
    return [spent[step["step"]] for step in counted if step["step"] in spent]

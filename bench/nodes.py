"""What a step takes on several nodes and many partitions, and what of it is the control plane's.

Every cluster is started once: it makes the small steps first, then its definition is submitted anew with
another step policy and the same processes make the large ones. All nodes, the coordinator and the broker
share one machine, so more nodes can't be faster here; what is asked is whether the control plane's part of a
step grows with nodes and partitions.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

from bench.figures import MeasuredStep, Run, Spread
from bench.kcontrol_side import measured_steps
from bench.phases import Phases, phases
from bench.plan import Measurement, Places, Scale
from bench.running import Running, check_written, records_read, running
from bench.topics import create_topics, delete_topics, fill
from examples.step_feed import Boundary
from kcontrol.core.model import PipelineSpec

CORES = 2
SPARE_STEPS = 100
"""Small steps that may be made while the definition is changed; the source holds records for them."""


@dataclass(frozen=True)
class ScaleRun:
    """One step size on one cluster."""

    scale: Scale
    run: Run
    phases: tuple[Phases, ...]


@dataclass(frozen=True)
class Scaled:
    """One step size on all clusters of one scale. times_as_long: as the first scale's median step.

    step_ms: from commit to commit. The rest are medians over steps.
    """

    scale: Scale
    step_records: int
    step_ms: Spread
    times_as_long: float
    records_per_s: float
    record_ms: float
    open_ms: float
    work_ms: float
    commit_ms: float
    control_ms: float
    control_share: float


def measure_nodes(
    bootstrap_servers: str,
    scales: Sequence[Scale],
    measurements: Sequence[Measurement],
    say: Callable[[str], None],
) -> list[ScaleRun]:
    """Every scale in turn, each in new processes. Raises RuntimeError when one stands still or loses
    records."""
    filled: set[int] = set()
    found = []
    for scale in scales:
        places = Places(bootstrap_servers, f"records-{scale.partitions}", scale.partitions, CORES)
        if scale.partitions not in filled:
            filled.add(scale.partitions)
            _fill(places, scale, measurements)
        for each in _measure(places, scale, measurements):
            found.append(each)
            took_ms = median(step.period_ms for step in each.run.steps)
            say(
                f"{scale.nodes} nodes, {scale.partitions:>2} partitions, {each.run.step_records:,} a "
                f"step: {took_ms:,.0f} ms"
            )
    return found


def _fill(places: Places, scale: Scale, measurements: Sequence[Measurement]) -> None:
    """What small steps read is in the small batches that a producer writes with which they keep up; the rest is a backlog."""
    small, *large = measurements
    live = small.records + SPARE_STEPS * small.step_records
    backlog = sum(each.records for each in large)
    create_topics(places.bootstrap_servers, places.source, partitions=scale.partitions)
    together = max(1, small.step_records // scale.partitions)
    fill(places.bootstrap_servers, places.source, live, scale.partitions, batch_records=together)
    fill(places.bootstrap_servers, places.source, backlog, scale.partitions, first=live)


def _measure(places: Places, scale: Scale, measurements: Sequence[Measurement]) -> list[ScaleRun]:
    name = f"bench-nodes-{uuid.uuid4().hex[:8]}"
    steps = steps_of_sizes(places, name, measurements, scale.nodes, scale.partitions)
    spent = phases(steps)
    return [_run(scale, measurement, steps, spent) for measurement in measurements]


def steps_of_sizes(
    places: Places,
    name: str,
    measurements: Sequence[Measurement],
    nodes: int,
    partitions: int,
    meets: str = "",
) -> list[Boundary]:
    """All steps that one pipeline makes, by the same processes, in one size after the other. partitions: of its output. meets:
    see `running`."""
    create_topics(places.bootstrap_servers, name, partitions=partitions)
    try:
        first = measurements[0]
        with running(places, name, first.workload, first.step_records, nodes, meets=meets) as pipeline:
            for measurement in measurements:
                if measurement is not first:
                    pipeline.redefine(partial(with_steps_of, records=measurement.step_records))
                steps = _await(pipeline, measurement)
            pipeline.stop()
    finally:
        delete_topics(places.bootstrap_servers, name)
    return steps


def counted_steps(measurement: Measurement, steps: Sequence[Boundary]) -> list[int]:
    """The numbers of the steps of one size after their warm-up. Raises RuntimeError for one that has lost records."""
    of_size = [step for step in steps if records_read(step) == measurement.step_records]
    for step in of_size:
        check_written(measurement.workload, step, measurement.step_records)
    return [step["step"] for step in of_size][measurement.warm_up_steps :][: measurement.steps]


def measured_by_number(steps: Sequence[Boundary]) -> dict[int, MeasuredStep]:
    """What every step but the first took, by its number."""
    return {step["step"]: found for step, found in zip(steps[1:], measured_steps(steps), strict=True)}


def _await(pipeline: Running, measurement: Measurement) -> list[Boundary]:
    """All steps so far, as soon as enough of one size are there."""
    needed = measurement.warm_up_steps + measurement.steps
    return pipeline.await_steps(
        lambda steps: (
            sum(records_read(step) == measurement.step_records for step in steps[-needed:]) >= needed
        ),
        f"{needed} of {measurement.step_records:,} records",
    )


def with_steps_of(spec: PipelineSpec, records: int) -> PipelineSpec:
    """The definition with steps of exactly so many records."""
    return replace(spec, policy=replace(spec.policy, min_records=records, max_records=records))


def _run(
    scale: Scale, measurement: Measurement, steps: Sequence[Boundary], spent: Sequence[Phases]
) -> ScaleRun:
    """The steps of one size after their warm-up; those that were made while the
    definition was changed don't count."""
    numbers = counted_steps(measurement, steps)
    measured = measured_by_number(steps)
    run = Run(
        "kcontrol",
        measurement.workload,
        measurement.step_records,
        tuple(measured[number] for number in numbers),
    )
    return ScaleRun(scale, run, tuple(each for each in spent if each.step in set(numbers)))


def scaled(runs: Sequence[ScaleRun]) -> list[Scaled]:
    """By scale and step size, in the order in which they were first measured."""
    keys = list(dict.fromkeys((each.scale, each.run.step_records) for each in runs))
    base: dict[int, float] = {}
    found = []
    for scale, step_records in keys:
        those = [each for each in runs if (each.scale, each.run.step_records) == (scale, step_records)]
        step_ms = Spread.of(step.period_ms for each in those for step in each.run.steps)
        spent = [one for each in those for one in each.phases]
        names = ("record_ms", "open_ms", "work_ms", "commit_ms", "control_ms", "control_share")
        medians: dict[str, Any] = {name: median(getattr(one, name) for one in spent) for name in names}
        found.append(
            Scaled(
                scale,
                step_records,
                step_ms,
                step_ms.median / base.setdefault(step_records, step_ms.median),
                median(each.run.records_per_s for each in those),
                **medians,
            )
        )
    return found

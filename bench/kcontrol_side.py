"""Runs kcontrol over a topic, as its own processes, and reads from its log what each step took."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise

from bench.figures import MeasuredStep, Run
from bench.phases import Phases, phases
from bench.plan import Measurement, Places
from bench.running import Running, check_written, records_read, running
from bench.topics import create_topics, delete_topics
from examples.step_feed import Boundary


@dataclass(frozen=True)
class KcontrolRun:
    """The measured steps, and where their time went."""

    run: Run
    phases: tuple[Phases, ...]


def run_kcontrol(places: Places, measurement: Measurement) -> KcontrolRun:
    """One run in new processes with an output and a pipeline name of its own. Raises
    RuntimeError when it stands still."""
    name = f"bench-{measurement.workload}-{uuid.uuid4().hex[:8]}"
    steps = checked_steps(
        places, measurement, name, running(places, name, measurement.workload, measurement.step_records)
    )
    spent = [each for each in phases(steps) if each.step > measurement.kcontrol_warm_up_steps]
    measured = _counted(steps, measurement)
    return KcontrolRun(
        Run("kcontrol", measurement.workload, measurement.step_records, tuple(measured)), tuple(spent)
    )


def checked_steps(
    places: Places, measurement: Measurement, name: str, pipeline: AbstractContextManager[Running]
) -> list[Boundary]:
    """The steps of warm-up and measurement that a pipeline of its own makes, into an output of its name.

    pipeline: begins to run when it is entered. Raises RuntimeError when it stands still or loses records.
    """
    create_topics(places.bootstrap_servers, name, partitions=places.partitions)
    needed = measurement.kcontrol_warm_up_steps + measurement.steps
    try:
        with pipeline as at_work:
            steps = at_work.await_steps(lambda steps: len(steps) >= needed, f"{needed}")[:needed]
            at_work.stop()
    finally:
        delete_topics(places.bootstrap_servers, name)
    for step in steps:
        check_written(measurement.workload, step, measurement.step_records)
    return steps


def periods_ms(
    places: Places, measurement: Measurement, name: str, pipeline: AbstractContextManager[Running]
) -> list[float]:
    """From step to step, of the counted steps of `checked_steps`."""
    steps = checked_steps(places, measurement, name, pipeline)
    return [step.period_ms for step in _counted(steps, measurement)]


def _counted(steps: Sequence[Boundary], measurement: Measurement) -> list[MeasuredStep]:
    return measured_steps(steps)[measurement.kcontrol_warm_up_steps - 1 :]


def measured_steps(steps: Sequence[Boundary]) -> list[MeasuredStep]:
    """Of every step but the first, from boundary to boundary."""
    return [
        MeasuredStep(
            records_read(step),
            step["committed_ms"] - before["committed_ms"],
            step["committed_ms"] - step["opened_ms"],
        )
        for before, step in pairwise(steps)
    ]

"""Where the processor goes in large steps: the parts of a task alone, and a pipeline's
processes by kind while it runs."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

import psutil

from bench.alone import Alone, Parts
from bench.plan import Measurement, Places
from bench.process_kinds import processes_of, processor_s
from bench.running import Running, check_written, records_read, running
from bench.topics import create_topics, delete_topics, make_source

SOURCE = "profile"
PARTITIONS = CORES = 2
BROKER = "broker"


@dataclass(frozen=True)
class Share:
    """Of all steps that were measured together: how long they took, and the processor time of each kind of
    process."""

    workload: str
    step_records: int
    records: int
    seconds: float
    cpu_s: Mapping[str, float]


@dataclass(frozen=True)
class Profile:
    """parts: what one process does without Spark. shares: of whole pipelines."""

    parts: Sequence[Alone]
    shares: Sequence[Share]


def measure_profile(
    bootstrap_servers: str, broker_pid: int, measurements: Sequence[Measurement], say: Callable[[str], None]
) -> Profile:
    """One run of each workload. Raises RuntimeError when it stands still or loses records."""
    places = Places(bootstrap_servers, SOURCE, PARTITIONS, CORES)
    records = max(measurement.records for measurement in measurements)
    make_source(bootstrap_servers, SOURCE, records, PARTITIONS, say)
    parts = Parts(bootstrap_servers, broker_pid, SOURCE, PARTITIONS, measurements[0].step_records).measure()
    for part in parts:
        say(f"{part.part}: {part.records_per_s:,.0f} records/s")
    return Profile(parts, [_share(places, broker_pid, measurement, say) for measurement in measurements])


def _share(places: Places, broker_pid: int, measurement: Measurement, say: Callable[[str], None]) -> Share:
    name = f"bench-profile-{uuid.uuid4().hex[:8]}"
    create_topics(places.bootstrap_servers, name, partitions=PARTITIONS)
    try:
        with running(places, name, measurement.workload, measurement.step_records) as pipeline:
            pipeline.await_steps(lambda steps: len(steps) >= measurement.warm_up_steps, "warmed up")
            done, before, began = pipeline.feed.committed, _cpu_s(pipeline, broker_pid), time.perf_counter()
            steps = pipeline.await_steps(
                lambda steps: len(steps) >= done + measurement.steps, f"{measurement.steps} more"
            )
            seconds, after = time.perf_counter() - began, _cpu_s(pipeline, broker_pid)
            pipeline.stop()
    finally:
        delete_topics(places.bootstrap_servers, name)
    for step in steps[done:]:
        check_written(measurement.workload, step, measurement.step_records)
    spent: dict[str, float] = defaultdict(float)
    for (kind, process), cpu_s in after.items():
        spent[kind] += cpu_s - before.get((kind, process), 0.0)
    records = sum(map(records_read, steps[done:]))
    say(f"{measurement.workload}: " + ", ".join(f"{kind} {cpu_s:.1f} s" for kind, cpu_s in spent.items()))
    return Share(measurement.workload, measurement.step_records, records, seconds, dict(spent))


def _cpu_s(pipeline: Running, broker_pid: int) -> dict[tuple[str, psutil.Process], float]:
    """Processor time, user and system, that each process has had so far."""
    coordinator, node = pipeline.processes
    found = {}
    for kind, process in ((BROKER, psutil.Process(broker_pid)), *processes_of(coordinator, node)):
        with suppress(psutil.Error):  # It has just ended.
            found[kind, process] = processor_s(process)
    return found

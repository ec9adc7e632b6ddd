"""Runs kcontrol over a topic, as its own processes, and reads from its log what each step took."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from bench.figures import MeasuredStep, Run
from bench.phases import Phases, phases
from bench.plan import Measurement, Places
from bench.topics import create_topics, delete_topics
from examples import processes
from examples.processes import KcontrolProcess
from examples.step_feed import Boundary, StepFeed

PIPELINE_FILE = Path(__file__).with_name("pipeline.py")
RUN_TIMEOUT_S = 420.0
COMMAND_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class KcontrolRun:
    """The measured steps, and where their time went."""

    run: Run
    phases: tuple[Phases, ...]


def run_kcontrol(places: Places, measurement: Measurement) -> KcontrolRun:
    """One run in new processes with an output and a pipeline name of its own. Raises RuntimeError when it stands still."""
    name = f"bench-{measurement.workload}-{uuid.uuid4().hex[:8]}"
    create_topics(places.bootstrap_servers, name, partitions=places.partitions)
    needed = measurement.warm_up_steps + measurement.steps
    try:
        with _running(places, measurement, name) as (feed, started):
            if not feed.wait_for(lambda steps: len(steps) >= needed, RUN_TIMEOUT_S):
                said = "\n".join(process.log_tail() for process in started)
                raise RuntimeError(f"{name} committed {feed.committed} steps of {needed} in {RUN_TIMEOUT_S:.0f} s\n{said}")
            _command("stop", name, places)
            steps = feed.steps[:needed]
        log = [json.loads(line) for line in _command("log", name, places, "--json").splitlines()]
    finally:
        delete_topics(places.bootstrap_servers, name)
    _check_written(measurement, steps)
    spent = [each for each in phases(log, steps) if each.step > measurement.warm_up_steps]
    return KcontrolRun(_measured(measurement, steps), tuple(spent))


@contextmanager
def _running(places: Places, measurement: Measurement, name: str) -> Iterator[tuple[StepFeed, list[KcontrolProcess]]]:
    """A coordinator and a node of the workload's pipeline, and the steps that they commit."""
    environment = {
        "BENCH_PIPELINE": name,
        "BENCH_WORKLOAD": measurement.workload,
        "BENCH_SOURCE": places.source,
        "BENCH_SINK": name,
        "BENCH_STEP_RECORDS": str(measurement.step_records),
        "BENCH_CORES": str(places.cores),
    }
    with tempfile.TemporaryDirectory(prefix="bench-kcontrol-") as scratch:
        home = Path(scratch)
        node = processes.node(PIPELINE_FILE, places.bootstrap_servers, home, master=f"local[{places.cores}]")
        node.environment.update(environment)
        started = [processes.coordinator("bench", places.bootstrap_servers, home), node]
        feed = StepFeed(name, places.bootstrap_servers)
        try:
            for process in started:
                process.start()
            yield feed, started
        finally:
            feed.close()
            for process in reversed(started):
                process.stop()


def _measured(measurement: Measurement, steps: list[Boundary]) -> Run:
    measured = [
        MeasuredStep(
            sum(piece["records"] for piece in step["inputs"]),
            step["committed_ms"] - before["committed_ms"],
            step["committed_ms"] - step["opened_ms"],
        )
        for before, step in pairwise(steps)
    ]
    return Run("kcontrol", measurement.workload, measurement.step_records, tuple(measured[measurement.warm_up_steps - 1 :]))


def _check_written(measurement: Measurement, steps: list[Boundary]) -> None:
    """A figure of a run that lost records is worth nothing."""
    for step in steps:
        read, written = (sum(piece["records"] for piece in step[side]) for side in ("inputs", "outputs"))
        if read != measurement.step_records or (measurement.workload != "aggregate" and written != read):
            raise RuntimeError(f"step {step['step']} of {measurement.workload} read {read} and wrote {written} records")


def _command(command: str, pipeline: str, places: Places, *more: str) -> str:
    """Run one kcontrol command to its end; what it printed."""
    arguments = [command, pipeline, "--bootstrap-servers", places.bootstrap_servers, *more]
    done = subprocess.run(
        [sys.executable, "-m", "kcontrol.cli", *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
    )
    return done.stdout

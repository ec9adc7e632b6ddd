"""Runs Spark's own source and sink over a topic, in Spark's own process, and reads what each micro-batch
took."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from bench.figures import MeasuredStep, Run
from bench.plan import Measurement, Places
from bench.spark_environment import SparkEnvironment
from bench.topics import create_topics, delete_topics, written_records

RUN_TIMEOUT_S = 420
APP = Path(__file__).with_name("spark_app.py")


def run_spark(environment: SparkEnvironment, places: Places, measurement: Measurement) -> Run:
    """One run in a new process with a new output topic. Raises RuntimeError with what Spark said when it
    fails."""
    sink = f"{places.source}-spark-{measurement.workload}"
    create_topics(places.bootstrap_servers, sink, partitions=places.partitions)
    try:
        # One more: a micro-batch's time ends where the next one begins.
        batches = _batches(
            environment, places, measurement, sink, measurement.warm_up_steps + measurement.steps + 1
        )
        _check_written(places, measurement, sink, batches)
    finally:
        delete_topics(places.bootstrap_servers, sink)
    starts = [datetime.fromisoformat(str(batch["started"])).timestamp() * 1_000 for batch in batches]
    steps = [
        MeasuredStep(batch["records"], after - start, batch["duration_ms"])
        for batch, start, after in zip(batches, starts, starts[1:], strict=False)
    ]
    return Run(
        "spark", measurement.workload, measurement.step_records, tuple(steps[measurement.warm_up_steps :])
    )


def _batches(
    environment: SparkEnvironment, places: Places, measurement: Measurement, sink: str, steps: int
) -> list[dict[str, int]]:
    with tempfile.TemporaryDirectory(prefix="bench-spark-") as scratch:
        command = command_of(
            environment, places, measurement.workload, sink, scratch, measurement.step_records, steps
        )
        found: list[dict[str, int]] = said_by(command, f"Spark's side of {measurement.workload}")
    return found


def said_by(
    command: Sequence[str], what: str, more: Mapping[str, str] | None = None, timeout_s: float = RUN_TIMEOUT_S
) -> Any:
    """What an application of Spark's own prints as its last line, in JSON. more: variables that it needs.

    Raises RuntimeError with what it said when it fails.
    """
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("SPARK_", "PYSPARK_", "PYTHON"))
    }
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**clean, **(more or {})},
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{what} failed:\n{done.stderr[-4_000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def command_of(
    environment: SparkEnvironment,
    places: Places,
    workload: str,
    sink: str,
    scratch: str,
    step_records: int,
    steps: int = 0,
) -> tuple[str, ...]:
    """Of Spark's own application. steps: after which it tells what they took and ends; 0: it runs until its
    standard input ends."""
    options = {
        "bootstrap-servers": places.bootstrap_servers,
        "workload": workload,
        "source": places.source,
        "sink": sink,
        "checkpoint": f"{scratch}/checkpoint",
        "ivy": environment.ivy,
        "step-records": step_records,
        "steps": steps,
        "cores": places.cores,
        "shuffle-partitions": places.cores,
    }
    return (
        str(environment.python),
        str(APP),
        *(f"--{name}={value}" for name, value in options.items()),
    )


def _check_written(
    places: Places, measurement: Measurement, sink: str, batches: list[dict[str, int]]
) -> None:
    """A figure of a run that lost records is worth nothing. More may be there: a batch was under way when it
    ended."""
    if measurement.workload == "aggregate":
        return
    read = sum(batch["records"] for batch in batches)
    written = written_records(places.bootstrap_servers, sink, places.partitions)
    if written < read:
        raise RuntimeError(f"Spark read {read} records and wrote {written} to {sink}")

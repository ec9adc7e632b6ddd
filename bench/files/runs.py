"""One run of each side, in new processes with an output of its own."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.figures import MeasuredStep
from bench.kcontrol_side import measured_steps
from bench.plan import Places
from bench.running import with_coordinator
from bench.spark_environment import SparkEnvironment
from bench.spark_side import said_by
from bench.topics import create_topics, delete_topics
from examples import processes

APP, PIPELINE_FILE = Path(__file__).with_name("spark_app.py"), Path(__file__).with_name("pipeline.py")
PATTERN = "*.ndjson"
RUN_TIMEOUT_S = 600


def run_kcontrol(places: Places, lines: str, sink: str, files: int, step_bytes: int) -> list[MeasuredStep]:
    """lines: the directory, or the URL of all of its files in one. Raises RuntimeError when it stands still, or has lost
    records."""
    create_topics(places.bootstrap_servers, sink, partitions=places.partitions)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-kcontrol-") as scratch:
            home = Path(scratch)
            environment = {
                "BENCH_PIPELINE": sink,
                "BENCH_LINES": lines,
                "BENCH_PATTERN": "" if lines.startswith("http") else PATTERN,
                "BENCH_STEP_BYTES": str(step_bytes),
                "BENCH_CORES": str(places.cores),
            }
            servers, master = places.bootstrap_servers, f"local[{places.cores}]"
            node = processes.node(PIPELINE_FILE, servers, home, 0, master, environment)
            with with_coordinator(places, home, sink, [node]) as pipeline:
                steps = pipeline.await_steps(lambda steps: len(steps) >= files, f"{files}")[:files]
                pipeline.stop()
    finally:
        delete_topics(places.bootstrap_servers, sink)
    sizes = {sum(piece["to"] - piece["from"] for piece in step["inputs"]) for step in steps}
    if sizes != {step_bytes}:
        raise RuntimeError(
            f"steps of {sink} have read {sorted(sizes)} bytes, and each should read {step_bytes}"
        )
    return measured_steps(steps)


def run_spark(
    environment: SparkEnvironment, places: Places, directory: Path, sink: str
) -> list[dict[str, object]]:
    """What each micro-batch took. Raises RuntimeError with what Spark said when it fails."""
    create_topics(places.bootstrap_servers, sink, partitions=places.partitions)
    try:
        with tempfile.TemporaryDirectory(prefix="bench-spark-") as scratch:
            options = {
                "bootstrap-servers": places.bootstrap_servers,
                "directory": directory,
                "sink": sink,
                "checkpoint": f"{scratch}/checkpoint",
                "ivy": environment.ivy,
                "cores": places.cores,
            }
            command = [
                str(environment.python),
                str(APP),
                *(f"--{name}={value}" for name, value in options.items()),
            ]
            found: list[dict[str, object]] = said_by(command, "Spark's side", timeout_s=RUN_TIMEOUT_S)
    finally:
        delete_topics(places.bootstrap_servers, sink)
    return found

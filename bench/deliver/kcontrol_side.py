"""kcontrol's side, in real processes: a pipeline and `kcontrol deliver` at once, and then the delivery alone, of the same steps
to a new table."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.deliver import rows
from bench.deliver.figures import Rates, committed, rates
from bench.deliver.plan import CORES, PARTITIONS, Size
from bench.deliver.tables import DeliveredTable, Tables
from bench.plan import Places
from bench.running import COMMAND_TIMEOUT_S, RUN_TIMEOUT_S, Running, records_read, with_coordinator
from bench.topics import create_topics, delete_topics
from examples import processes
from examples.processes import KcontrolProcess
from examples.step_feed import Boundary, records_out

PIPELINE_FILE = Path(__file__).with_name("pipeline.py")
LOOK_S = 1.0
"""How often it is looked for the end, which opens a session each time; no figure is made of it."""


@dataclass(frozen=True)
class Log:
    """Committed steps of a pipeline that has ended, for the delivery alone. boundaries: of all of them."""

    pipeline: str
    source: str
    boundaries: list[Boundary]


def run_whole(bootstrap_servers: str, tables: Tables, mode: str, size: Size) -> tuple[Rates, Log]:
    """From topic to table, by pipeline and delivery at once, from when the first counted step is opened. Its rows come when
    all of the warm-up is in the table, while the pipeline is paused. Raises RuntimeError."""
    name = f"bench-deliver-{uuid.uuid4().hex[:8]}"
    source, table = f"{name}-source", tables.new(mode)
    create_topics(bootstrap_servers, source, name, partitions=PARTITIONS)
    rows.write(bootstrap_servers, source, 0, size.warm_up_rows, PARTITIONS, size.step_rows)
    with tempfile.TemporaryDirectory(prefix="bench-kcontrol-") as scratch:
        home = Path(scratch)
        with _running(bootstrap_servers, home, name, source, size) as pipeline:
            pipeline.await_steps(lambda steps: len(steps) >= 1, "1")
            with _delivering(bootstrap_servers, home, name, tables, table) as delivery:
                _await_step(delivery, table, size.warm_up)
                _ask("pause", name, bootstrap_servers)
                more = size.rows - size.warm_up_rows
                rows.write(bootstrap_servers, source, size.warm_up_rows, more, PARTITIONS, size.step_rows)
                _ask("resume", name, bootstrap_servers)
                steps = pipeline.await_steps(lambda steps: len(steps) >= size.steps, f"{size.steps}")
                _await_step(delivery, table, size.steps)
            pipeline.stop()
    _check_sizes(steps, size)
    rows.check(mode, size.rows, size.step_rows, *table.columns())
    began_ms = steps[size.warm_up]["opened_ms"]
    return _rates(table, steps, size, began_ms), Log(name, source, steps)


def run_alone(bootstrap_servers: str, tables: Tables, mode: str, size: Size, log: Log) -> Rates:
    """The delivery alone, out of a backlog of committed steps. Raises RuntimeError."""
    table = tables.new(mode)
    with (
        tempfile.TemporaryDirectory(prefix="bench-kcontrol-") as scratch,
        _delivering(bootstrap_servers, Path(scratch), log.pipeline, tables, table) as delivery,
    ):
        _await_step(delivery, table, size.steps)
    rows.check(mode, size.rows, size.step_rows, *table.columns())
    return _rates(table, log.boundaries, size)


def forget(bootstrap_servers: str, log: Log) -> None:
    """Its topics, so that the disk stays bounded by one run."""
    delete_topics(bootstrap_servers, log.source, log.pipeline)


@contextmanager
def _running(servers: str, home: Path, name: str, source: str, size: Size) -> Iterator[Running]:
    environment = {
        "BENCH_PIPELINE": name,
        "BENCH_SOURCE": source,
        "BENCH_STEP_ROWS": str(size.step_rows),
        "BENCH_CORES": str(CORES),
    }
    node = processes.node(PIPELINE_FILE, servers, home, 0, f"local[{CORES}]", environment)
    with with_coordinator(Places(servers, source, PARTITIONS, CORES), home, name, [node]) as pipeline:
        yield pipeline


@contextmanager
def _delivering(
    servers: str, home: Path, name: str, tables: Tables, table: DeliveredTable
) -> Iterator[KcontrolProcess]:
    where = ["--to", table.to, "--output", "written", "--format", "json", *table.deliver_options]
    arguments = ["deliver", name, *where, "--bootstrap-servers", servers]
    process = KcontrolProcess("deliver", arguments, home, tables.environment)
    with processes.alive(process):
        yield process


def _await_step(delivery: KcontrolProcess, table: DeliveredTable, step: int) -> None:
    """Raises RuntimeError when the delivery has ended, or stands still."""
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while (there := table.step()) < step:
        if not delivery.is_running or time.monotonic() > deadline:
            why = f"{RUN_TIMEOUT_S:.0f} s are over" if delivery.is_running else "it has ended"
            raise RuntimeError(
                f"kcontrol deliver has delivered {there} steps and not {step}: {why}\n{delivery.log_tail()}"
            )
        time.sleep(LOOK_S)


def _ask(what: str, name: str, bootstrap_servers: str) -> None:
    command = [sys.executable, "-m", "kcontrol.cli", what, name, "--bootstrap-servers", bootstrap_servers]
    subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_TIMEOUT_S)


def _check_sizes(steps: list[Boundary], size: Size) -> None:
    for step in steps:
        if (records_read(step), records_out([step])) != (size.step_rows, size.step_rows):
            raise RuntimeError(
                f"step {step['step']} has read {records_read(step)} and written {records_out([step])} rows"
            )


def _rates(table: DeliveredTable, steps: list[Boundary], size: Size, since_ms: float | None = None) -> Rates:
    each = [records_out([step]) for step in steps]
    return rates(committed(table.moments_ms(), each), size.warm_up, since_ms)

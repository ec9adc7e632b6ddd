"""A pipeline that runs for the bench: a coordinator and its nodes as real processes, and what their logs say
of it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.plan import Places
from examples import processes
from examples.processes import KcontrolProcess
from examples.step_feed import Boundary, StepFeed
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.core.model import PipelineSpec
from kcontrol.settings.cluster import ClusterSettings

PIPELINE_FILE = Path(__file__).with_name("pipeline.py")
RUN_TIMEOUT_S = 420.0
COMMAND_TIMEOUT_S = 60.0


@dataclass
class Running:
    """One pipeline while its processes run. definition: the newest, once it was asked for."""

    name: str
    bootstrap_servers: str
    feed: StepFeed
    processes: tuple[KcontrolProcess, ...]
    definition: PipelineSpec | None = None

    def await_steps(self, reached: Callable[[list[Boundary]], bool], what: str) -> list[Boundary]:
        """The committed steps, as soon as `reached` holds of them. Raises
        RuntimeError when it stands still, or a process of it has ended."""
        self.feed.wait_for(lambda steps: reached(steps) or bool(self._ended()), RUN_TIMEOUT_S)
        if not reached(self.feed.steps):
            said = "\n".join(process.log_tail() for process in self.processes)
            why = f"its {self._ended()} has ended" if self._ended() else f"{RUN_TIMEOUT_S:.0f} s are over"
            waited = f"{self.name} has committed {self.feed.committed} steps and not {what}: {why}"
            raise RuntimeError(f"{waited}\n{said}")
        return self.feed.steps

    def _ended(self) -> str:
        """The first of its processes that does not run; '' for none."""
        return next((process.name for process in self.processes if not process.is_running), "")

    def stop(self) -> None:
        """Have it stopped as a user would; its nodes stand by."""
        self._command("stop")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Have it make no steps while the block runs."""
        self._command("pause")
        yield
        self._command("resume")

    def _command(self, name: str) -> None:
        arguments = [name, self.name, "--bootstrap-servers", self.bootstrap_servers]
        command = [sys.executable, "-m", "kcontrol.cli", *arguments]
        subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_TIMEOUT_S)

    def redefine(self, change: Callable[[PipelineSpec], PipelineSpec]) -> None:
        """Submit its definition anew while it runs, with other settings that its nodes
        need not be started again for.

        Not before the first step: there may be no definition yet.
        """
        asyncio.run(self._redefine(change))

    async def _redefine(self, change: Callable[[PipelineSpec], PipelineSpec]) -> None:
        log = await KafkaControlLog.open(ClusterSettings(bootstrap_servers=self.bootstrap_servers), self.name)
        try:
            if self.definition is None:
                self.definition = [
                    one.record for one in await log.read_to_end() if isinstance(one.record, PipelineSpec)
                ][-1]
            self.definition = change(self.definition)
            await log.append([self.definition])
        finally:
            await log.close()


@contextmanager
def running(
    places: Places,
    name: str,
    workload: str,
    step_records: int,
    nodes: int = 1,
    checkpoint_every: str = "",
    min_records: int | None = None,
    plan_once: bool = True,
    meets: str = "",
) -> Iterator[Running]:
    """The workload's pipeline under a name of its own, which is also its output topic, in new processes.

    The nodes share the cores. checkpoint_every: a duration; '' for checkpoints as they are by default.
    min_records: a step holds at least so many and at most `step_records`; None: exactly those.
    meets: how equal keys come to one node, see `bench/exchange.py`.
    """
    cores = max(1, places.cores // nodes)
    with _home() as home:
        environment = _environment(places, home, name, workload, step_records) | {
            "BENCH_MIN_RECORDS": str(step_records if min_records is None else min_records),
            "BENCH_CORES": str(cores),
            "BENCH_NODES": str(nodes),
            "BENCH_CHECKPOINT_EVERY": checkpoint_every,
            "BENCH_PLAN_ONCE": str(int(plan_once)),
            "BENCH_MEETS": meets,
        }
        servers, master = places.bootstrap_servers, f"local[{cores}]"
        started = [
            processes.node(PIPELINE_FILE, servers, home, number, master, environment)
            for number in range(nodes)
        ]
        with with_coordinator(places, home, name, started) as pipeline:
            yield pipeline


@contextmanager
def attached(
    places: Places, name: str, workload: str, step_records: int, settings: Mapping[str, str]
) -> Iterator[Running]:
    """As `running`, on one node, which is an application with these settings of Spark."""
    with _home() as home:
        arguments = [
            places.bootstrap_servers,
            str(home / "nodes"),
            f"local[{places.cores}]",
            json.dumps(settings),
        ]
        environment = _environment(places, home, name, workload, step_records)
        node = KcontrolProcess("attached", arguments, home, environment, module="bench.attached")
        with with_coordinator(places, home, name, [node]) as pipeline:
            yield pipeline


@contextmanager
def _home() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="bench-kcontrol-") as scratch:
        yield Path(scratch)


def _environment(places: Places, home: Path, name: str, workload: str, step_records: int) -> dict[str, str]:
    """What `bench/pipeline.py` needs to know, for one node and steps of exactly so many records."""
    return {
        "BENCH_PIPELINE": name,
        "BENCH_WORKLOAD": workload,
        "BENCH_SOURCE": places.source,
        "BENCH_SINK": name,
        "BENCH_STEP_RECORDS": str(step_records),
        "BENCH_MIN_RECORDS": str(step_records),
        "BENCH_CORES": str(places.cores),
        "BENCH_NODES": "1",
        "BENCH_CHECKPOINTS": str(home / "checkpoints"),
        "BENCH_CHECKPOINT_EVERY": "",
        "BENCH_PLAN_ONCE": "1",
        "BENCH_MEETS": "",
    }


@contextmanager
def with_coordinator(
    places: Places, home: Path, name: str, nodes: Sequence[KcontrolProcess]
) -> Iterator[Running]:
    """A pipeline with these nodes, and a coordinator, which run from here on."""
    started = (processes.coordinator("bench", places.bootstrap_servers, home), *nodes)
    with processes.alive(*started), closing(StepFeed(name, places.bootstrap_servers)) as feed:
        yield Running(name, places.bootstrap_servers, feed, started)


def address_said(process: KcontrolProcess, name: str, timeout_s: float) -> str:
    """What a server prints of itself in JSON under this name, once it listens. Raises RuntimeError when it does not start."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s and process.is_running:
        for line in process.log.read_text().splitlines():
            if line.startswith(f'{{"{name}"'):
                return str(json.loads(line)[name])
        time.sleep(0.05)
    raise RuntimeError(f"the server did not start\n{process.log_tail()}")


def check_written(workload: str, step: Boundary, expected: int) -> None:
    """A figure of a run that lost records is worth nothing. Raises RuntimeError."""
    read, written = (sum(piece["records"] for piece in step[side]) for side in ("inputs", "outputs"))
    if read != expected or (workload != "aggregate" and written != read):
        raise RuntimeError(f"step {step['step']} of {workload} read {read} and wrote {written} records")


def records_read(step: Boundary) -> int:
    """Input records of one step."""
    return sum(piece["records"] for piece in step["inputs"])

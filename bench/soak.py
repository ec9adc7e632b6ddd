"""What long runs leave behind: memory, descriptors, threads and sockets of every process,
looked at while steps are made.

Two runs. In one a coordinator, a server and a node without Spark (`bench/quick_node.py`) make as many steps
as fit into the time, because what the control plane keeps of a step it would keep of a million. In the other
a real node makes steps and one of its Python workers is killed every few, because what Spark and PySpark
leave behind they leave with each death.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import linear_regression
from urllib.request import urlopen

import psutil

from bench import startup
from bench.plan import Measurement, Places, Soak
from bench.process_kinds import WORKER, processes_of
from bench.rest import served
from bench.running import COMMAND_TIMEOUT_S, Running, running
from bench.topics import create_topics, delete_topics, fill
from examples import processes
from examples.processes import KcontrolProcess, alive
from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.core.model import BadRecords, CheckpointSpec, InputSpec, PipelineSpec, StepPolicySpec
from kcontrol.settings.cluster import ClusterSettings

SOURCE = "soak"
CHECKPOINT_EVERY_MS = 10_000
KEPT_STEPS = 10_000
"""In the log; the rest is dropped as users would have it dropped of a pipeline that runs for years."""
LOOKS = 50
STALL_S = 120.0
PARTITIONS = CORES = 2


@dataclass(frozen=True)
class Look:
    """One kind of process at one time: how many there are; of all together resident bytes,
    descriptors, threads, sockets."""

    step: int
    processes: int
    rss_bytes: int
    descriptors: int
    threads: int
    sockets: int


@dataclass(frozen=True)
class Growth:
    """Of one kind of process over a run: looks in order, and what it gained by 1,000
    steps in its later half, fitted."""

    kind: str
    looks: tuple[Look, ...]

    def per_1000_steps(self, figure: str) -> float:
        """figure: the name of a field of `Look`."""
        later = self.looks[len(self.looks) // 2 :]
        steps = [look.step / 1_000 for look in later]
        if len(set(steps)) < 2:
            return 0.0
        return linear_regression(steps, [getattr(look, figure) for look in later]).slope


@dataclass(frozen=True)
class SoakRun:
    """what: in words. steps: made in so many seconds; killed: workers."""

    what: str
    steps: int
    seconds: float
    killed: int
    growth: tuple[Growth, ...]


def measure_soak(bootstrap_servers: str, soak: Soak, say: Callable[[str], None]) -> list[SoakRun]:
    """Both runs. Raises RuntimeError when steps stand still."""
    return [soak_steps(bootstrap_servers, soak.steps, say), soak_kills(bootstrap_servers, soak, say)]


def soak_steps(bootstrap_servers: str, steps: int, say: Callable[[str], None]) -> SoakRun:
    """The control plane alone: one record a step, a checkpoint every ten seconds."""
    name = f"soak-{uuid.uuid4().hex[:8]}"
    settings = ClusterSettings(bootstrap_servers=bootstrap_servers)
    create_topics(bootstrap_servers, name, partitions=1)
    say(f"filling the source with {steps:,} records")
    fill(bootstrap_servers, name, steps, 1)
    ensure_topics(settings, name)
    asyncio.run(startup.submit(settings, _spec(settings, name)))
    try:
        with (
            tempfile.TemporaryDirectory(prefix="bench-soak-") as scratch,
            served(bootstrap_servers) as server,
        ):
            home = Path(scratch)
            coordinator = processes.coordinator("soak", bootstrap_servers, home)
            node = KcontrolProcess("node", [bootstrap_servers, name], home, module="bench.quick_node")
            with alive(coordinator, node):
                watched = {"coordinator": coordinator.pid, "node": node.pid, "serve": server.process.pid}
                began = time.monotonic()
                looks = _look_on(_steps_of(server.url, name, (coordinator, node)), steps, watched, say)
                took_s = time.monotonic() - began
    finally:
        delete_topics(bootstrap_servers, name)
    return SoakRun("control plane alone", steps, took_s, 0, _growth(looks))


def soak_kills(bootstrap_servers: str, soak: Soak, say: Callable[[str], None]) -> SoakRun:
    """With Spark, and a worker killed every so many steps."""
    measured = Measurement("aggregate", soak.step_records, 0, soak.spark_steps)
    places = Places(bootstrap_servers, f"{SOURCE}-{uuid.uuid4().hex[:8]}", PARTITIONS, CORES)
    name = f"bench-soak-{uuid.uuid4().hex[:8]}"
    create_topics(bootstrap_servers, places.source, name, partitions=PARTITIONS)
    fill(bootstrap_servers, places.source, measured.records + soak.kill_every * soak.step_records, PARTITIONS)
    try:
        with running(places, name, measured.workload, measured.step_records) as pipeline:
            began = time.monotonic()
            looks, killed = _kill_workers(pipeline, soak, say)
            took_s = time.monotonic() - began
    finally:
        delete_topics(bootstrap_servers, places.source, name)
    return SoakRun("with Spark, workers killed", soak.spark_steps, took_s, killed, _growth(looks))


def _kill_workers(
    pipeline: Running, soak: Soak, say: Callable[[str], None]
) -> tuple[list[dict[str, Look]], int]:
    coordinator, node = pipeline.processes
    looks: list[dict[str, Look]] = []
    killed = 0
    for step in range(soak.kill_every, soak.spark_steps + 1, soak.kill_every):
        pipeline.await_steps(lambda steps, step=step: len(steps) >= step, str(step))  # type: ignore[misc]
        families: dict[str, list[psutil.Process]] = {}
        for kind, process in processes_of(coordinator, node):
            families.setdefault(kind, []).append(process)
        looks.append({kind: _look(step, found) for kind, found in families.items()})
        victims = _forked(families.get(WORKER, []))
        if victims:
            with suppress(psutil.NoSuchProcess):
                victims[-1].kill()
                killed += 1
        _say_progress(say, len(looks), soak.spark_steps // soak.kill_every, looks[-1])
    return looks, killed


def _forked(workers: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that a daemon has forked, not the daemon."""
    pids = {each.pid: each for each in workers}
    found = []
    for each in pids.values():
        with suppress(psutil.Error):
            if each.ppid() in pids:
                found.append(each)
    return found


def _spec(settings: ClusterSettings, name: str) -> PipelineSpec:
    """One input of one partition, no output; a step holds one record."""
    topic_id = TopicAdmin(settings).get(name, "the source").topic_id
    source = InputSpec("records", name, topic_id, (0,), (0,), "raw", BadRecords.HALT, "", "")
    policy = StepPolicySpec(min_records=1, max_delay_ms=1_000, max_records=1, clock_ms=0)
    checkpoint = CheckpointSpec("file:///nowhere", CHECKPOINT_EVERY_MS, 2, KEPT_STEPS)
    return startup.spec(name, (source,), (), policy, checkpoint)


def _steps_of(url: str, name: str, made_by: Sequence[KcontrolProcess]) -> Callable[[], int]:
    """What the server says is committed. Raises RuntimeError when who makes the steps has ended."""

    def committed() -> int:
        for process in made_by:
            if not process.is_running:
                raise RuntimeError(f"{process.name} has ended\n{process.log_tail()}")
        with urlopen(f"{url}/v1/pipelines/{name}", timeout=COMMAND_TIMEOUT_S) as answer:
            return int(json.load(answer)["status"]["step"])

    return committed


def _look_on(
    committed: Callable[[], int], steps: int, watched: Mapping[str, int], say: Callable[[str], None]
) -> list[dict[str, Look]]:
    looks: list[dict[str, Look]] = []
    moved_at, last = time.monotonic(), 0
    while last < steps:
        step = committed()
        if step > last:
            moved_at, last = time.monotonic(), step
        elif time.monotonic() - moved_at > STALL_S:
            raise RuntimeError(f"no step after {last} of {steps} within {STALL_S:.0f} s")
        if step >= steps * (len(looks) + 1) / LOOKS:
            looks.append({kind: _look(step, [psutil.Process(pid)]) for kind, pid in watched.items()})
            _say_progress(say, len(looks), LOOKS, looks[-1])
        time.sleep(0.2)  # Looked at from outside: nothing tells when a share of the steps is made.
    return looks


def _look(step: int, found: Sequence[psutil.Process]) -> Look:
    figures = [0, 0, 0, 0, 0]
    for process in found:
        with suppress(psutil.Error):  # It has just ended.
            one = (
                1,
                process.memory_info().rss,
                process.num_fds(),
                process.num_threads(),
                len(process.net_connections(kind="all")),
            )
            figures = [whole + part for whole, part in zip(figures, one, strict=True)]
    return Look(step, *figures)


def _growth(looks: Sequence[Mapping[str, Look]]) -> tuple[Growth, ...]:
    kinds = dict.fromkeys(kind for look in looks for kind in look)
    return tuple(Growth(kind, tuple(look[kind] for look in looks if kind in look)) for kind in kinds)


def _say_progress(say: Callable[[str], None], done: int, of: int, look: Mapping[str, Look]) -> None:
    if done % 5 == 0 or done == of:
        seen = ", ".join(
            f"{kind} {each.rss_bytes / 1e6:,.0f} MB {each.descriptors} fds" for kind, each in look.items()
        )
        say(f"look {done} of {of}, step {max(each.step for each in look.values()):,}: {seen}")

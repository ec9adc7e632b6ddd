"""More nodes and fewer, under load, as a user would change it: processes that wait for a place, and `kcontrol layout`.

Each node has a working directory of its own, as on hosts of their own: what one has and another gets comes through the place
for checkpoints.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from bench.layout.load import Load, keys_of
from bench.layout.parts import Boundary, Change, gaps_ms, parts
from bench.plan import Changing
from bench.topics import create_topics
from examples.processes import KcontrolProcess, coordinator
from examples.step_feed import StepFeed, records_in
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.model import Assignment, Logged
from kcontrol.settings.cluster import ClusterSettings

FILE = Path(__file__).with_name("pipeline.py")
TIMEOUT_S = 900.0
LOOK_EVERY_S = 0.2
_COPIED = re.compile(r"(\d+) bytes were copied")


@dataclass
class _Cluster:
    """The processes of one pipeline. size: how many nodes it has."""

    name: str
    servers: str
    plan: Changing
    home: Path
    feed: StepFeed
    nodes: dict[int, KcontrolProcess]
    lives: int = 0
    size: int = 1

    def start_node(self, number: int, *how: str) -> KcontrolProcess:
        """A process of its own name and directory."""
        self.lives += 1
        where = ["--work-dir", str(self.home / f"nodes-{self.lives}"), "--master", "local[1]", "--no-archive"]
        which = ["--node", str(number), "--bootstrap-servers", self.servers]
        environment = {
            "BENCH_PIPELINE": self.name,
            "BENCH_SOURCE": f"{self.name}-source",
            "BENCH_SINK": f"{self.name}-sink",
            "BENCH_CHECKPOINTS": str(self.home / "checkpoints"),
            "BENCH_SHARDS": str(self.plan.shards),
        }
        process = KcontrolProcess(
            f"node-{number}-{self.lives}", ["node", str(FILE), *which, *where, *how], self.home, environment
        )
        process.start()
        self.nodes[number] = process
        return process

    def await_steps(self, reached: Callable[[list[Boundary]], bool], what: str) -> None:
        """Raises RuntimeError when it takes too long."""
        if not self.feed.wait_for(reached, TIMEOUT_S):  # type: ignore[arg-type]  # a list of dictionaries
            said = "\n".join(process.log_tail() for process in self.nodes.values())
            raise RuntimeError(
                f"{self.name} has committed {self.feed.committed} steps and not {what}\n{said}"
            )

    def settle(self, steps: int) -> None:
        """So many more."""
        until = self.feed.committed + steps
        self.await_steps(lambda made: len(made) >= until, f"step {until}")

    def await_said(self, process: KcontrolProcess, what: str) -> None:
        """Until a process has said that. Raises RuntimeError."""
        deadline = time.monotonic() + TIMEOUT_S
        while what not in process.log.read_text(errors="replace"):
            if time.monotonic() > deadline or not process.is_running:
                raise RuntimeError(f"{process.name} has not said {what!r}\n{process.log_tail()}")
            time.sleep(LOOK_EVERY_S)

    def command(self, *arguments: str) -> dict[str, Any]:
        """What a command says, as JSON. Raises RuntimeError when it fails."""
        done = subprocess.run(
            [sys.executable, "-m", "kcontrol.cli", *arguments, "--json", "--bootstrap-servers", self.servers],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        if done.returncode:
            said = "\n".join(process.log_tail() for process in self.nodes.values())
            raise RuntimeError(f"kcontrol {' '.join(arguments)}: {done.stderr}\n{said}")
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def copied_bytes(self) -> int:
        """That all its nodes say so far that they have copied."""
        logs = self.home.glob("node-*.log")
        return sum(int(each) for log in logs for each in _COPIED.findall(log.read_text(errors="replace")))


def measure_layout(bootstrap_servers: str, plan: Changing, say: Callable[[str], None]) -> list[Change]:
    """One node to those of `plan.path`, one after the other, `plan.rounds` times.

    Raises RuntimeError when something stands still or fails, and ValueError where two of them are equal.
    """
    changes = plan.path * plan.rounds
    if any(before == after for before, after in pairwise((1, *changes))):
        raise ValueError(
            f"a layout of {plan.path} nodes is not another one each time, beginning with one node"
        )
    keys, name = keys_of(plan.state_mb), f"bench-layout-{uuid.uuid4().hex[:8]}"
    create_topics(bootstrap_servers, f"{name}-source", f"{name}-sink", partitions=plan.partitions)
    load = Load(bootstrap_servers, f"{name}-source", plan.partitions, keys)
    say(f"filling the state with {keys:,} keys, some {plan.state_mb:g} MB")
    load.fill()
    with _running(bootstrap_servers, name, plan) as cluster:
        cluster.await_steps(lambda steps: records_in(steps) >= keys, f"{keys:,} records")  # type: ignore[arg-type]
        load.start(plan.records_per_s)
        try:
            cluster.settle(plan.settle_steps)
            return [_measure(cluster, plan, nodes, say) for nodes in changes]
        finally:
            load.stop()


def _measure(cluster: _Cluster, plan: Changing, nodes: int, say: Callable[[str], None]) -> Change:
    asked = _ask(cluster, plan, nodes)
    control, made = asyncio.run(_logs(cluster.servers, cluster.name))
    found = _change(asked, cluster.feed.steps, control, made, plan)
    say(
        f"{found.before} to {found.nodes} nodes: gaps of {found.median_ms:,.0f} ms, the longest {found.longest_ms:,.0f}, at "
        f"the switch {found.switch_ms:,.0f}: "
        + ", ".join(f"{part.what} {part.ms:,.0f}" for part in found.parts)
    )
    return found


@dataclass(frozen=True)
class _Asked:
    """What was asked for after a step, what the command said, and how many bytes were copied for it."""

    step: int
    said: dict[str, Any]
    copied_bytes: int


def _ask(cluster: _Cluster, plan: Changing, nodes: int) -> _Asked:
    left = [cluster.nodes[number] for number in range(nodes, cluster.size)]
    for number in range(cluster.size, nodes):
        cluster.await_said(cluster.start_node(number, "--new"), "waits for a place")
    if nodes > cluster.size:
        cluster.settle(plan.settle_steps)
    step, before_bytes = cluster.feed.committed, cluster.copied_bytes()
    said = cluster.command("layout", cluster.name, "--nodes", str(nodes))
    cluster.await_steps(lambda steps: steps[-1]["nodes"] == nodes, f"a step by {nodes} nodes")
    cluster.settle(plan.settle_steps)
    for each in left:
        if each.process is not None:
            each.process.wait(TIMEOUT_S)
    cluster.size = nodes
    return _Asked(step, said, cluster.copied_bytes() - before_bytes)


def _change(
    asked: _Asked,
    steps: Sequence[Boundary],
    control: Sequence[Logged],
    made: Sequence[Assignment],
    plan: Changing,
) -> Change:
    said, after = asked.said, asked.said["after_step"]
    number = int(said["assignment"])
    made_ms = next(each.now_ms for each in made if each.number == number)
    last, first = steps[after - 1], steps[after]
    within = steps[max(0, asked.step - 1) : after + plan.settle_steps]
    return Change(
        before=int(said["nodes_before"]),
        nodes=int(said["nodes"]),
        after_step=after,
        gaps_ms=gaps_ms(within),
        switch_ms=float(first["committed_ms"] - last["committed_ms"]),
        parts=parts(control, last, first, number, made_ms),
        moved_bytes=asked.copied_bytes,
        optimum_bytes=sum(int(move["bytes"] or 0) for move in said["moves"]),
    )


async def _logs(bootstrap_servers: str, name: str) -> tuple[list[Logged], list[Assignment]]:
    """All that was ever said; the log is not compacted so soon."""
    settings = ClusterSettings(bootstrap_servers=bootstrap_servers)
    control, steps = await KafkaControlLog.open(settings, name), KafkaStepsLog(settings, name)
    try:
        made = [each.record for each in await steps.read_to_end() if isinstance(each.record, Assignment)]
        return await control.read_to_end(), made
    finally:
        await asyncio.gather(control.close(), steps.close())


@contextmanager
def _running(bootstrap_servers: str, name: str, plan: Changing) -> Iterator[_Cluster]:
    with tempfile.TemporaryDirectory(prefix="bench-layout-") as scratch:
        home = Path(scratch)
        led = coordinator("bench", bootstrap_servers, home)
        feed = StepFeed(name, bootstrap_servers)
        cluster = _Cluster(name, bootstrap_servers, plan, home, feed, {})
        try:
            led.start()
            cluster.start_node(0, "--create-outputs", str(plan.partitions))
            yield cluster
        finally:
            feed.close()
            for process in (*cluster.nodes.values(), led):
                process.stop()

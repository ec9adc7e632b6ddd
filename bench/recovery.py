"""How long it takes from SIGKILL to the commit of the next step, process by process, the
killed one started again at once; and with a second process that only waits to take its place.

Uses the cluster, the pipeline and the input of the chaos harness: state over two inputs, two queries, a
steady stream.
"""

from __future__ import annotations

import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

from bench.figures import Spread
from examples.processes import KcontrolProcess, now_ms
from examples.step_feed import StepFeed, recovered_ms
from tests.chaos.cluster import Cluster
from tests.chaos.faults import Action, Fault, Target
from tests.chaos.names import PIPELINE
from tests.chaos.producer import Feeder
from tests.support.processes import run_kcontrol

TARGETS = (Target.COORDINATOR, Target.NODE, Target.JVM, Target.WORKER, Target.BROKER)
WITH_STANDBY = (Target.COORDINATOR, Target.NODE)
ONE_STANDS_BY = ", one stands by"
CASES = (*(each.value for each in TARGETS), *(f"{each.value}{ONE_STANDS_BY}" for each in WITH_STANDBY))
STANDS_BY, BEGINS, TAKES_OVER = "stands by for process", "starting Spark", "takes over"
WARM = f"pipeline {PIPELINE} warm: step "
TIMEOUT_S = 180.0
LOOK_EVERY_S = 0.05
SETTLE_STEPS = 5
"""Committed between two kills, so that one recovery does not run into the next."""


def measure_recovery(repeats: int, seed: int, cases: Sequence[str] = CASES) -> dict[str, Spread]:
    """Milliseconds by what was killed, for some of `CASES`. Raises RuntimeError when a recovery takes longer than
    a few minutes."""
    generator = random.Random(seed)
    alone = [target for target in TARGETS if target.value in cases]
    beside = [target for target in WITH_STANDBY if f"{target.value}{ONE_STANDS_BY}" in cases]
    found = _measured(repeats, seed, alone, generator) if alone else {}
    return found | (_measured(repeats, seed, beside, generator, standby=True) if beside else {})


def _measured(
    repeats: int, seed: int, targets: Sequence[Target], generator: random.Random, *, standby: bool = False
) -> dict[str, Spread]:
    """standby: with another coordinator, and another process for the node, that only wait."""
    times: dict[Target, list[float]] = {target: [] for target in targets}
    with tempfile.TemporaryDirectory(prefix="bench-recovery-") as scratch:
        cluster = Cluster(Path(scratch), 2 if standby else 1, brokers=1, standby=standby)
        feed = StepFeed(PIPELINE, cluster.bootstrap_servers)
        feeder = Feeder(cluster.bootstrap_servers, seed)
        try:
            cluster.start()
            feeder.start()
            for _ in range(repeats):
                for target in targets:
                    _await_steps(cluster, feed, feed.committed + SETTLE_STEPS)
                    if standby:
                        _await_standby(cluster)
                    times[target].append(_kill(cluster, feed, target, generator, standby=standby))
        finally:
            feeder.stop()
            feed.close()
            cluster.stop()
    what = ONE_STANDS_BY if standby else ""
    return {f"{target.value}{what}": Spread.of(each) for target, each in times.items()}


def _kill(
    cluster: Cluster, feed: StepFeed, target: Target, generator: random.Random, *, standby: bool
) -> float:
    victims = _victims(cluster, target, generator, standby=standby)
    killed_ms = now_ms()
    cluster.hit(victims, Action.KILL)
    deadline = time.monotonic() + TIMEOUT_S
    while (took_ms := recovered_ms(feed.steps, killed_ms)) is None:
        cluster.revive()
        feed.wait_for(lambda steps: recovered_ms(steps, killed_ms) is not None, LOOK_EVERY_S, LOOK_EVERY_S)
        if time.monotonic() > deadline:
            raise RuntimeError(
                f"no step within {TIMEOUT_S:.0f} s after the {target} was killed\n{_said(cluster)}"
            )
    return took_ms


def _victims(
    cluster: Cluster, target: Target, generator: random.Random, *, standby: bool
) -> list[psutil.Process]:
    """Of two of a kind, the one that is at work."""
    if not standby:
        return cluster.pick(Fault(Action.KILL, (target,), 0.0, 0.0), generator)
    status = _status(cluster)
    coordinator = int(status["coordinator"].rpartition(":")[2])
    return [psutil.Process(coordinator if target is Target.COORDINATOR else status["nodes"][0]["process_id"])]


def _status(cluster: Cluster) -> dict[str, Any]:
    done = run_kcontrol("status", PIPELINE, "--json", "--bootstrap-servers", cluster.bootstrap_servers)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _await_standby(cluster: Cluster) -> None:
    """Until one of the node's processes waits with everything ready."""
    deadline = time.monotonic() + TIMEOUT_S
    while not any(_stands_by(process) for process in cluster.processes):
        if time.monotonic() > deadline:
            raise RuntimeError(f"nobody stands by after {TIMEOUT_S:.0f} s\n{_said(cluster)}")
        time.sleep(LOOK_EVERY_S)


def _stands_by(process: KcontrolProcess) -> bool:
    """By what its newest life has said last of that."""
    said = process.log.read_text(errors="replace") if process.log.exists() else ""
    begun = max(said.rfind(BEGINS), said.rfind(TAKES_OVER))
    return said.rfind(STANDS_BY) > begun and said.rfind(WARM) > begun


def _await_steps(cluster: Cluster, feed: StepFeed, step: int) -> None:
    if not feed.wait_for(lambda steps: len(steps) >= step, TIMEOUT_S):
        raise RuntimeError(f"step {step} did not come within {TIMEOUT_S:.0f} s\n{_said(cluster)}")


def _said(cluster: Cluster) -> str:
    return "\n".join(process.log_tail() for process in cluster.processes)

"""How long it takes from SIGKILL to the commit of the next step, process by process, the
killed one started again at once.

Uses the cluster, the pipeline and the input of the chaos harness: state over two inputs, two queries, a
steady stream.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path

from bench.figures import Spread
from examples.processes import now_ms
from examples.step_feed import StepFeed, recovered_ms
from tests.chaos.cluster import Cluster
from tests.chaos.faults import Action, Fault, Target
from tests.chaos.names import PIPELINE
from tests.chaos.producer import Feeder

TARGETS = (Target.COORDINATOR, Target.NODE, Target.JVM, Target.WORKER, Target.BROKER)
TIMEOUT_S = 180.0
LOOK_EVERY_S = 0.05
SETTLE_STEPS = 5
"""Committed between two kills, so that one recovery does not run into the next."""


def measure_recovery(repeats: int, seed: int) -> dict[str, Spread]:
    """Milliseconds by what was killed. Raises RuntimeError when a recovery takes longer than a few
    minutes."""
    generator = random.Random(seed)
    times: dict[str, list[float]] = {target.value: [] for target in TARGETS}
    with tempfile.TemporaryDirectory(prefix="bench-recovery-") as scratch:
        cluster = Cluster(Path(scratch), coordinators=1, brokers=1)
        feed = StepFeed(PIPELINE, cluster.bootstrap_servers)
        feeder = Feeder(cluster.bootstrap_servers, seed)
        try:
            cluster.start()
            feeder.start()
            for _ in range(repeats):
                for target in TARGETS:
                    _await_steps(cluster, feed, feed.committed + SETTLE_STEPS)
                    times[target.value].append(_kill(cluster, feed, target, generator))
        finally:
            feeder.stop()
            feed.close()
            cluster.stop()
    return {target: Spread.of(found) for target, found in times.items()}


def _kill(cluster: Cluster, feed: StepFeed, target: Target, generator: random.Random) -> float:
    victims = cluster.pick(Fault(Action.KILL, (target,), 0.0, 0.0), generator)
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


def _await_steps(cluster: Cluster, feed: StepFeed, step: int) -> None:
    if not feed.wait_for(lambda steps: len(steps) >= step, TIMEOUT_S):
        raise RuntimeError(f"step {step} did not come within {TIMEOUT_S:.0f} s\n{_said(cluster)}")


def _said(cluster: Cluster) -> str:
    return "\n".join(process.log_tail() for process in cluster.processes)

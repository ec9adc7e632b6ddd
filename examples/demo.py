"""`make demo`: a real pipeline is killed twice in the middle and its output compared with what plain Spark
says.

Everything is real: Kafka, the coordinator, the node with its Spark, SIGKILL. Ends with 0 only if the proof
holds. Everything it makes lies in one temporary directory, which is removed when it holds.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console

from examples import flights, processes
from examples.demo_display import Display, show_outcome
from examples.flights_data import load, write_lines
from examples.flights_proof import Proof, prove, read_committed
from examples.processes import KcontrolProcess, now_ms
from examples.step_feed import AttemptFeed, StepFeed, records_in, recovered_ms
from kcontrol.adapters.kafka.embedded import EmbeddedBroker

PARTITIONS = 4
KILL_COORDINATOR_AT, KILL_NODE_AT = 0.3, 0.65
"""Parts of the records: once so many are in committed steps, the process is killed."""
START_TIMEOUT_S = 120
RECOVERY_TIMEOUT_S = 120
SPARK_TIMEOUT_S = 180
READ_TIMEOUT_S = 30


class DemoError(Exception):
    """Something did not happen in time."""


@dataclass(frozen=True)
class Recovery:
    """From the kill to the commit of the first step that was begun after it."""

    what: str
    at_step: int
    took_ms: float


@dataclass
class Demo:
    """One run of it."""

    home: Path
    console: Console
    recoveries: list[Recovery] = field(default_factory=list)
    processes: list[KcontrolProcess] = field(default_factory=list)

    def run(self) -> Proof:
        """Returns the proof, shown. Raises DemoError when something does not happen in time."""
        lines = self.home / "flights.json"
        with self.console.status("starting a Kafka broker"):
            keys = write_lines(lines)
            broker = EmbeddedBroker(self.home / "broker").start()
        try:
            bootstrap_servers = broker.bootstrap_servers
            self.console.print(f"a real Kafka runs at {bootstrap_servers}")
            create_topics(bootstrap_servers)
            with self.console.status("loading the flights"):
                total = load(bootstrap_servers, "flights", lines, keys)
            self.console.print(
                f"{total:,} flights are in the topic [bold]flights[/], {PARTITIONS} partitions"
            )
            feed = StepFeed(flights.pipeline.name, bootstrap_servers)
            attempts = AttemptFeed(flights.pipeline.name, bootstrap_servers)
            try:
                self._run_pipeline(bootstrap_servers, feed, attempts, total)
            finally:
                feed.close()
                attempts.close()
            return self._prove(bootstrap_servers, feed, attempts, lines)
        finally:
            broker.stop()

    def _run_pipeline(
        self, bootstrap_servers: str, feed: StepFeed, attempts: AttemptFeed, total: int
    ) -> None:
        """Start it, kill it twice, wait until all the input is in committed steps."""
        coordinator = processes.coordinator("coordinator", bootstrap_servers, self.home)
        node = processes.node(Path(flights.__file__), bootstrap_servers, self.home)
        self.processes = [coordinator, node]

        def has_come(part: float) -> bool:
            return records_in(feed.steps) >= part * total

        try:
            for process in self.processes:
                process.start()
            with Display(self.console, feed, total) as display:
                display.say("coordinator and node start")
                self._await(feed, lambda: feed.committed > 0, START_TIMEOUT_S, "the first step")
                for victim, part in ((coordinator, KILL_COORDINATOR_AT), (node, KILL_NODE_AT)):
                    self._await(
                        feed,
                        partial(has_come, part),
                        START_TIMEOUT_S,
                        "progress",
                    )
                    self._kill(victim, feed, attempts, display)
                display.say("the rest")
                self._await(
                    feed, lambda: records_in(feed.steps) >= total, START_TIMEOUT_S, "the end of the input"
                )
                display.say("all input is in committed steps")
        finally:
            for process in reversed(self.processes):
                process.stop()

    def _kill(self, victim: KcontrolProcess, feed: StepFeed, attempts: AttemptFeed, display: Display) -> None:
        """In the middle of a step: right after the coordinator has told the node to make one."""
        if not attempts.wait_for_next(RECOVERY_TIMEOUT_S):
            raise DemoError("no step was begun")
        at_step, killed_ms = feed.committed, now_ms()
        victim.kill()
        display.say(f"[red]kill -9 {victim.pid}[/], the {victim.name}, in the middle of step {at_step + 1}")
        victim.start()
        self._await(
            feed,
            lambda: recovered_ms(feed.steps, killed_ms) is not None,
            RECOVERY_TIMEOUT_S,
            f"a step after the {victim.name} was killed",
        )
        took_ms = recovered_ms(feed.steps, killed_ms) or 0.0
        self.recoveries.append(Recovery(victim.name, at_step, took_ms))
        display.say(
            f"[green]the {victim.name} is back[/]: the next step is committed {took_ms / 1000:.1f} s "
            "after the kill"
        )

    def _await(self, feed: StepFeed, reached: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait for it as long as all processes live."""
        deadline = time.monotonic() + timeout_s
        while not feed.wait_for(lambda _: reached(), min(1.0, max(0.0, deadline - time.monotonic()))):
            dead = [process.name for process in self.processes if not process.is_running]
            if dead:
                raise DemoError(f"{' and '.join(dead)} ended by itself")
            if time.monotonic() >= deadline:
                raise DemoError(
                    f"{what} did not come within {timeout_s:.0f} s; committed: step {feed.committed}"
                )

    def _prove(self, bootstrap_servers: str, feed: StepFeed, attempts: AttemptFeed, lines: Path) -> Proof:
        with self.console.status("plain Spark computes the same from the file"):
            plain_spark(lines, self.home / "plain")
        with self.console.status("a read_committed consumer reads the outputs"):
            delays = read_committed(bootstrap_servers, ["delays"])
            delayed = read_committed(bootstrap_servers, ["delayed"])
        proof = prove(
            feed.steps, delays, delayed, self.home / "plain", end_offsets(bootstrap_servers, "flights")
        )
        show_outcome(self.console, feed.steps, self.recoveries, attempts.count - feed.committed, proof)
        return proof


def create_topics(bootstrap_servers: str) -> None:
    """The user's topics: one input, two outputs. kcontrol's own it makes itself."""
    names = ["flights", *(output.topic for output in flights.pipeline.outputs)]
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 3})
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        future.result(READ_TIMEOUT_S)


def end_offsets(bootstrap_servers: str, topic: str) -> dict[int, int]:
    """By partition: one past the last record."""
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "ends"})
    ends = {
        p: consumer.get_watermark_offsets(TopicPartition(topic, p), READ_TIMEOUT_S)[1]
        for p in range(PARTITIONS)
    }
    consumer.close()
    return ends


def plain_spark(lines: Path, target: Path) -> None:
    """A batch job in a process of its own, with nothing of kcontrol's settings."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    done = subprocess.run(
        [sys.executable, "-m", "examples.plain_spark", str(lines), str(target)],
        capture_output=True,
        text=True,
        timeout=SPARK_TIMEOUT_S,
        env=clean,
        check=False,
    )
    if done.returncode != 0:
        raise DemoError(f"plain Spark failed:\n{done.stderr[-3_000:]}")


def main() -> int:
    """Exit code 0: the proof holds. 1: it does not, or something did not happen in time."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))
    console = Console()
    began = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="kcontrol-demo-"))
    demo = Demo(home, console)
    try:
        holds = demo.run().holds
    except DemoError as error:
        console.print(f"[bold red]The demo failed:[/] {error}", highlight=False)
        holds = False
    except KeyboardInterrupt:
        shutil.rmtree(home, ignore_errors=True)
        return 130
    if holds:
        shutil.rmtree(home, ignore_errors=True)
        console.print(f"[bold green]The proof holds.[/] {time.monotonic() - began:.0f} s in all.")
        return 0
    for process in demo.processes:
        console.print(process.log_tail(), markup=False, highlight=False, soft_wrap=True)
    console.print(f"Everything is kept in {home}", highlight=False, soft_wrap=True)
    return 1


if __name__ == "__main__":
    sys.exit(main())

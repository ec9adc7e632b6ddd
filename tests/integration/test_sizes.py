"""One pipeline without state on one, two, three and again one node, through the command line,
with old steps dropped between.

Every word must come out once, whatever the number of nodes; steps of all sizes are run again and agree; and
Ctrl-C leaves no process behind.
"""

from __future__ import annotations

import asyncio
import secrets
import signal
from collections import Counter
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer

from examples.topic_reading import read_topics
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.support.processes import ROOT, KcontrolProcess, objects, run_kcontrol
from tests.support.topics import create_topic

pytestmark = [pytest.mark.timeout(900), pytest.mark.heavy]

FILE = ROOT / "tests" / "pipelines" / "relay.py"
PATIENCE_S = 240.0
PARTITIONS = 4
INTERRUPTED = 130


class Relay:
    """The pipeline, its words, and commands about it."""

    def __init__(self, settings: ClusterSettings, directory: Path) -> None:
        self.name = f"relay-{secrets.token_hex(3)}"
        self.servers = settings.bootstrap_servers
        self.directory = directory
        self.words: Counter[str] = Counter()
        self.env = {
            "RELAY_PIPELINE": self.name,
            "RELAY_CHECKPOINTS": f"file://{directory}/checkpoints",
            "KCONTROL_BOOTSTRAP_SERVERS": self.servers,
            "XDG_DATA_HOME": str(directory / "home"),
        }

    def produce(self, count: int) -> None:
        producer = Producer({"bootstrap.servers": self.servers})
        for _ in range(count):
            word = f"word-{self.words.total()}"
            producer.produce(f"{self.name}-words", word, partition=self.words.total() % PARTITIONS)
            self.words[word.upper()] += 1
        assert producer.flush(30) == 0

    def command(self, *arguments: str) -> CompletedProcess[str]:
        return run_kcontrol(*arguments, env=self.env, cwd=self.directory, timeout_s=PATIENCE_S)

    def run(self, *arguments: str) -> list[dict[str, Any]]:
        """Until it is caught up; the events that it told."""
        result = self.command("run", str(FILE), "--until-caught-up", "--json", *arguments)
        assert result.returncode == 0, result.stdout + result.stderr
        return objects(result.stdout)

    def steps(self) -> list[dict[str, Any]]:
        return objects(self.command("steps", self.name, "--json").stdout)

    def first_step(self) -> int:
        """The oldest that was not dropped, whether or not the cleaner has come by."""
        return asyncio.run(self._view()).first

    async def _view(self) -> StepsView:
        log, view = (
            KafkaStepsLog(ClusterSettings(bootstrap_servers=self.servers), self.name),
            StepsView(self.name),
        )
        try:
            for logged in await log.read_to_end():
                view = evolve(view, logged)
        finally:
            await log.close()
        return view

    def check(self, nodes: int) -> None:
        """Every word once, and the last step was made by so many nodes."""
        found = Counter(
            (message.value() or b"").decode()
            for message in read_topics(self.servers, [f"{self.name}-shouts"])
        )
        assert found == self.words
        assert self.steps()[-1]["nodes"] == nodes


@pytest.fixture
def relay(settings: ClusterSettings, tmp_path: Path) -> Relay:
    made = Relay(settings, tmp_path)
    for stem in ("words", "shouts"):
        create_topic(settings, f"{made.name}-{stem}", PARTITIONS)
    return made


def test_the_number_of_nodes_changes_between_runs(relay: Relay) -> None:
    relay.produce(400)
    relay.run()
    relay.check(nodes=1)

    relay.produce(400)
    assert relay.first_step() > 1, "old steps were dropped"
    before = relay.steps()
    events = relay.run("--nodes", "2")
    assert {event["node"] for event in events if event["event"] == "node" and event["doing"] == "open"} == {
        0,
        1,
    }
    assert {event["process"] for event in events if event["event"] == "started"} == {
        "coordinator",
        "node-0",
        "node-1",
    }
    assert next(event["step"] for event in events if event["event"] == "step") == before[-1]["step"] + 1
    relay.check(nodes=2)
    _verified(relay)

    relay.produce(200)
    _interrupted(relay)
    relay.run("--nodes", "3")
    relay.check(nodes=3)

    relay.produce(100)
    relay.run()
    relay.check(nodes=1)
    _verified(relay)
    gone = relay.command("verify", str(FILE), "--from", "1")
    assert gone.returncode == 10, gone.stderr
    assert "give --from" in gone.stderr


def _verified(relay: Relay) -> None:
    """All steps that are left, by as many nodes as made each."""
    first = relay.first_step()
    steps = [step for step in relay.steps() if step["step"] >= first]
    result = relay.command("verify", str(FILE), "--master", "local[2]", "--json")
    assert result.returncode == 0, result.stdout + result.stderr
    verdicts = objects(result.stdout)
    assert all(each["agrees"] for each in verdicts)
    expected = [(step["step"], node) for step in steps for node in range(step["nodes"])]
    assert sorted((each["step"], each["node"]) for each in verdicts) == expected


def _interrupted(relay: Relay) -> None:
    """Ctrl-C ends the coordinator and both nodes, with all that they had started."""
    log = relay.directory / "run.log"
    with KcontrolProcess("run", str(FILE), "--nodes", "2", "--json", log=log, env=relay.env) as running:
        running.says('"event": "step"', PATIENCE_S)
        family = running.descendants()
        running.process.send_signal(signal.SIGINT)  # type: ignore[union-attr]
        assert running.wait(PATIENCE_S) == INTERRUPTED
        _, alive = psutil.wait_procs(family, timeout=HANG_S)
        assert alive == []

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
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import psutil
import pytest
from confluent_kafka import Producer

from examples.topic_reading import read_topics
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import StepBoundary
from kcontrol.errors import SpecChangedError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.following import until_step
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

    def laid_out(self, nodes: int) -> dict[str, Any]:
        """What `kcontrol layout` says of a change to so many nodes."""
        result = self.command("layout", self.name, "--nodes", str(nodes), "--json")
        assert result.returncode == 0, result.stdout + result.stderr
        said: dict[str, Any] = objects(result.stdout)[-1]
        return said

    def until_made_by(self, nodes: int, after: int) -> None:
        """Wait for a step that so many nodes made, after that one."""
        settings = ClusterSettings(bootstrap_servers=self.servers)
        what = f"a step after {after} is made by {nodes} nodes"
        made: Callable[[StepBoundary], bool] = lambda step: step.step > after and step.nodes == nodes  # noqa: E731
        until_step(settings, self.name, made, what, PATIENCE_S, lambda: "")

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


def test_it_changes_while_a_pipeline_runs_and_between_runs_by_the_layout_from_then_on(relay: Relay) -> None:
    """From one node to three and to one, and then, stopped, to two, which another number in the file does not change."""
    relay.produce(40)
    node = ("node", str(FILE), "--master", "local[1]", "--no-archive", "--new", "--node")
    with ExitStack() as stack:
        run = ("run", str(FILE), "--node", "0", "--master", "local[1]")
        first = KcontrolProcess(*run, log=relay.directory / "run.log", env=relay.env, cwd=relay.directory)
        stack.enter_context(first)
        relay.until_made_by(1, after=0)
        for number in (1, 2):
            log = relay.directory / f"node-{number}.log"
            stack.enter_context(
                KcontrolProcess(*node, str(number), log=log, env=relay.env, cwd=relay.directory)
            )
        for nodes in (3, 1):
            changed = relay.laid_out(nodes)
            assert changed["live"]
            relay.produce(40)
            relay.until_made_by(nodes, after=changed["after_step"])
        assert relay.command("stop", relay.name).returncode == 0
    assert not relay.laid_out(2)["live"]
    refused = relay.command("run", str(FILE), "--until-caught-up")
    assert refused.returncode == SpecChangedError.exit_code, refused.stdout + refused.stderr
    assert f"kcontrol layout {relay.name} --nodes 1" in refused.stderr
    relay.produce(40)
    relay.run("--nodes", "2")
    relay.check(nodes=2)
    _verified(relay)


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

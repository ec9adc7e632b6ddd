"""Agents give a pipeline with state another number of nodes while it makes steps: the processes that stay are not started
again, and nothing of its state is lost or there twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.test_exchange_nodes import PATIENCE_S
from tests.integration.test_live_layout import under_load, until_made_by
from tests.support.exchanged import FILE, Exchanged
from tests.support.processes import KcontrolProcess, objects, run_kcontrol, until

AGENTS = ("x", "y")


class Resized:
    """A pipeline with state, and agents that run its file."""

    def __init__(self, settings: ClusterSettings, folder: Path) -> None:
        self.folder = folder
        self.pipeline = Exchanged(settings, ("spent", "seen"), 1)
        self.env = {
            **self.pipeline.env,
            "EXCHANGED_CHECKPOINTS": str(folder / "checkpoints"),
            "XDG_DATA_HOME": str(folder / "home"),
        }

    def agent(self, name: str) -> KcontrolProcess:
        arguments = ("agent", "--name", name, "--files", str(FILE.parent), "--slots", "2", "--work-dir", name)
        return KcontrolProcess(*arguments, log=self.folder / f"{name}.log", cwd=self.folder, env=self.env)

    def ask(self, *arguments: str) -> list[dict[str, Any]]:
        done = run_kcontrol(*arguments, "--json", cwd=self.folder, env=self.env, timeout_s=PATIENCE_S)
        assert done.returncode == 0, done.stderr
        return objects(done.stdout)

    def job(self) -> dict[str, Any]:
        [job] = self.ask("cluster", "jobs")
        return job

    def pids(self) -> dict[str, int]:
        """Of the processes of nodes, by unit."""
        found = {}
        for file in self.folder.glob("*/units/*/process.json"):
            facts = json.loads(file.read_text())
            if facts["job"] and psutil.pid_exists(facts["pid"]):
                found[f"{facts['task']}/{facts['index']}"] = facts["pid"]
        return found

    def started(self) -> int:
        """So often a node was started by an agent."""
        said = [(self.folder / f"{name}.log").read_text() for name in AGENTS]
        return sum(text.count(f"runs {self.pipeline.name}/nodes") for text in said)

    def logs(self) -> str:
        files = sorted((*self.folder.glob("*.log"), *self.folder.glob("*/units/*/log")))
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')[-2000:]}" for file in files)


@pytest.fixture
def resized(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resized]:
    """In a Kafka of its own: agents and their processes have the prefix that everybody has."""
    with EmbeddedBroker(tmp_path_factory.mktemp("kafka")) as broker:
        yield Resized(ClusterSettings(bootstrap_servers=broker.bootstrap_servers), tmp_path)
        for process in psutil.process_iter():
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if Path(process.cwd()).is_relative_to(tmp_path):
                    process.kill()


@pytest.mark.heavy
@pytest.mark.timeout(1_800)
def test_agents_give_a_pipeline_another_number_of_nodes_while_it_makes_steps(resized: Resized) -> None:
    pipeline = resized.pipeline
    with ExitStack() as stack:
        for name in AGENTS:
            stack.enter_context(resized.agent(name))
        until(
            lambda: {one["stage"] for one in resized.ask("cluster", "agents")} == {"member"},
            *("both have joined", 120, resized.logs),
        )
        resized.ask("place", FILE.name, "--job", pipeline.name, "--nodes", "1")
        pipeline.produce(6)
        until_made_by(pipeline, 1)
        first = resized.pids()["nodes/0"]
        load = stack.enter_context(ExitStack())
        load.enter_context(under_load(pipeline))

        [said] = [one for one in resized.ask("layout", pipeline.name, "--nodes", "2") if "nodes" in one]
        assert (said["changed"], said["live"], said["nodes"]) == (True, True, 2)
        until_made_by(pipeline, 2)
        until(lambda: resized.job()["resizes"] == "", "it has as many as it is to have", 60, resized.logs)
        assert {unit for unit, agent in resized.job()["places"].items() if agent} == {"nodes/0", "nodes/1"}

        [placed] = resized.ask("place", FILE.name, "--job", pipeline.name, "--nodes", "1")
        assert f"job {pipeline.name}: 2 -> 1 nodes" in placed["changes"][0]
        until(
            lambda: resized.job()["places"].keys() == {"nodes/0"},
            "node 1 is left out",
            PATIENCE_S,
            resized.logs,
        )
        until(lambda: resized.pids() == {"nodes/0": first}, "it ends, and no other", 120, resized.logs)
        assert resized.started() == 2, resized.logs()
        load.close()
        pipeline.until_done("all is committed", PATIENCE_S)
    steps = pipeline.check()
    assert steps[0]["nodes"] == 1
    assert {step["nodes"] for step in steps} == {1, 2}

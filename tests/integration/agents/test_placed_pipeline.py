"""The whole of it: two agents run a pipeline that was placed, and go on with it when the host of its node dies; and one
that was submitted with its code, signed, with a library that the host has to install, and whose input ends, is run once."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import uuid4
from zipfile import ZipFile

import psutil
import pytest
from confluent_kafka import Producer

from kcontrol.settings.cluster import ClusterSettings
from tests.support.processes import ROOT, KcontrolProcess, objects, run_kcontrol, until
from tests.support.signing_keys import make_key
from tests.support.topics import create_topic
from tests.support.wheels import library

PIPELINE = """
import kcontrol

pipeline = kcontrol.Pipeline(
    "{name}",
    inputs=[kcontrol.KafkaInput("numbers", topic="{name}-in")],
    outputs=[kcontrol.KafkaOutput("copies", topic="{name}-out")],
)


@pipeline.query
def copies(numbers):
    return {{"copies": numbers.select("value")}}
"""
BOUNDED = """
import rules
import tides
from pyspark.sql import functions as F

import kcontrol

pipeline = kcontrol.Pipeline(
    "{name}",
    inputs=[kcontrol.GeneratorInput("numbers", rows=500)],
    outputs=[kcontrol.KafkaOutput("copies", topic="{name}-out")],
)


@pipeline.query
def copies(numbers):
    # Runs in Spark's workers, which have to find the module, too.
    shown = F.udf(lambda number: rules.shown(number + tides.HIGH), "binary")
    return {{"copies": numbers.select(shown("value").alias("value"))}}
"""
RULES = """
def shown(number):
    return str(number).encode()
"""
STEP_S = 240.0
AGENTS = ("x", "y")


class PlacedPipeline:
    """A folder with a kcontrol.toml, the pipeline's file, and agents that are started in it."""

    def __init__(self, settings: ClusterSettings, folder: Path, source: str) -> None:
        self.name = f"placed-{uuid4().hex[:6]}"
        self.folder = folder
        self.settings = settings
        (folder / "kcontrol.toml").write_text(
            f'[kafka]\nbootstrap_servers = "{settings.bootstrap_servers}"\nprefix = "{self.name}"\n'
        )
        (folder / "files").mkdir()
        (folder / "files" / "copies.py").write_text(source.format(name=self.name))
        (folder / "files" / "rules.py").write_text(RULES)
        for stem in ("in", "out"):
            create_topic(settings, f"{self.name}-{stem}")

    def agent(self, name: str, *runs: str, env: Mapping[str, str] | None = None) -> KcontrolProcess:
        arguments = ("agent", "--name", name, *(runs or ("--files", "files")), "--work-dir", name)
        return KcontrolProcess(*arguments, log=self.folder / f"{name}.log", cwd=self.folder, env=env)

    def ask(self, *arguments: str, env: Mapping[str, str] | None = None) -> list[dict[str, object]]:
        result = run_kcontrol(*arguments, "--json", cwd=self.folder, env=env)
        assert result.returncode == 0, result.stderr
        return objects(result.stdout)

    def members(self) -> set[object]:
        agents = self.ask("cluster", "agents")
        return {one["agent"] for one in agents if one["stage"] == "member"}

    def host(self) -> object:
        """Who runs the node."""
        [job] = self.ask("cluster", "jobs")
        places = job["places"]
        assert isinstance(places, dict)
        return places.get("nodes/0")

    def why(self) -> str:
        """The job waits."""
        [job] = self.ask("cluster", "jobs")
        return str(job["waits"])

    def state(self) -> object:
        """Of the job."""
        [job] = self.ask("cluster", "jobs")
        return job["state"]

    def produce(self) -> None:
        producer = Producer({"bootstrap.servers": self.settings.bootstrap_servers})
        producer.produce(f"{self.name}-in", b"1")
        assert producer.flush(30) == 0

    def steps(self) -> int:
        result = run_kcontrol("steps", self.name, "--json", cwd=self.folder)
        return len(objects(result.stdout)) if result.returncode == 0 else 0

    def processes(self, name: str) -> list[psutil.Process]:
        """What an agent runs, with all that belongs to it."""
        found = []
        for file in (self.folder / name / "units").glob("*/process.json"):
            with suppress(psutil.NoSuchProcess):
                keeper = psutil.Process(json.loads(file.read_text())["pid"])
                found += [keeper, *keeper.children(recursive=True)]
        return found

    def logs(self) -> str:
        files = sorted((*self.folder.glob("*.log"), *self.folder.glob("*/units/*/log")))
        return "\n".join(f"--- {file}\n{file.read_text(errors='replace')[-2000:]}" for file in files)

    def kill_host(self, name: str, agent: KcontrolProcess) -> None:
        agent.kill()
        for process in self.processes(name):
            with suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)


def _is_node(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):  # A zombie is one, too.
        return "node" in process.cmdline()
    return False


@pytest.fixture
def placed(
    settings: ClusterSettings, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[PlacedPipeline]:
    found = PlacedPipeline(settings, tmp_path, getattr(request, "param", PIPELINE))
    yield found
    # What it all has started works in its folder, or below.
    for process in psutil.process_iter():
        with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if Path(process.cwd()).is_relative_to(tmp_path):
                process.kill()


@pytest.mark.heavy
@pytest.mark.timeout(900)
def test_a_placed_pipeline_goes_on_when_its_host_dies(placed: PlacedPipeline) -> None:
    with ExitStack() as stack:
        agents = {name: stack.enter_context(placed.agent(name)) for name in AGENTS}
        until(lambda: placed.members() == set(AGENTS), "both have joined", 90, placed.logs)
        placed.ask("place", "copies.py", "--job", placed.name)
        placed.produce()
        until(lambda: placed.steps() == 1, "a step is committed", STEP_S, placed.logs)

        gone = placed.host()
        assert isinstance(gone, str)
        placed.kill_host(gone, agents[gone])
        until(lambda: placed.host() not in (gone, None), "its node is placed elsewhere", 90, placed.logs)
        placed.produce()
        until(lambda: placed.steps() == 2, "the next step is committed", STEP_S, placed.logs)

        [killed] = placed.ask("kill", placed.name)
        assert f"job {placed.name}: active -> killed" in killed["changes"]  # type: ignore[operator]
        [left] = set(AGENTS) - {gone}
        until(
            lambda: not any(_is_node(one) for one in placed.processes(left)),
            "its node has ended",
            90,
            placed.logs,
        )


@pytest.mark.heavy
@pytest.mark.timeout(900)
@pytest.mark.parametrize("placed", [BOUNDED], indirect=True)
def test_a_pipeline_whose_input_ends_is_completed_and_not_started_again(placed: PlacedPipeline) -> None:
    def has_ended() -> bool:
        return not any(_is_node(one) for one in placed.processes("x"))

    # It is installed where the pipeline is submitted from, and nowhere else.
    here, shelf = placed.folder / "here", placed.folder / "shelf"
    shelf.mkdir()
    with ZipFile(library(shelf, "tides", "1.0", "HIGH = 12\n")) as wheel:
        wheel.extractall(here)
    installed = {"PYTHONPATH": f"{ROOT}:{here}"}
    (placed.folder / "files" / "needs.txt").write_text("tides==1.0\n")
    make_key(placed.folder / "key")
    (placed.folder / "trusted").write_text(f"{make_key(placed.folder / 'another')}\n")
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(shelf)}

    place = (
        "place",
        "files/copies.py",
        "--package",
        "--requirements",
        "files/needs.txt",
        "--job",
        placed.name,
    )
    with placed.agent("x", "--packages", "--trusted-keys", "trusted", env=pip):
        until(lambda: placed.members() == {"x"}, "it has joined", 90, placed.logs)
        placed.ask(*place, env=installed)
        until(lambda: "not signed by a key in" in placed.why(), "it is not run unsigned", 60, placed.logs)
        assert not (placed.folder / "x" / "environments").exists(), "nor is anything installed for it"
        placed.ask("kill", placed.name)

        place = (*place, "--sign", "another")
        placed.ask(*place, env=installed)
        (placed.folder / "files" / "rules.py").unlink()
        until(lambda: placed.state() == "completed", "all of it is done", STEP_S, placed.logs)
        steps = placed.steps()
        assert steps > 0
        until(has_ended, "its node has ended", 90, placed.logs)
        said = (placed.folder / "x.log").read_text()
        assert said.count("runs ") == 1, said

        (placed.folder / "files" / "rules.py").write_text(RULES)
        placed.ask(*place, env=installed)
        until(
            lambda: placed.state() == "completed", "and so it is when it is placed again", STEP_S, placed.logs
        )
        until(has_ended, "its node has ended", 90, placed.logs)
        assert placed.steps() == steps

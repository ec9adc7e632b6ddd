"""A bad deployment of two nodes that send each other rows is taken back, and they go on as if it had never been."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.test_exchange_nodes import PATIENCE_S
from tests.support.exchanged import FILE, Exchanged
from tests.support.processes import KcontrolProcess, run_kcontrol

pytestmark = pytest.mark.timeout(3_600)

EACH = 150
"""At most 60 of them are in one step."""
WRONGED = "u3"
NEVER = {"EXCHANGED_CHECKPOINTS": "none"}


class Deployed:
    """Two nodes that are run and stopped with one code after the other. saves: what is said of checkpoints."""

    def __init__(
        self, settings: ClusterSettings, directory: Path, queries: tuple[str, ...], saves: dict[str, str]
    ) -> None:
        self.pipeline, self.directory, self.saves = Exchanged(settings, queries, keep=10), directory, saves
        self.runs = 0

    def command(self, *arguments: str, **others: str) -> CompletedProcess[str]:
        return run_kcontrol(*arguments, env=self._env(**others), cwd=self.directory, timeout_s=PATIENCE_S)

    def _env(self, **others: str) -> dict[str, str]:
        home = {"XDG_DATA_HOME": str(self.directory / "home")}
        return {**self.pipeline.env, **home, **self.saves, **others}

    def run(self, lie: str = "", then: Callable[[], None] = lambda: None) -> int:
        """Some records more, until all that there are is committed; its last step. then: before it is stopped."""
        self.pipeline.produce(EACH)
        self.runs += 1
        env, log = self._env(EXCHANGED_LIE=lie), self.directory / f"run-{self.runs}.log"
        command = ("run", str(FILE), "--master", "local[1]")
        with KcontrolProcess(*command, env=env, cwd=self.directory, log=log):
            self.pipeline.until_done("all is committed", PATIENCE_S)
            then()
            self.pipeline.until_done("all is committed", PATIENCE_S)
            stopped = self.command("stop", self.pipeline.name, "--json")
            assert stopped.returncode == 0, stopped.stderr
        return len(self.pipeline.steps())

    def went_back(self, to_step: int, *options: str) -> dict[str, Any]:
        done = self.command("reset", self.pipeline.name, "--to-step", str(to_step), "--json", *options)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def lose_disk(self, node: int) -> None:
        nodes = self.directory / "home" / "kcontrol" / "nodes"
        (there,) = nodes.glob(f"*/{self.pipeline.name}/node-{node}/inc-*")
        shutil.rmtree(there)


def test_two_nodes_go_back_behind_bad_steps_one_by_its_disk_and_one_by_what_had_crossed(
    settings: ClusterSettings, tmp_path: Path
) -> None:
    """The code is wrong for one user, who comes later. One step more than the bad ones is taken back. The node that has lost
    its disk runs those before it again, alone, from what lies in the exchanges before what void steps have sent."""
    deployed = Deployed(settings, tmp_path, ("spent", "windows"), NEVER)
    pipeline = deployed.pipeline
    everybody, good = pipeline.users, 0
    pipeline.users = [user for user in everybody if user != WRONGED]

    def the_other_one_comes() -> None:
        nonlocal good
        good = len(pipeline.steps())
        pipeline.users = everybody
        pipeline.produce(EACH)

    bad = deployed.run(WRONGED, then=the_other_one_comes)
    assert bad > good > 2
    said = deployed.went_back(good - 1, "--why", "wrong amounts, and times that are far ahead")
    assert (said["reset"], said["void_from"], said["void_to"]) == (True, good, bad)
    assert (said["rerun_after"], said["rerun_steps"]) == (0, good - 1)
    deployed.lose_disk(1)
    last = deployed.run()
    left = [step["step"] for step in pipeline.check()]
    assert left == [*range(1, good), *range(bad + 2, last + 1)]

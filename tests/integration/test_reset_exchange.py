"""Two nodes send each other rows; one dies in the middle of it, and comes back alone. Then what a bad deployment of them has
done is taken back, and they go on as if it had never been.

One story, because each start of Spark takes seconds: what is checked in the end is of all of it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from kcontrol.settings.cluster import ClusterSettings
from tests.integration.test_exchange_crash_points import TELLING_POINT, Nodes
from tests.integration.test_exchange_nodes import PATIENCE_S, check_again
from tests.support.exchanged import FILE, Exchanged
from tests.support.processes import KcontrolProcess, run_kcontrol

pytestmark = pytest.mark.timeout(3_600)

QUERIES = ("spent", "logged", "combined", "windows")
EACH = 150
"""At most 60 of them are in one step."""
WRONGED = "u3"
NEVER = {"EXCHANGED_CHECKPOINTS": "none"}


class Deployed:
    """Two nodes that are run with one code after the other, and save nothing."""

    def __init__(self, settings: ClusterSettings, directory: Path, stack: ExitStack) -> None:
        self.pipeline = Exchanged(settings, QUERIES, keep=10)
        self.nodes = Nodes(self.pipeline, directory, stack, {**NEVER, "EXCHANGED_LIE": WRONGED})
        self.directory = directory

    def command(self, *arguments: str) -> CompletedProcess[str]:
        return run_kcontrol(*arguments, env=self._env, cwd=self.directory, timeout_s=PATIENCE_S)

    @property
    def _env(self) -> dict[str, str]:
        return {**self.pipeline.env, **NEVER, "XDG_DATA_HOME": str(self.directory / "xdg")}

    def stop(self) -> int:
        """The last step."""
        stopped = self.command("stop", self.pipeline.name, "--json")
        assert stopped.returncode == 0, stopped.stderr
        return len(self.pipeline.steps())

    def run_well(self) -> int:
        """With the right code, some records more, until all that there are is committed; the last step."""
        self.pipeline.produce(EACH)
        command = ("run", str(FILE), "--data-dir", "data", "--master", "local[1]")
        log = self.directory / "run.log"
        with KcontrolProcess(*command, env=self._env, cwd=self.directory, log=log):
            self.pipeline.until_done("all is committed", PATIENCE_S)
            return self.stop()

    def went_back(self, to_step: int, *options: str) -> dict[str, Any]:
        done = self.command("reset", self.pipeline.name, "--to-step", str(to_step), "--json", *options)
        assert done.returncode == 0, done.stderr
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def lose_disk(self, node: int) -> None:
        (there,) = self.nodes.work.glob(f"*/{self.pipeline.name}/node-{node}/inc-*")
        shutil.rmtree(there)


@pytest.fixture
def deployed(settings: ClusterSettings, tmp_path: Path) -> Iterator[Deployed]:
    with ExitStack() as stack:
        yield Deployed(settings, tmp_path, stack)


def test_a_node_dies_and_two_nodes_go_back_behind_bad_steps_one_by_its_disk_and_one_by_what_had_crossed(
    deployed: Deployed,
) -> None:
    """The code is wrong for one user, who comes later. One step more than the bad ones is taken back. The node that has lost
    its disk runs those before it again, alone, from what lies in the exchanges before what void steps have sent."""
    pipeline, nodes = deployed.pipeline, deployed.nodes
    everybody = pipeline.users
    pipeline.users = [user for user in everybody if user != WRONGED]
    nodes.coordinator()
    nodes.node(1)
    nodes.node_dies_at([TELLING_POINT])
    good = len(pipeline.steps())

    pipeline.users = everybody
    pipeline.produce(EACH)
    nodes.until_done("what is wrong is committed")
    bad = deployed.stop()
    nodes.stack.close()
    assert bad > good > 2
    said = deployed.went_back(good - 1, "--why", "wrong amounts, and times that are far ahead")
    assert (said["reset"], said["void_from"], said["void_to"]) == (True, good, bad)
    assert (said["rerun_after"], said["rerun_steps"]) == (0, good - 1)
    deployed.lose_disk(1)
    last = deployed.run_well()
    left = [step["step"] for step in pipeline.check()]
    assert left == [*range(1, good), *range(bad + 2, last + 1)]
    check_again(pipeline, deployed.directory)

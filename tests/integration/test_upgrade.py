"""The processes of a pipeline that runs are replaced by those of another version of kcontrol, node by node, while it makes
steps: what consumers read is what one version alone would have written, and no more state is copied than was promised."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.errors import LeftOutError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.holder import holder
from tests.integration.test_exchange_nodes import PATIENCE_S
from tests.integration.test_layout_nodes import Changed
from tests.integration.test_live_layout import under_load, until_made_by
from tests.support.exchanged import FILE
from tests.support.next_version import NUMBER, install
from tests.support.processes import KcontrolProcess, run_kcontrol, until

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.heavy]

_EACH = 6
_OPTIONS = "--no-archive --master local[1]"


class Upgraded(Changed):
    """A pipeline of two nodes, each a process of this version in a directory of its own, and the next version beside it."""

    def __init__(self, settings: ClusterSettings, directory: Path) -> None:
        super().__init__(settings, directory, ("spent",), nodes=2)
        self.next = {**self.env, **install(directory / "next")}

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "EXCHANGED_CHECKPOINTS": str(self.directory / "checkpoints")}

    def work_dir(self, node: int) -> Path:
        return self.directory / f"host-{node}"

    def old_node(self, node: int) -> KcontrolProcess:
        arguments = ("node", str(FILE), "--node", str(node), "--work-dir", str(self.work_dir(node)))
        return KcontrolProcess(
            *(*arguments, *_OPTIONS.split()),
            env=self.env,
            cwd=self.directory,
            log=self.directory / f"old-{node}.log",
        )

    def start(self, work_dir: str) -> str:
        """The command of new processes."""
        return f"{sys.executable} -m kcontrol.cli node {FILE} --work-dir {work_dir} {_OPTIONS}"

    def upgrade(self, *arguments: str) -> dict[str, Any]:
        """What the command of the next version says that it has done."""
        done = run_kcontrol(
            *("upgrade", self.pipeline.name, *arguments, "--json"),
            env=self.next,
            cwd=self.directory,
            timeout_s=PATIENCE_S,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        print(done.stderr)  # noqa: T201 - shown by pytest when a test fails
        said: dict[str, Any] = json.loads(done.stdout)
        return said

    def upgrade_until_killed(self, *arguments: str, nodes: int) -> None:
        """SIGKILL of the command once so many nodes have made a step."""
        log = self.directory / "killed-upgrade.log"
        command = ("upgrade", self.pipeline.name, *arguments)
        with KcontrolProcess(*command, env=self.next, cwd=self.directory, log=log) as process:
            until_made_by(self.pipeline, nodes)
            assert process.process is not None
            process.process.kill()  # It alone, and not what it has started.
            process.wait(PATIENCE_S)

    def check_started(self) -> None:
        """Those that the command has started were warm before they were nodes, and found nothing wrong with their file."""
        logs = [path.read_text() for path in self.directory.glob("home/kcontrol/logs/*/upgrade/node-*.log")]
        assert logs
        assert all("is not warm" not in text for text in logs), "\n".join(logs)
        assert all("its file says" not in text for text in logs), "\n".join(logs)

    def end_started(self) -> None:
        """They are on their own."""
        found = [each for each in psutil.process_iter(["cmdline"]) if self._is_started(each)]
        for each in found:
            each.terminate()
        psutil.wait_procs(found, timeout=60)

    def _is_started(self, process: psutil.Process) -> bool:
        command = process.info["cmdline"] or []
        return "kcontrol.cli" in command and any(str(self.directory) in word for word in command)


@contextmanager
def _at_work(upgraded: Upgraded, directory: Path) -> Iterator[list[KcontrolProcess]]:
    """The two old nodes, while steps are made under load."""
    with ExitStack() as stack:
        log = directory / "coordinator.log"
        stack.enter_context(KcontrolProcess("coordinator", env=upgraded.env, cwd=directory, log=log))
        old = [stack.enter_context(upgraded.old_node(node)) for node in range(2)]
        stack.callback(upgraded.end_started)
        upgraded.pipeline.produce(_EACH)
        until_made_by(upgraded.pipeline, 2)
        stack.enter_context(under_load(upgraded.pipeline))
        yield old


@pytest.mark.parametrize("together", [(), ("--together",)], ids=["one-by-one", "together"])
@pytest.mark.parametrize("way", ["in-place", "replace"])
def test_both_nodes_are_upgraded_to_another_version_while_steps_are_made(
    settings: ClusterSettings, tmp_path: Path, way: str, together: tuple[str, ...]
) -> None:
    upgraded = Upgraded(settings, tmp_path)
    pipeline = upgraded.pipeline
    where = tmp_path / ("host-{node}" if way == "in-place" else "new-host-{node}")
    with _at_work(upgraded, tmp_path) as old:
        said = upgraded.upgrade("--way", way, *together, "--start", upgraded.start(str(where)))
        assert [(each["node"], each["host"], each["kcontrol"]) for each in said["nodes"]] == [
            (node, socket.gethostname(), NUMBER) for node in range(2)
        ]
        assert all(each["state_bytes"] > 0 for each in said["nodes"])
        assert len({each["after_step"] for each in said["nodes"]}) == (1 if together else 2)
        moved = [each["moved_bytes"] for each in said["nodes"]]
        # All shards are of equal right: a node's is its n-th part of the state, and of that nothing or all is copied.
        assert moved == ([0, 0] if way == "in-place" else [each["state_bytes"] for each in said["nodes"]])
        _until_left_out(old)
        upgraded.check_started()
    upgraded.pipeline.nodes = 2
    _finished(upgraded)
    pipeline.check()


@pytest.mark.parametrize(
    ("way", "meanwhile", "made"),
    [
        # Each new process is on the host that is to spare, or that was freed by the one before.
        ("out-in", 3, [(0, "removed"), (2, "added"), (1, "removed")]),
        ("in-out", 1, [(1, "added")]),
    ],
)
def test_nodes_are_added_and_removed_until_all_are_of_the_new_version_by_a_command_that_is_killed_and_given_again(
    settings: ClusterSettings, tmp_path: Path, way: str, meanwhile: int, made: list[tuple[int, str]]
) -> None:
    upgraded = Upgraded(settings, tmp_path)
    pipeline = upgraded.pipeline
    how = ("--way", way, "--start", upgraded.start(str(tmp_path / "new-hosts")))
    with _at_work(upgraded, tmp_path) as old:
        upgraded.upgrade_until_killed(*how, nodes=meanwhile)
        said = upgraded.upgrade(*how)
        assert [(each["node"], each["change"]) for each in said["nodes"]] == made
        assert {each["kcontrol"] for each in said["nodes"]} == {NUMBER}
        _until_left_out(old)
        assert _versions(upgraded) == [NUMBER, NUMBER]
        upgraded.check_started()
    upgraded.pipeline.nodes = 2
    _finished(upgraded)
    assert {step["nodes"] for step in pipeline.check()} == {2, meanwhile}


def _until_left_out(old: list[KcontrolProcess]) -> None:
    for process in old:
        until(lambda process=process: process.process.poll() is not None, "it ends", PATIENCE_S, process.text)
        assert process.process is not None
        assert process.process.returncode == LeftOutError.exit_code


def _versions(upgraded: Upgraded) -> list[str]:
    """By node, of the process that it is."""

    async def read() -> list[str]:
        async with pipeline_logs(upgraded.pipeline.settings, upgraded.pipeline.name) as logs:
            await logs.read()
            joins = [holder(logs, node) for node in range(logs.spec().nodes)]
            return [join.environment.kcontrol for join in joins if join is not None and join.environment]

    return asyncio.run(read())


def _finished(upgraded: Upgraded) -> None:
    """What is left to be read is read, by processes of this version again: the way back."""
    with ExitStack() as stack:
        log = upgraded.directory / "coordinator.log"
        stack.enter_context(KcontrolProcess("coordinator", env=upgraded.env, cwd=upgraded.directory, log=log))
        for node in range(2):
            stack.enter_context(upgraded.old_node(node))
        upgraded.pipeline.until_done("all is committed", PATIENCE_S)
        assert not upgraded.command("stop", upgraded.pipeline.name).returncode

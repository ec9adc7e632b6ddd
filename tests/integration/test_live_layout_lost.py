"""The host of a node is lost while steps are made: one command, which is killed and given again, leaves that node out, and what
consumers read is what would have been written anyway."""

from __future__ import annotations

import asyncio
import json
import shutil
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.model import NodeJoin
from kcontrol.errors import LeftOutError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.holder import holder
from tests.integration.test_exchange_nodes import PATIENCE_S
from tests.integration.test_layout_nodes import Changed
from tests.integration.test_live_layout import under_load, until_made_by
from tests.support.exchanged import FILE
from tests.support.processes import KcontrolProcess, until

pytestmark = [pytest.mark.timeout(3_600), pytest.mark.heavy]

_EACH = 6


class _Hosts(Changed):
    """Each node works in a directory of its own, and all save where everybody can read it."""

    def __init__(self, settings: ClusterSettings, directory: Path, nodes: int) -> None:
        super().__init__(settings, directory, ("spent",), nodes)

    @property
    def env(self) -> dict[str, str]:
        return {**super().env, "EXCHANGED_CHECKPOINTS": str(self.directory / "checkpoints")}

    def work_dir(self, name: object) -> Path:
        return self.directory / f"host-{name}"

    def node(self, node: int) -> KcontrolProcess:
        options = (
            "--node",
            str(node),
            "--work-dir",
            str(self.work_dir(node)),
            "--no-archive",
            "--master",
            "local[1]",
        )
        log = self.directory / f"node-{node}.log"
        return KcontrolProcess("node", str(FILE), *options, env=self.env, cwd=self.directory, log=log)

    def without(self, node: int) -> tuple[str, ...]:
        """On a host where no node was, of which only the file is known."""
        return ("--without", str(node), "--work-dir", str(self.work_dir("left")), "--master", "local[1]")

    def until_killed(self, node: int) -> None:
        """SIGKILL of the command once it has started something."""
        log = self.directory / "killed.log"
        command = ("layout", self.pipeline.name, *self.without(node))
        with KcontrolProcess(*command, env=self.env, cwd=self.directory, log=log) as process:
            process.says("says nothing: started", PATIENCE_S)
            assert process.process is not None
            process.process.kill()  # It alone, and not what it has started.
            process.wait(PATIENCE_S)

    def who_is(self, node: int) -> NodeJoin:
        async def read() -> NodeJoin | None:
            async with pipeline_logs(self.pipeline.settings, self.pipeline.name) as logs:
                await logs.read()
                return holder(logs, node)

        found = asyncio.run(read())
        assert found is not None
        return found

    def changes(self) -> int:
        """How often the layout was changed."""

        async def read() -> int:
            async with pipeline_logs(self.pipeline.settings, self.pipeline.name) as logs:
                await logs.read()
                return logs.spec().assignment

        return asyncio.run(read())

    def started(self) -> list[psutil.Process]:
        """Those that the command has started are on their own."""
        found = psutil.process_iter(["cmdline"])
        where = str(self.work_dir("left"))
        return [each for each in found if {"node", where} <= {*(each.info["cmdline"] or [])}]

    def end_started(self) -> None:
        found = self.started()
        for each in found:
            each.terminate()
        psutil.wait_procs(found, timeout=60)


@pytest.mark.parametrize(("count", "lost"), [(2, 0), (3, 2)])
def test_a_node_whose_host_is_lost_is_left_out_by_one_command(
    settings: ClusterSettings, tmp_path: Path, count: int, lost: int
) -> None:
    hosts = _Hosts(settings, tmp_path, count)
    pipeline = hosts.pipeline
    with ExitStack() as stack:
        log = tmp_path / "coordinator.log"
        stack.enter_context(KcontrolProcess("coordinator", env=hosts.env, cwd=tmp_path, log=log))
        nodes = [stack.enter_context(hosts.node(node)) for node in range(count)]
        stack.callback(hosts.end_started)
        pipeline.produce(_EACH)
        until_made_by(pipeline, count)
        assert not hosts.command("checkpoint", pipeline.name).returncode
        saved = pipeline.steps()[-1]["step"]
        load = stack.enter_context(ExitStack())
        load.enter_context(under_load(pipeline))
        until(
            lambda: pipeline.steps()[-1]["step"] > saved + 1,
            "steps are made that nobody has saved",
            PATIENCE_S,
        )
        nodes[lost].kill()
        shutil.rmtree(hosts.work_dir(lost))

        hosts.until_killed(lost)
        said = hosts.layout(*hosts.without(lost))
        print(json.dumps(said))  # noqa: T201 - shown by pytest when a test fails
        assert (said["nodes"], said["changed"] or said) == (count - 1, True)
        until_made_by(pipeline, count - 1)
        assert hosts.changes() == 1
        again = hosts.layout(*hosts.without(lost))
        assert (again["changed"], "was left out after step" in again["text"]) == (False, True)
        _check_who_is_left(hosts, nodes, lost)
        load.close()
        pipeline.until_done("all is committed", PATIENCE_S)
        pipeline.nodes = count - 1
        steps = pipeline.check()
        assert sorted({step["nodes"] for step in steps}) == [count - 1, count]


def _check_who_is_left(hosts: _Hosts, nodes: list[KcontrolProcess], lost: int) -> None:
    """The process of the last node ends, and what was started for its time; another number goes on as what was started."""
    last = nodes[-1]
    if last is nodes[lost]:
        until(lambda: not hosts.started(), "what was started has ended", PATIENCE_S)
        return
    process = last.process
    assert process is not None
    until(lambda: process.poll() is not None, "the last node ends", PATIENCE_S, last.text)
    assert process.returncode == LeftOutError.exit_code
    assert hosts.who_is(lost).process_id in {each.pid for each in hosts.started()}

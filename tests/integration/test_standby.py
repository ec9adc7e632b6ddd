"""`kcontrol run --standby`: whoever stands by has the node's number seconds after its process died, or fell
silent, and whoever had it stands by in its turn."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import pytest

from kcontrol.apps.after_you import until_it_goes_on
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.story import PATIENCE_S, Story
from tests.support.orders import PIPELINE_FILE
from tests.support.processes import KcontrolProcess, until

pytestmark = pytest.mark.timeout(900)


class Pair:
    """Both processes of node 0, as their logs and the status have them."""

    def __init__(self, story: Story) -> None:
        self._story = story
        self._logs = story.directory / "home" / "kcontrol" / "logs" / story.orders.name

    def text(self, name: str) -> str:
        log = self._logs / f"{name}.log"
        return log.read_text(errors="replace") if log.exists() else ""

    def says(self, name: str, text: str, times: int = 1) -> None:
        until(
            lambda: self.text(name).count(text) >= times,
            f"{name} says {text!r} ({times} times)",
            PATIENCE_S,
            lambda: self.text(name)[-4000:],
        )

    def holder(self) -> int:
        found = self._story.status()["nodes"][0]["process_id"]
        assert isinstance(found, int)
        return found


async def _waits_for_a_step(settings: ClusterSettings, story: Story) -> None:
    """Whoever is to stand by begins when the pipeline goes on, and not before."""
    begins = asyncio.create_task(until_it_goes_on(settings, story.orders.name, 10 * PATIENCE_S))
    await asyncio.to_thread(story.status)
    assert not begins.done()
    await asyncio.to_thread(story.orders.produce, 100)
    await asyncio.wait_for(begins, PATIENCE_S)
    nobody = story.orders.name + "-unknown"
    await asyncio.wait_for(until_it_goes_on(settings, nobody, 10 * PATIENCE_S), PATIENCE_S)


def test_who_stands_by_takes_over_and_back(settings: ClusterSettings, tmp_path: Path) -> None:
    story = Story(settings, tmp_path, "standby")
    orders, pair = story.orders, Pair(story)
    orders.produce(100)
    arguments = ("run", str(PIPELINE_FILE), "--standby", "--master", "local[2]")
    with KcontrolProcess(*arguments, log=tmp_path / "run.log", env=story.env, cwd=tmp_path) as run:
        orders.until_done("the first of the two makes steps", PATIENCE_S)
        first = pair.holder()
        pair.says("node-0-standby", "warm: step ")
        pair.says("node-0-standby", f"stands by for process {first} on ")
        assert "agrees" in pair.text("node-0-standby")

        os.kill(first, signal.SIGKILL)
        orders.produce(100)
        orders.until_done("the other goes on", PATIENCE_S)
        second = pair.holder()
        assert f"takes over: process {first} on " in pair.text("node-0-standby")
        assert "which was node 0, has ended" in pair.text("node-0-standby")
        pair.says("node-0", f"stands by for process {second} on ")

        asyncio.run(_waits_for_a_step(settings, story))
        orders.until_done("a step more", PATIENCE_S)

        os.kill(second, signal.SIGSTOP)
        orders.produce(100)
        orders.until_done("one that is silent is taken over from, too", PATIENCE_S)
        assert "which was node 0, has been silent for" in pair.text("node-0")
        third = pair.holder()
        os.kill(second, signal.SIGCONT)
        pair.says("node-0-standby", f"stands by for process {third} on ")
        orders.produce(100)
        orders.until_done("the one that woke up late disturbs nothing", PATIENCE_S)
        assert pair.holder() == third

        stopped = story.command("stop", orders.name, "--timeout", "200")
        assert stopped.returncode == 0, stopped.stderr
        for name in ("node-0", "node-0-standby"):
            pair.says(name, "stands by: the pipeline is stopped")
        assert run.terminate() == 130
    orders.check()

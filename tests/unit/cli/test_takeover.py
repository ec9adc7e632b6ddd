"""Who stands by for a node takes its number when it dies, whatever it does meanwhile."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.apps import takeover
from kcontrol.apps.agent.numbers import GivenNumber
from kcontrol.apps.pipeline_logs import PipelineLogs
from kcontrol.apps.presence import Presence
from kcontrol.apps.takeover import Standby, StandbyPorts, WaitOver
from kcontrol.apps.warming import Warming, Warmth, WarmUp
from kcontrol.core.model import AgentPlacement, Desired, DesiredMode, NodeJoin, PipelineSpec
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.locks import lock
from tests.fakes.memory_kafka import Fate, MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC, boundary

HOLDER, LOG_ID = "holder", "log"


class _KnownSteps(MemoryStepsLog):
    async def log_id(self) -> str:
        return LOG_ID


class Scene:
    """A pipeline with a step, whose node lives while `held` is open; and a process that stands by for it and warms up."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._kafka = MemoryKafka()
        self.control = MemoryControlLog(self._kafka, "p")
        self._presence = Presence(tmp_path, "p", 0)
        self.held = lock(self._presence.path, HOLDER)
        self.warms, self.ends = asyncio.Event(), asyncio.Event()
        self.closed = False
        self.given: GivenNumber | None = None
        self.said: list[str] = []
        monkeypatch.setattr(takeover, "pipeline_logs", self._logs)

    async def begin(self) -> None:
        join = NodeJoin("p", 0, f"{HOLDER}-1", socket.gethostname(), os.getpid())
        await self.control.append([SPEC, join])
        self._kafka.partition("p.steps").append(boundary(1), Fate.VISIBLE)

    def stands_by(self, *, is_given: bool = False) -> tuple[Warming, asyncio.Task[WaitOver]]:
        warming = Warming(self._warm_up, self.said.append)
        given = (lambda: self.given) if is_given else None
        ports = StandbyPorts(self._resolved, warming, self.said.append, lambda: None, given)
        cluster = ClusterSettings(bootstrap_servers="localhost:1")
        standby = Standby(cluster, "p", 0, 1, self._presence, ports)
        return warming, asyncio.create_task(standby.until_free())

    async def _warm_up(self, _step: int, _warmth: Warmth) -> WarmUp:
        """Never comes to its end by itself, and takes its time when it is told to."""
        self.warms.set()
        try:
            await asyncio.Event().wait()
        finally:
            await self.ends.wait()
            self.closed = True
        raise AssertionError("it was to be left")

    @asynccontextmanager
    async def _logs(self, *_: Any) -> AsyncIterator[PipelineLogs]:
        control, steps = MemoryControlLog(self._kafka, "p"), _KnownSteps(self._kafka, "p")
        yield PipelineLogs("p", cast(KafkaControlLog, control), cast(KafkaStepsLog, steps))

    async def _resolved(self) -> PipelineSpec:
        return SPEC


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scene:
    return Scene(tmp_path, monkeypatch)


def run(scenario: Any) -> None:
    async def body() -> None:
        async with asyncio.timeout(HANG_S):
            await scenario()

    asyncio.run(body())


def test_a_node_that_dies_while_the_other_warms_up_is_taken_over_from_at_once(scene: Scene) -> None:
    async def scenario() -> None:
        await scene.begin()
        warming, standing = scene.stands_by()
        await scene.warms.wait()
        scene.held.close()
        over = await standing
        assert (over.reason.endswith("which was node 0, has ended"), over.anew) == (True, False)
        await scene.control.append([Desired("p", DesiredMode.RUNNING, "r1")])
        passed = over.passed
        assert passed is not None
        assert passed.view.desired() is None
        await passed.read_on()
        assert (passed.view.spec(), passed.view.desired(), passed.log_id) == (
            SPEC,
            Desired("p", DesiredMode.RUNNING, "r1"),
            LOG_ID,
        ), "what it has read is gone on with, not read again"
        assert not scene.closed, "what warms up need not be over for that"
        scene.ends.set()
        await warming.over()
        assert scene.closed, "it is before anything else is opened"

    run(scenario)


def test_so_does_one_that_an_agent_gives_a_number(scene: Scene) -> None:
    async def scenario() -> None:
        await scene.begin()
        warming, standing = scene.stands_by(is_given=True)
        await scene.warms.wait()
        scene.given = GivenNumber(2, AgentPlacement(1, 7))
        assert (await standing).given == scene.given
        assert not scene.closed
        scene.ends.set()
        await warming.over()

    run(scenario)


def test_who_begins_anew_ends_first_what_warms_up(scene: Scene) -> None:
    async def scenario() -> None:
        await scene.begin()
        _, standing = scene.stands_by()
        await scene.warms.wait()
        scene.ends.set()
        await scene.control.append([Desired("p", DesiredMode.STOPPED, "r1")])
        assert (await standing).anew
        assert scene.closed

    run(scenario)


def test_who_is_told_to_end_while_it_warms_up_ends(scene: Scene) -> None:
    async def scenario() -> None:
        await scene.begin()
        _, standing = scene.stands_by()
        await scene.warms.wait()
        scene.ends.set()
        standing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await standing
        assert scene.closed

    run(scenario)


def test_who_is_needed_at_once_does_not_begin_to_warm_up(scene: Scene) -> None:
    async def scenario() -> None:
        await scene.begin()
        scene.held.close()
        _, standing = scene.stands_by()
        assert (await standing).reason.endswith("has ended")
        assert not scene.warms.is_set()

    run(scenario)


def test_a_living_node_with_the_same_process_id_is_left_alone(scene: Scene) -> None:
    """As in another container: a process number says nothing of who is meant."""

    async def scenario() -> None:
        await scene.begin()
        _, standing = scene.stands_by()
        await scene.warms.wait()
        assert not standing.done()
        assert scene.said[0].startswith(f"stands by for process {os.getpid()} on ")
        scene.ends.set()
        await scene.control.append([replace(SPEC, fingerprint="f2")])
        assert (await standing).reason == "another definition was submitted"

    run(scenario)

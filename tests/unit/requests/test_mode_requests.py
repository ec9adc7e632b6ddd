"""Running, paused, stopped: what a command waits for, and what it says when that does not come."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kcontrol.core.model import Desired, DesiredMode, PipelinePhase, Resume, Status
from kcontrol.errors import HaltedError, KcontrolError, RetriableError
from kcontrol.requests.asking import ask
from kcontrol.requests.outcomes import Outcome, RequestState
from kcontrol.requests.pipeline_requests import mode_requests
from kcontrol.views.reader import PipelineReader
from tests.fakes.memory_kafka import MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.support.virtual_time import in_virtual_time
from tests.unit.core.made import SPEC

RUNNING, PAUSED = PipelinePhase.RUNNING, PipelinePhase.PAUSED
Coordinator = Callable[[MemoryControlLog, str], Awaitable[Any]]


def status(phase: PipelinePhase, *acknowledged: str) -> Status:
    return Status("p", 1, phase, 9, "", acknowledged, 7, "", ())


class World:
    """A pipeline, and somebody who acts on what is asked of it."""

    def __init__(self, before: PipelinePhase) -> None:
        self.kafka, self._before = MemoryKafka(), before
        self.logs = PipelineReader("p", MemoryControlLog(self.kafka, "p"), MemoryStepsLog(self.kafka, "p"))

    def ask(self, mode: DesiredMode, coordinator: Coordinator, timeout_s: float = 10) -> Outcome:
        async def act(log: MemoryControlLog) -> None:
            async for chunk in log.tail():
                for one in chunk:
                    if isinstance(one.record, Desired) and one.record.request_id != "other":
                        await coordinator(log, one.record.request_id)

        async def run() -> Outcome:
            other = MemoryControlLog(self.kafka, "p")
            await other.append([SPEC, status(self._before)])
            await self.logs.read_control()
            acting = asyncio.create_task(act(other))
            try:
                return await ask(self.logs, mode_requests(self.logs.view, mode), timeout_s)
            finally:
                acting.cancel()

        return in_virtual_time(run)


async def nobody(log: MemoryControlLog, request_id: str) -> None:
    """There is no coordinator."""


def test_it_is_done_when_it_is_acknowledged_and_what_is_known_is_as_of_then() -> None:
    world = World(RUNNING)

    async def coordinator(log: MemoryControlLog, request_id: str) -> None:
        await log.append(
            [status(RUNNING, "another"), status(PAUSED, request_id), status(RUNNING, request_id, "later")]
        )

    done = world.ask(DesiredMode.PAUSED, coordinator)
    assert (done.kind, done.state) == ("paused", RequestState.DONE)
    assert world.logs.view.status() == status(PAUSED, done.request_id)


def test_one_that_nobody_acts_on_stays_and_says_so() -> None:
    world = World(RUNNING)
    with pytest.raises(
        RetriableError, match=r"recorded, but no coordinator has acted on it within 0.1 s; see that one runs"
    ):
        world.ask(DesiredMode.PAUSED, nobody, timeout_s=0.1)
    desired = world.logs.view.desired()
    assert desired is not None
    assert desired.mode is DesiredMode.PAUSED


def test_one_that_another_wish_takes_the_place_of_is_not_waited_for() -> None:
    async def somebody_else(log: MemoryControlLog, request_id: str) -> None:
        await log.append([Desired("p", DesiredMode.STOPPED, "other")])

    with pytest.raises(
        KcontrolError, match=r"on the request \(paused\), another one \(stopped\) took its place; see"
    ) as raised:
        World(RUNNING).ask(DesiredMode.PAUSED, somebody_else)
    assert not isinstance(raised.value, RetriableError)


def test_one_that_somebody_else_has_asked_for_too_is_done_with_theirs() -> None:
    async def somebody_else(log: MemoryControlLog, request_id: str) -> None:
        await log.append([Desired("p", DesiredMode.PAUSED, "other"), status(PAUSED, "other")])

    assert World(RUNNING).ask(DesiredMode.PAUSED, somebody_else).request_id == "other"


def test_a_halt_is_lifted_before_or_it_stands_against_running() -> None:
    world = World(PipelinePhase.HALTED)

    async def coordinator(log: MemoryControlLog, request_id: str) -> None:
        await log.append([status(RUNNING, request_id)])

    world.ask(DesiredMode.RUNNING, coordinator)
    assert [type(request) for _, request in world.logs.requests.values()] == [Resume, Desired]
    halted = World(PipelinePhase.HALTED)
    with pytest.raises(RetriableError):
        halted.ask(DesiredMode.STOPPED, nobody, timeout_s=0.1)
    with pytest.raises(HaltedError, match="has halted, and goes on only when that is lifted"):
        mode_requests(halted.logs.view, DesiredMode.RUNNING, lift_halt=False)
    assert len(mode_requests(halted.logs.view, DesiredMode.STOPPED)) == 1

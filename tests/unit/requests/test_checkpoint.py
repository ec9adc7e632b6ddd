"""`kcontrol checkpoint`: what it waits for and what it says when there is nothing to wait for."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kcontrol.core.model import CheckpointAnswer, CheckpointRequest, Logged, PipelinePhase, Status
from kcontrol.errors import HaltedError, KcontrolError
from kcontrol.requests.asking import ask
from kcontrol.requests.pipeline_requests import checkpoint_request
from kcontrol.views.reader import PipelineReader
from tests.fakes.memory_kafka import MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.support.virtual_time import in_virtual_time
from tests.unit.core.made import SPEC


def status(
    phase: PipelinePhase = PipelinePhase.RUNNING, *answers: CheckpointAnswer, reason: str = ""
) -> Status:
    return Status("p", 1, phase, 9, reason, (), 7, "", answers)


Coordinator = Callable[[MemoryControlLog, str], Awaitable[Any]]


async def _nobody(log: MemoryControlLog, request_id: str) -> None:
    """There is no coordinator."""


def asked(before: Status, coordinator: Coordinator = _nobody, timeout_s: float = 10) -> int:
    """What the command answers, with somebody who acts on its request."""

    async def run() -> int:
        kafka = MemoryKafka()
        other = MemoryControlLog(kafka, "p")
        await other.append([SPEC, before])
        logs = PipelineReader("p", MemoryControlLog(kafka, "p"), MemoryStepsLog(kafka, "p"))
        await logs.read_control()
        acting = asyncio.create_task(act(other))
        try:
            return (await ask(logs, checkpoint_request(logs.view, 0), timeout_s)).step
        finally:
            acting.cancel()

    async def act(log: MemoryControlLog) -> None:
        async for chunk in log.tail():
            requests = [one.record.request_id for one in chunk if _is_request(one)]
            if requests:
                await coordinator(log, requests[0])
                return

    return in_virtual_time(run)


def _is_request(logged: Logged) -> bool:
    return isinstance(logged.record, CheckpointRequest)


def test_it_answers_with_the_step_that_is_saved() -> None:
    async def coordinator(log: MemoryControlLog, request_id: str) -> None:
        await log.append([status(PipelinePhase.RUNNING, CheckpointAnswer("another", 3, ""))])
        await log.append([status(PipelinePhase.RUNNING, CheckpointAnswer(request_id, 9, ""))])

    assert asked(status(), coordinator) == 9


def test_it_says_why_nothing_was_saved() -> None:
    async def coordinator(log: MemoryControlLog, request_id: str) -> None:
        await log.append(
            [status(PipelinePhase.RUNNING, CheckpointAnswer(request_id, 0, "node 1: disk full"))]
        )

    with pytest.raises(KcontrolError, match=r"^node 1: disk full$"):
        asked(status(), coordinator)


def test_a_request_that_was_overtaken_is_answered_with_the_later_one() -> None:
    async def coordinator(log: MemoryControlLog, request_id: str) -> None:
        await log.append([CheckpointRequest("p", "later")])
        await log.append([status(PipelinePhase.RUNNING, CheckpointAnswer("later", 9, ""))])

    assert asked(status(), coordinator) == 9


def test_an_answer_that_does_not_come_in_time_is_an_error_with_what_is_known() -> None:
    with pytest.raises(KcontrolError, match=r"nothing was saved within 0.1 s.*it says: node 1 is silent"):
        asked(status(reason="node 1 is silent"), timeout_s=0.1)


def test_a_pipeline_that_does_not_run_is_not_asked() -> None:
    with pytest.raises(HaltedError, match=r"is halted.*kcontrol resume p. It has halted because: no disk"):
        asked(status(PipelinePhase.HALTED, reason="no disk"))
    with pytest.raises(
        KcontrolError, match="is stopped at step 9, and is saved only while it runs or is paused"
    ):
        asked(status(PipelinePhase.STOPPED))

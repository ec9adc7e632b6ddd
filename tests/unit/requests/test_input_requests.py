"""Requests about inputs: what is refused before anything is written, and what is waited for when it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from kcontrol.core.model import (
    Claim,
    ControlRecord,
    InputDesired,
    InputSpec,
    Logged,
    NodeJoin,
    PipelinePhase,
    Received,
    ReceivedPartition,
    SkippedRange,
    SkipRequest,
    Status,
    StepBoundary,
)
from kcontrol.errors import ConfigurationError, InputGoneError, KcontrolError, NotFoundError, RetriableError
from kcontrol.requests.input_requests import SkipTaken
from kcontrol.requests.waiting import InputRequests
from kcontrol.sessions.ports import Reach
from tests.fakes.memory_kafka import STEPS, Fate, MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.unit.core.made import SPEC, boundary

_T = TypeVar("_T")
SEEN = Received("p", 0, 1, "in", 2, (ReceivedPartition(0, "T1", 0, 9), ReceivedPartition(1, "T1", 0, 9)), 0, 0)
LOG: tuple[ControlRecord, ...] = (SPEC, NodeJoin("p", 0, "u", "host", 2), SEEN, Claim("p", "c", "host", 1))
REACH = Reach("T1", (12, 12))


def status(phase: PipelinePhase, noted: int = -1, step: int = 1) -> Status:
    return Status("p", 3, phase, step, "", (), 0, "", (), noted)


class Cluster:
    """One pipeline that has committed step 1, and a coordinator that a test plays."""

    def __init__(self, *said: ControlRecord) -> None:
        self.kafka = MemoryKafka()
        self.log = MemoryControlLog(self.kafka, "p")
        self.written: list[Logged] = []
        self._said = said

    async def append(self, *records: ControlRecord) -> None:
        await self.log.append(records)

    def commit(self, made: StepBoundary) -> None:
        self.kafka.partition(f"p.{STEPS}").append(made, Fate.VISIBLE)

    def ask(
        self,
        request: Callable[[InputRequests], Awaitable[_T]],
        coordinator: Callable[[Logged], Awaitable[Any]] | None = None,
        timeout_s: float = 10,
    ) -> _T:
        """What becomes of a request, with somebody who acts on it."""

        async def act() -> None:
            async for chunk in self.log.tail():
                for logged in chunk:
                    if isinstance(logged.record, InputDesired | SkipRequest):
                        self.written.append(logged)
                        if coordinator is not None:
                            await coordinator(logged)

        async def run() -> _T:
            await self.append(*self._said)
            self.commit(boundary(1))
            await self.log.read_to_end()
            acting = asyncio.create_task(act())
            requests = InputRequests("p", MemoryControlLog(self.kafka, "p"), MemoryStepsLog(self.kafka, "p"), timeout_s)
            try:
                return await request(requests)
            finally:
                acting.cancel()

        return asyncio.run(asyncio.wait_for(run(), 20))


def skip(
    to: int, partition: int = 0, name: str = "in", reach: Reach = REACH
) -> Callable[[InputRequests], Awaitable[SkipTaken]]:
    async def look(_item: InputSpec) -> Reach:
        return reach

    return lambda requests: requests.skip(name, partition, to, "me", 5, look)


def test_a_pause_is_done_when_the_coordinator_goes_by_it() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.RUNNING))

    async def coordinator(request: Logged) -> None:
        await cluster.append(status(PipelinePhase.RUNNING, request.offset - 1, 7))
        await cluster.append(status(PipelinePhase.RUNNING, request.offset, 9))

    assert cluster.ask(lambda requests: requests.pause("in", paused=True), coordinator).step == 9
    (written,) = cluster.written
    assert isinstance(written.record, InputDesired)
    assert (written.record.input, written.record.paused) == ("in", True)


def test_a_pause_that_nobody_acts_on_stays_and_says_so() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.RUNNING))
    with pytest.raises(RetriableError, match=r"is recorded, but not in force after 0.1 s: no coordinator has acted on it"):
        cluster.ask(lambda requests: requests.pause("in", paused=True), timeout_s=0.1)


@pytest.mark.parametrize("ask", [lambda requests: requests.pause("out", paused=True), skip(8, name="out")])
def test_an_unknown_input_is_refused_by_name(ask: Callable[[InputRequests], Awaitable[Any]]) -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.PAUSED))
    with pytest.raises(NotFoundError, match="pipeline 'p' has no input 'out'; it has in"):
        cluster.ask(ask)
    assert cluster.written == []


def test_an_unknown_pipeline_is_refused_by_name() -> None:
    with pytest.raises(NotFoundError, match="no pipeline 'p' in this cluster"):
        Cluster().ask(lambda requests: requests.pause("in", paused=False))


@pytest.mark.parametrize("phase", [PipelinePhase.PAUSED, PipelinePhase.STOPPED, PipelinePhase.HALTED])
def test_a_skip_is_in_force_before_any_step_is_made(phase: PipelinePhase) -> None:
    cluster = Cluster(*LOG, status(phase))

    async def coordinator(request: Logged) -> None:
        await cluster.append(status(phase, request.offset))

    taken = cluster.ask(skip(9), coordinator)
    assert (taken.request.from_, taken.request.to, taken.step, taken.committed) == (6, 9, 2, False)
    assert (taken.request.by, taken.request.asked_ms) == ("me", 5)


def test_a_skip_of_a_paused_input_is_answered_with_the_step_that_records_it() -> None:
    cluster = Cluster(*LOG, InputDesired("p", "in", True, "r"), status(PipelinePhase.RUNNING, len(LOG)))

    async def coordinator(request: Logged) -> None:
        asked = request.record
        assert isinstance(asked, SkipRequest)
        passed = SkippedRange("in", "input", "T1", 0, 6, 9, asked.by, asked.asked_ms, asked.request_id)
        cluster.commit(replace(boundary(2, (9, 1), (9, 1)), skipped_ranges=(passed,)))
        await cluster.append(status(PipelinePhase.RUNNING, request.offset, 2))

    taken = cluster.ask(skip(9), coordinator)
    assert (taken.step, taken.committed) == (2, True)


def test_a_skip_that_a_step_has_overtaken_says_where_the_next_one_begins() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.PAUSED))

    async def coordinator(request: Logged) -> None:
        cluster.commit(boundary(2, (6, 1), (7, 1)))
        await cluster.append(status(PipelinePhase.RUNNING, request.offset, 2))

    with pytest.raises(KcontrolError, match=r"nothing was skipped: a step has been made .* begins at offset 7"):
        cluster.ask(skip(9), coordinator)


def test_a_skip_that_another_one_has_followed_says_whose() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.PAUSED))

    async def coordinator(request: Logged) -> None:
        if request.record != another:
            await cluster.append(another, status(PipelinePhase.PAUSED, request.offset + 1))

    another = SkipRequest("p", "in", 0, 6, 8, "somebody", 5, "other")
    with pytest.raises(KcontrolError, match="another request for the same partition has followed, by somebody, to offset 8"):
        cluster.ask(skip(9), coordinator)


def test_a_skip_waits_until_the_node_has_seen_so_far() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.PAUSED))

    async def coordinator(request: Logged) -> None:
        await cluster.append(status(PipelinePhase.PAUSED, request.offset))
        further = replace(SEEN, partitions=(replace(SEEN.partitions[0], to=12), SEEN.partitions[1]))
        await cluster.append(further)

    assert cluster.ask(skip(12), coordinator).request.to == 12


def test_a_skip_that_the_node_does_not_confirm_in_time_says_why() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.PAUSED))

    async def coordinator(request: Logged) -> None:
        await cluster.append(status(PipelinePhase.PAUSED, request.offset))

    with pytest.raises(RetriableError, match="partition 0 of input in ends at offset 9, as far as its node has seen"):
        cluster.ask(skip(12), coordinator, timeout_s=0.1)


@pytest.mark.parametrize(
    ("ask", "kind", "text"),
    [
        (skip(5), ConfigurationError, "partition 0: the next step begins at offset 6; 5 lies before it"),
        (skip(6), ConfigurationError, "the next step begins at offset 6 anyway: there is nothing to skip"),
        (skip(13), ConfigurationError, "the partition ends at offset 12; 13 lies beyond it"),
        (skip(8, partition=2), NotFoundError, "topic 'input' has no partition 2: it has 2"),
        (skip(8, reach=Reach("T9", (12, 12))), InputGoneError, "was made anew .its id was T1, now it is T9"),
    ],
)
def test_a_skip_that_can_not_be_is_refused(
    ask: Callable[[InputRequests], Awaitable[Any]], kind: type[Exception], text: str
) -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.HALTED))
    with pytest.raises(kind, match=text):
        cluster.ask(ask)
    assert cluster.written == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ((status(PipelinePhase.RUNNING),), "it is running; first kcontrol pause p, or kcontrol pause-input p in"),
        ((status(PipelinePhase.STARTING),), "it is starting; first"),
        ((), "no coordinator has looked after it yet"),
    ],
)
def test_nothing_is_skipped_of_an_input_that_steps_read(said: tuple[ControlRecord, ...], text: str) -> None:
    cluster = Cluster(*LOG, *said)
    with pytest.raises(KcontrolError, match=text):
        cluster.ask(skip(8))
    assert cluster.written == []


def test_a_skip_that_waits_can_be_taken_back() -> None:
    cluster = Cluster(*LOG, SkipRequest("p", "in", 0, 6, 9, "me", 5, "r"), status(PipelinePhase.PAUSED))

    async def coordinator(request: Logged) -> None:
        await cluster.append(status(PipelinePhase.PAUSED, request.offset))

    taken = cluster.ask(skip(6), coordinator)
    assert (taken.request.from_, taken.request.to) == (6, 6)

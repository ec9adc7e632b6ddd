"""Requests about inputs: what is refused before anything is written, and what is waited for when it is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

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
from kcontrol.requests.asking import ask
from kcontrol.requests.input_requests import pause_request, skip_request
from kcontrol.requests.outcomes import Outcome, RequestState, outcome_of
from kcontrol.sessions.ports import Reach
from kcontrol.views.pipeline_projection import Request
from kcontrol.views.reader import PipelineReader
from tests.fakes.memory_kafka import STEPS, Fate, MemoryControlLog, MemoryKafka, MemoryStepsLog
from tests.support.virtual_time import in_virtual_time
from tests.unit.core.made import SPEC, boundary

Make = Callable[[PipelineReader], Awaitable[Sequence[Request]]]
SEEN = Received(
    "p", 0, 1, "in", 2, (ReceivedPartition(0, "T1", 0, 9), ReceivedPartition(1, "T1", 0, 9)), 0, 0
)
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
        make: Make,
        coordinator: Callable[[Logged], Awaitable[Any]] | None = None,
        timeout_s: float = 10,
    ) -> Outcome:
        """What becomes of a request, with somebody who acts on it."""

        async def act() -> None:
            async for chunk in self.log.tail():
                for logged in chunk:
                    if isinstance(logged.record, InputDesired | SkipRequest):
                        self.written.append(logged)
                        if coordinator is not None:
                            await coordinator(logged)

        async def run() -> Outcome:
            await self.append(*self._said)
            self.commit(boundary(1))
            await self.log.read_to_end()
            acting = asyncio.create_task(act())
            logs = PipelineReader("p", MemoryControlLog(self.kafka, "p"), MemoryStepsLog(self.kafka, "p"))
            try:
                await logs.read()
                return await ask(logs, await make(logs), timeout_s)
            finally:
                acting.cancel()
                self.logs = logs

        return in_virtual_time(run)

    @property
    def said(self) -> Status:
        """What the command knows at its end."""
        said = self.logs.view.status()
        assert said is not None
        return said

    def outcome(self, asked: Logged) -> Outcome:
        """Of a request, for whoever reads both logs later."""

        async def read() -> PipelineReader:
            logs = PipelineReader("p", MemoryControlLog(self.kafka, "p"), MemoryStepsLog(self.kafka, "p"))
            await logs.read()
            return logs

        assert isinstance(asked.record, InputDesired | SkipRequest)
        return outcome_of(asyncio.run(read()), asked.record.request_id)


def pause(name: str = "in", *, paused: bool = True) -> Make:
    async def make(logs: PipelineReader) -> Sequence[Request]:
        return pause_request(logs, name, paused=paused)

    return make


def skip(to: int, partition: int = 0, name: str = "in", reach: Reach = REACH) -> Make:
    async def look(_item: InputSpec) -> Reach:
        return reach

    return lambda logs: skip_request(logs, (name, partition, to), "me", 5, look)


def test_a_pause_is_done_when_the_coordinator_goes_by_it() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.RUNNING))

    async def coordinator(request: Logged) -> None:
        await cluster.append(status(PipelinePhase.RUNNING, request.offset - 1, 7))
        await cluster.append(status(PipelinePhase.RUNNING, request.offset, 9))

    assert cluster.ask(pause(), coordinator).kind == "pause-input"
    assert cluster.said.step == 9
    (written,) = cluster.written
    assert isinstance(written.record, InputDesired)
    assert (written.record.input, written.record.paused) == ("in", True)


def test_a_pause_that_nobody_acts_on_stays_and_says_so() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.RUNNING))
    with pytest.raises(
        RetriableError, match=r"is recorded, but not in force after 0.1 s: no coordinator has acted on it"
    ):
        cluster.ask(pause(), timeout_s=0.1)


@pytest.mark.parametrize("make", [pause("out"), skip(8, name="out")])
def test_an_unknown_input_is_refused_by_name(make: Make) -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.PAUSED))
    with pytest.raises(NotFoundError, match="pipeline 'p' has no input 'out'; it has in"):
        cluster.ask(make)
    assert cluster.written == []


def test_an_unknown_pipeline_is_refused_by_name() -> None:
    with pytest.raises(NotFoundError, match="no pipeline 'p' in this cluster"):
        Cluster().ask(pause(paused=False))


@pytest.mark.parametrize("phase", [PipelinePhase.PAUSED, PipelinePhase.STOPPED, PipelinePhase.HALTED])
def test_a_skip_is_in_force_before_any_step_is_made(phase: PipelinePhase) -> None:
    cluster = Cluster(*LOG, status(phase))

    async def coordinator(request: Logged) -> None:
        await cluster.append(status(phase, request.offset))

    assert cluster.ask(skip(9), coordinator).step == 2
    asked = cluster.written[0].record
    assert isinstance(asked, SkipRequest)
    assert (asked.from_, asked.to, asked.by, asked.asked_ms) == (6, 9, "me", 5)
    assert cluster.logs.committed.step == 1


def test_a_skip_of_a_paused_input_is_answered_with_the_step_that_records_it() -> None:
    cluster = Cluster(*LOG, InputDesired("p", "in", True, "r"), status(PipelinePhase.RUNNING, len(LOG)))

    async def coordinator(request: Logged) -> None:
        asked = request.record
        assert isinstance(asked, SkipRequest)
        passed = SkippedRange("in", "input", "T1", 0, 6, 9, asked.by, asked.asked_ms, asked.request_id)
        cluster.commit(replace(boundary(2, (9, 1), (9, 1)), skipped_ranges=(passed,)))
        await cluster.append(status(PipelinePhase.RUNNING, request.offset, 2))

    assert cluster.ask(skip(9), coordinator).step == 2
    assert cluster.logs.committed.step == 2


def test_a_skip_that_a_step_has_overtaken_says_where_the_next_one_begins() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.PAUSED))

    async def coordinator(request: Logged) -> None:
        cluster.commit(boundary(2, (6, 1), (7, 1)))
        await cluster.append(status(PipelinePhase.RUNNING, request.offset, 2))

    with pytest.raises(
        KcontrolError, match=r"nothing was skipped: a step has been made .* begins at offset 7"
    ):
        cluster.ask(skip(9), coordinator)


def test_a_skip_that_another_one_has_followed_says_whose() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.PAUSED))

    async def coordinator(request: Logged) -> None:
        if request.record != another:
            await cluster.append(another, status(PipelinePhase.PAUSED, request.offset + 1))

    another = SkipRequest("p", "in", 0, 6, 8, "somebody", 5, "other")
    with pytest.raises(
        KcontrolError, match="another request for the same partition has followed, by somebody, to offset 8"
    ):
        cluster.ask(skip(9), coordinator)


def test_a_skip_waits_until_the_node_has_seen_so_far() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.PAUSED))

    async def coordinator(request: Logged) -> None:
        await cluster.append(status(PipelinePhase.PAUSED, request.offset))
        further = replace(SEEN, partitions=(replace(SEEN.partitions[0], to=12), SEEN.partitions[1]))
        await cluster.append(further)

    assert cluster.ask(skip(12), coordinator).step == 2


def test_a_skip_that_the_node_does_not_confirm_in_time_says_why() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.PAUSED))

    async def coordinator(request: Logged) -> None:
        await cluster.append(status(PipelinePhase.PAUSED, request.offset))

    with pytest.raises(
        RetriableError, match="partition 0 of input in ends at offset 9, as far as its node has seen"
    ):
        cluster.ask(skip(12), coordinator, timeout_s=0.1)


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (skip(5), ConfigurationError, "partition 0: the next step begins at offset 6; 5 lies before it"),
        (skip(6), ConfigurationError, "the next step begins at offset 6 anyway: there is nothing to skip"),
        (skip(13), ConfigurationError, "the partition ends at offset 12; 13 lies beyond it"),
        (skip(8, partition=2), NotFoundError, "topic 'input' has no partition 2: it has 2"),
        (skip(8, reach=Reach("T9", (12, 12))), InputGoneError, "was recreated .its id was T1, now it is T9"),
    ],
)
def test_a_skip_that_can_not_be_is_refused(make: Make, kind: type[Exception], text: str) -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.HALTED))
    with pytest.raises(kind, match=text):
        cluster.ask(make)
    assert cluster.written == []


@pytest.mark.parametrize(
    ("said", "text"),
    [
        (
            (status(PipelinePhase.RUNNING),),
            "it is running; first kcontrol pause p, or kcontrol pause-input p in",
        ),
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

    assert cluster.ask(skip(6), coordinator).state is RequestState.DONE
    cluster.commit(boundary(2, (6, 1), (7, 1)))
    assert cluster.outcome(cluster.written[0]).state is RequestState.DONE


def test_a_skip_that_a_step_has_gone_by_can_not_be_taken_back() -> None:
    cluster = Cluster(*LOG, SkipRequest("p", "in", 0, 6, 9, "me", 5, "r"), status(PipelinePhase.PAUSED))

    async def coordinator(request: Logged) -> None:
        passed = SkippedRange("in", "input", "T1", 0, 6, 9, "me", 5, "r")
        cluster.commit(replace(boundary(2, (9, 1), (10, 1)), skipped_ranges=(passed,)))
        await cluster.append(status(PipelinePhase.RUNNING, request.offset, 2))

    with pytest.raises(KcontrolError, match="nothing was taken back: step 2 had gone past offset 6 before"):
        cluster.ask(skip(6), coordinator)
    assert cluster.outcome(cluster.written[0]).state is RequestState.FAILED


def test_a_pause_that_was_taken_back_before_anybody_acted_on_it_is_not_done() -> None:
    """The status goes by the newer request: the input is read."""
    cluster = Cluster(*LOG, status(PipelinePhase.RUNNING))
    another = InputDesired("p", "in", False, "other")

    async def coordinator(request: Logged) -> None:
        if request.record != another:
            await cluster.append(another, status(PipelinePhase.RUNNING, request.offset + 1))

    with pytest.raises(KcontrolError, match=r"\(pause-input\), another one \(resume-input\) took its place"):
        cluster.ask(pause(), coordinator)
    assert cluster.outcome(cluster.written[0]).state is RequestState.SUPERSEDED


def test_a_pause_that_somebody_else_has_asked_for_too_is_done_with_theirs() -> None:
    cluster = Cluster(*LOG, status(PipelinePhase.RUNNING))
    another = InputDesired("p", "in", True, "other")

    async def coordinator(request: Logged) -> None:
        if request.record != another:
            await cluster.append(another, status(PipelinePhase.RUNNING, request.offset + 1))

    assert cluster.ask(pause(), coordinator).state is RequestState.DONE

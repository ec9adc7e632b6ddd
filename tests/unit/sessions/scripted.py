"""A coordinator's session whose core says what a test has written down, in a world that does what it says."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from kcontrol.core.coordinator.decide import CoordinatorState, Decision
from kcontrol.core.events import (
    ControlSeen,
    CoordinatorEffect,
    CoordinatorEvent,
    Tick,
)
from kcontrol.core.model import (
    Assignment,
    Checkpoint,
    ControlRecord,
    Logged,
    LoggedStep,
    StepBoundary,
)
from kcontrol.errors import (
    KcontrolError,
)
from kcontrol.sessions.coordinator import CoordinatorPorts, CoordinatorSession
from kcontrol.sessions.ports import NextTransaction
from tests.support.patience import HANG_S
from tests.support.samples import desired


@dataclass
class World:
    """Logs and a transaction that do what a test says; the ports of one session."""

    control: deque[Logged] = field(default_factory=deque)
    steps: list[LoggedStep] = field(default_factory=list)
    fault: KcontrolError | None = None
    committed: list[tuple[StepBoundary, int]] = field(default_factory=list)
    recorded: list[tuple[object, ...]] = field(default_factory=list)
    proved: list[tuple[int, int]] = field(default_factory=list)
    following: NextTransaction | None = None
    """What a commit is answered with."""
    passed_over: list[int] = field(default_factory=list)
    reads: int = 0
    log_end: int = 0
    settled: list[int] = field(default_factory=list)
    said: list[ControlRecord] = field(default_factory=list)
    shown: int = 1_000
    """Where the broker that is asked says that the control log ends."""
    keeps: bool = False
    """Whether what the session says is in the log, too."""
    through: list[int] = field(default_factory=list)
    """How far it was read by offset."""

    def now_ms(self) -> int:
        return 1_000

    def monotonic_ms(self) -> int:
        return 1_000

    async def append(self, records: Sequence[ControlRecord], forget: Sequence[str] = ()) -> list[int]:
        offsets = [len(self.said) + number for number in range(len(records))]
        self.said += records
        if self.keeps:
            self.control += [Logged(at, 0, record) for at, record in zip(offsets, records, strict=True)]
        return offsets

    async def read_to_end(self) -> list[Logged]:
        self.reads += 1
        return self._taken(self.shown)

    async def read_through(self, offset: int) -> list[Logged]:
        self.through.append(offset)
        return self._taken(offset + 1)

    def _taken(self, end: int) -> list[Logged]:
        found = [one for one in self.control if one.offset < end]
        self.control = deque(one for one in self.control if one.offset >= end)
        return found

    async def tail(self) -> AsyncIterator[list[Any]]:
        yield []

    async def init_producer(self, timeout_ms: int) -> tuple[int, int]:
        if self.fault is not None:
            raise self.fault
        return 5, 6

    async def add_partitions(
        self, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> None: ...

    async def commit_step(
        self,
        producer_id: int,
        producer_epoch: int,
        boundary: StepBoundary,
        expected_offset: int,
        forget: Sequence[str] = (),
    ) -> NextTransaction | None:
        self.committed.append((boundary, expected_offset))
        return self.following

    async def commit_checkpoint(
        self,
        producer_id: int,
        producer_epoch: int,
        checkpoint: Checkpoint | None,
        expected_offset: int,
        forget: Sequence[str],
        assignment: Assignment | None = None,
    ) -> None:
        self.recorded.append((producer_id, producer_epoch, checkpoint, expected_offset, *forget))

    async def prove_end(self, producer_id: int, producer_epoch: int) -> None:
        self.proved.append((producer_id, producer_epoch))

    async def close(self) -> None: ...


class Steps:
    """The steps log of a World."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def read_to_end(self) -> list[LoggedStep]:
        return self._world.steps

    @property
    def position(self) -> int:
        return len(self._world.steps)

    async def read_settled(self, at_least: int) -> list[LoggedStep]:
        self._world.settled.append(at_least)
        return self._world.steps

    def pass_over(self, offset: int) -> None:
        self._world.passed_over.append(offset)

    async def tail(self) -> AsyncIterator[list[LoggedStep]]:
        yield []

    async def close(self) -> None: ...


def logged(offset: int) -> Logged:
    return Logged(offset, 0, desired("p", f"r{offset}"))


class Script:
    """Stands in for the state machine: writes down the events and answers an event's class with effects,
    once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, answers: dict[type, list[CoordinatorEffect]]) -> None:
        self.events: list[CoordinatorEvent] = []
        self._answers = answers
        monkeypatch.setattr("kcontrol.sessions.coordinator.decide", self._decide)

    def _decide(self, state: CoordinatorState, event: CoordinatorEvent) -> Decision:
        if not isinstance(event, Tick):
            self.events.append(event)
        return Decision(state, tuple(self._answers.pop(type(event), [])))

    def offsets(self) -> list[int]:
        return [event.logged.offset for event in self.events if isinstance(event, ControlSeen)]


def session(world: World) -> CoordinatorSession:
    state = CoordinatorState.initial("p", transactional_id="t", steps_topic="s")
    return CoordinatorSession(state, CoordinatorPorts(world, world, Steps(world), world), deadline_ms=1_000)


def drive(world: World, act: Callable[[CoordinatorSession], Awaitable[None]]) -> None:
    async def run() -> None:
        made = session(world)
        running = asyncio.create_task(made.run())
        await act(made)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(asyncio.wait_for(run(), HANG_S))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(HANG_S):
        while not condition():  # noqa: ASYNC110 - what is waited for is a list that the session fills
            await asyncio.sleep(0.001)

"""A StepConsumer whose caller has a step: a reset that makes it void is told, whenever it comes to be read."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from kcontrol.apps import step_consumer
from kcontrol.apps.step_consumer import StepConsumer
from kcontrol.core.model import LoggedStep, StepBoundary
from kcontrol.core.model.steps import Reset
from kcontrol.errors import StepsVoidedError
from kcontrol.settings.cluster import ClusterSettings
from tests.unit.core.made import SPEC, boundary

_R = TypeVar("_R")


def reset(step: int, to_step: int) -> StepBoundary:
    return replace(boundary(step), reset=Reset(to_step, "one too many", "", "", ()))


class Client:
    """Runs everything at once, in the caller's thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()

    def start(self, work: Coroutine[Any, Any, _R]) -> Future[_R]:
        done = Future[_R]()
        try:
            done.set_result(self.loop.run_until_complete(work))
        except Exception as error:  # noqa: BLE001 - as a future does
            done.set_exception(error)
        return done


class Steps:
    """A log of steps that shows so many of its records when it is looked for resets, and afterwards all, piece by piece."""

    def __init__(self, log: Sequence[StepBoundary], shown: int, pieces: Sequence[int]) -> None:
        self.log, self.shown, self.pieces, self.begin = log, shown, pieces, 1

    async def begin_at_step(self, step: int) -> None:
        self.begin = step

    async def read_resets(self) -> list[StepBoundary]:
        return [one for one in self.log[: self.shown] if one.reset is not None and one.step >= self.begin]

    async def tail(self) -> AsyncIterator[list[LoggedStep]]:
        found = [LoggedStep(one.step, one) for one in self.log if one.step >= self.begin]
        for size in self.pieces:
            piece, found = found[:size], found[size:]
            yield piece

    async def close(self) -> None:
        pass


class Reader:
    def __init__(self, *_: object, **__: object) -> None:
        pass

    def read(self, made: StepBoundary) -> step_consumer.Step:
        return step_consumer.Step(made.step, made.now_ms, {}, made)


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    async def definition(*_: object) -> object:
        return SPEC

    made = Client()
    monkeypatch.setattr(step_consumer, "client_for", lambda _: made)
    monkeypatch.setattr(step_consumer, "definition", definition)
    monkeypatch.setattr(step_consumer, "StepReader", Reader)
    yield made
    made.loop.close()


def consumer(
    monkeypatch: pytest.MonkeyPatch, log: Sequence[StepBoundary], shown: int, pieces: Sequence[int], **at: Any
) -> StepConsumer:
    monkeypatch.setattr(step_consumer, "KafkaStepsLog", lambda *_: Steps(log, shown, pieces))
    return StepConsumer("p", ClusterSettings(bootstrap_servers="127.0.0.1:1"), **at)


GONE_BACK = [boundary(1), boundary(2), boundary(3), reset(4, to_step=2), boundary(5)]


@pytest.mark.parametrize("pieces", [(9,), (1, 1, 1)])
@pytest.mark.parametrize("at", [{"after_step": 3}, {"from_step": 4, "holds": 3}])
def test_a_reset_that_comes_while_the_next_step_is_waited_for_is_told(
    client: Client, monkeypatch: pytest.MonkeyPatch, pieces: Sequence[int], at: dict[str, int]
) -> None:
    """It was not there yet when the log was looked through, or the broker that was asked was behind."""
    with consumer(monkeypatch, GONE_BACK, 3, pieces, **at) as steps:
        with pytest.raises(StepsVoidedError, match="one too many") as void:
            next(steps)
        assert (void.value.first, void.value.last, void.value.next_step) == (3, 3, 5)
        assert next(steps).number == 5


def test_steps_after_the_one_that_is_held_may_be_void_with_it(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    with consumer(monkeypatch, GONE_BACK, 2, (9,), after_step=2) as steps:
        assert next(steps).number == 5
    log = [*GONE_BACK, boundary(6), reset(7, to_step=1), boundary(8)]
    with consumer(monkeypatch, log, 3, (9,), after_step=2) as steps:
        with pytest.raises(StepsVoidedError) as void:
            next(steps)
        assert (void.value.first, void.value.last) == (2, 6)
        assert next(steps).number == 8


def test_it_is_told_once(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there from the beginning is told before anything is read, and not again when it is read."""
    with consumer(monkeypatch, GONE_BACK, 5, (9,), after_step=3) as steps:
        with pytest.raises(StepsVoidedError):
            next(steps)
        assert next(steps).number == 5

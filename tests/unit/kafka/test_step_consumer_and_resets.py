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
    """A log of steps that shows so many of its records when it is looked for resets, and afterwards all, piece by piece; or
    those that are there by then."""

    def __init__(self, log: Sequence[StepBoundary], shown: int, pieces: Sequence[int]) -> None:
        self.log, self.shown, self.pieces, self.begin, self.looked = log, shown, pieces, 1, 0
        self.there, self.at_end, self.looks = len(log), False, 0

    async def begin_at_step(self, step: int) -> None:
        self.begin = step

    async def read_resets(self) -> list[StepBoundary]:
        self.looks += 1
        new, self.looked = self.log[self.looked : self.shown], max(self.looked, self.shown)
        return [one for one in new if one.reset is not None and one.step >= self.begin]

    async def tail(self) -> AsyncIterator[list[LoggedStep]]:
        given = sum(one.step < self.begin for one in self.log)
        for size in self.pieces:
            until = min(self.there, given + size)
            piece, given = self.log[given:until], until
            self.looked, self.at_end = max(self.looked, given), given == self.there
            yield [LoggedStep(one.step, one) for one in piece]

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


def lagging(
    monkeypatch: pytest.MonkeyPatch, log: Sequence[StepBoundary], there: int, pieces: Sequence[int]
) -> Steps:
    """A log of which so much is there when it is first looked at."""
    steps = Steps(log, there, pieces)
    steps.there = there
    monkeypatch.setattr(step_consumer, "KafkaStepsLog", lambda *_: steps)
    return steps


def all_there(steps: Steps) -> None:
    steps.there = steps.shown = len(steps.log)


LATER = [*(boundary(step) for step in range(1, 7)), reset(7, to_step=2), boundary(8)]


@pytest.mark.parametrize("pieces", [(6, 2), (2, 4, 2), (3, 3, 2), (4, 4)])
def test_what_becomes_void_after_it_was_read_and_before_it_is_returned_is_not_returned(
    client: Client, monkeypatch: pytest.MonkeyPatch, pieces: Sequence[int]
) -> None:
    """Whoever lags has read far ahead, or reads what a reset that is far ahead has made void."""
    log = lagging(monkeypatch, LATER, 6, pieces)
    with StepConsumer("p", ClusterSettings(bootstrap_servers="127.0.0.1:1"), from_step=1) as steps:
        assert [next(steps).number, next(steps).number] == [1, 2]
        all_there(log)
        assert next(steps).number == 8


@pytest.mark.parametrize("pieces", [(6, 2), (4, 4)])
def test_a_reset_that_takes_back_what_was_returned_is_told_before_anything_more_is(
    client: Client, monkeypatch: pytest.MonkeyPatch, pieces: Sequence[int]
) -> None:
    log = lagging(monkeypatch, LATER, 6, pieces)
    with StepConsumer("p", ClusterSettings(bootstrap_servers="127.0.0.1:1"), from_step=1) as steps:
        assert [next(steps).number for _ in range(4)] == [1, 2, 3, 4]
        all_there(log)
        with pytest.raises(StepsVoidedError) as void:
            next(steps)
        assert (void.value.first, void.value.last, void.value.next_step) == (3, 6, 8)
        assert next(steps).number == 8


def test_whoever_keeps_up_is_not_made_to_look(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    log = lagging(monkeypatch, [boundary(1), boundary(2)], 1, (1, 1))
    with StepConsumer("p", ClusterSettings(bootstrap_servers="127.0.0.1:1"), from_step=1) as steps:
        assert next(steps).number == 1
        all_there(log)
        assert next(steps).number == 2
    assert log.looks == 1, "at the beginning"

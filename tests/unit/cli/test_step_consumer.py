"""A reset is told to whoever has what it makes void, also of before: without a broker."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from kcontrol.apps import step_consumer
from kcontrol.core.model import LoggedStep, PipelineSpec, StepBoundary
from kcontrol.core.model.steps import Reset
from kcontrol.errors import StepsVoidedError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC, boundary


def _reset(step: int, to_step: int) -> StepBoundary:
    return replace(boundary(step), reset=Reset(to_step, "one too many", "me", "r", ()))


class _Log:
    """Of steps, that are there in two parts: what a first look at the end shows, and what comes then."""

    shown: tuple[StepBoundary, ...] = ()
    chunks: tuple[tuple[StepBoundary, ...], ...] = ()

    at_end = True

    def __init__(self, settings: ClusterSettings, pipeline: str) -> None:
        pass

    async def begin_at_step(self, step: int) -> None:
        pass

    async def read_resets(self) -> list[StepBoundary]:
        return [each for each in self.shown if each.reset is not None]

    async def tail(self) -> AsyncIterator[list[LoggedStep]]:
        for chunk in self.chunks:
            yield [LoggedStep(each.step, each) for each in chunk]
        await asyncio.Event().wait()

    async def close(self) -> None:
        pass


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> type[_Log]:
    async def definition(settings: ClusterSettings, pipeline: str) -> PipelineSpec:
        return SPEC

    class Own(_Log):
        pass

    monkeypatch.setattr(step_consumer, "definition", definition)
    monkeypatch.setattr(step_consumer, "KafkaStepsLog", Own)
    return Own


def test_a_reset_before_anything_was_returned_is_told_to_whoever_has_what_it_makes_void(
    log: type[_Log],
) -> None:
    log.chunks = ((_reset(45, 42), boundary(46)), (_reset(47, 46), boundary(48)))
    with step_consumer.StepConsumer(
        "p", ClusterSettings(bootstrap_servers="127.0.0.1:1"), after_step=44, timeout=HANG_S
    ) as steps:
        with pytest.raises(StepsVoidedError, match="one too many") as void:
            next(steps)
        assert (void.value.first, void.value.last, void.value.next_step) == (43, 44, 46)
        assert [next(steps).number, next(steps).number] == [46, 48]


def test_one_that_comes_with_the_step_that_is_read_again_is_told_too(log: type[_Log]) -> None:
    """A delivery has its last step again, to compare it."""
    log.shown, log.chunks = (boundary(44),), ((boundary(44), _reset(45, 42), boundary(46)),)
    with step_consumer.StepConsumer(
        "p", ClusterSettings(bootstrap_servers="127.0.0.1:1"), from_step=44, holds=44, timeout=HANG_S
    ) as steps:
        with pytest.raises(StepsVoidedError):
            next(steps)
        assert next(steps).number == 46


def test_it_is_told_once_and_not_to_whoever_has_nothing_of_it(log: type[_Log]) -> None:
    log.shown = (_reset(45, 42),)
    log.chunks = ((_reset(45, 42), boundary(46)),)
    settings = ClusterSettings(bootstrap_servers="127.0.0.1:1")
    with step_consumer.StepConsumer("p", settings, after_step=44, timeout=HANG_S) as steps:
        with pytest.raises(StepsVoidedError):
            next(steps)
        assert next(steps).number == 46
    log.shown = ()
    with step_consumer.StepConsumer("p", settings, after_step=42, timeout=HANG_S) as steps:
        assert next(steps).number == 46
    with step_consumer.StepConsumer("p", settings, from_step=45, timeout=HANG_S) as steps:
        assert next(steps).number == 46

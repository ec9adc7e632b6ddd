"""A process that makes ready to be a node of another layout makes itself warm: by what, when, and what stays meanwhile."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from kcontrol.adapters.spark.state.ahead import ahead_home
from kcontrol.apps import warm_up
from kcontrol.apps.held_tables import TableCare
from kcontrol.core.model import Checkpoint, PipelineSpec, StepBoundary
from tests.unit.sessions.test_making_ready import MORE, STEP, _is_ready, _logs, _looking, _World, world

__all__ = ["world"]


class _Rehearsals:
    """What a process was made warm with, each held until it is let go."""

    def __init__(self) -> None:
        self.began: list[tuple[int, int | None]] = []
        self.goes_on = asyncio.Event()

    async def __call__(
        self, _bound: Any, spec: PipelineSpec, checkpoint: Checkpoint | None, _last: StepBoundary
    ) -> None:
        self.began.append((spec.nodes, None if checkpoint is None else checkpoint.step))
        await self.goes_on.wait()


class _Hanging(_Rehearsals):
    """Spark is told to end them, and takes its time."""

    async def __call__(self, *what: Any) -> None:
        try:
            await super().__call__(*what)
        finally:
            await self.goes_on.wait()


def test_what_was_copied_stays_for_as_long_as_it_is_open_though_nobody_wants_it_any_more(
    world: _World,
) -> None:
    async def scenario() -> None:
        warm, home = _Hanging(), ahead_home(world.tmp_path / "of-2-False", "p", 2)
        it, logs = world.process(2, warm=warm), _logs(MORE, saved=world.checkpoint())
        await _looking(it, logs, lambda: bool(warm.began))
        logs.see(replace(MORE, request_id="l2", nodes=0))
        for _ in range(20):
            assert await it.look(*logs.read), "there is something to be taken away"
            await asyncio.sleep(0)
            assert home.exists()
        warm.goes_on.set()
        for _ in range(20):
            await it.look(*logs.read)
            await asyncio.sleep(0)
        assert not home.exists()

    world.run(scenario)


def test_what_takes_long_comes_before_the_checkpoint_that_is_copied(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever is not there yet has none made for him."""
    monkeypatch.setattr(warm_up, "MAX_BYTES", 0)

    async def scenario() -> None:
        warm = _Rehearsals()
        it, logs = world.process(2, warm=warm), _logs(MORE, saved=world.checkpoint())
        await _looking(it, logs, lambda: bool(warm.began))
        assert {each.request_id for each in await world.said()} <= {""}
        warm.goes_on.set()
        await world.until(_is_ready, it, logs)
        assert warm.began == [(3, None)], "once, and without so much state"

    world.run(scenario)


def test_much_state_is_opened_to_warm_up_where_that_copies_none_of_it(
    world: _World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warm_up, "MAX_BYTES", 0)

    async def scenario() -> None:
        warm = _Rehearsals()
        warm.goes_on.set()
        tables = TableCare(lambda _: None, lambda: None, lambda: True)
        it, logs = world.process(2, warm=warm, tables=tables), _logs(MORE, saved=world.checkpoint())
        await world.until(_is_ready, it, logs)
        assert warm.began == [(3, STEP)]

    world.run(scenario)


def test_little_state_is_opened_to_warm_up_as_it_was_copied(world: _World) -> None:
    async def scenario() -> None:
        warm = _Rehearsals()
        it, logs = world.process(2, warm=warm), _logs(MORE, saved=world.checkpoint())
        await _looking(it, logs, lambda: bool(warm.began))
        assert (await world.said())[-1].request_id == "l1"
        warm.goes_on.set()
        await world.until(_is_ready, it, logs)
        assert warm.began == [(3, STEP)]

    world.run(scenario)


def test_other_queries_than_those_it_is_warm_for_are_made_warm_before_it_is_ready(world: _World) -> None:
    async def scenario() -> None:
        warm = _Rehearsals()
        warm.goes_on.set()
        it, logs = world.process(0, warm=warm), _logs(MORE, saved=world.checkpoint())
        await world.until(_is_ready, it, logs)
        warm.goes_on.clear()
        logs.see(replace(MORE, request_id="l2", nodes=1))
        await _looking(it, logs, lambda: len(warm.began) == 2)
        for _ in range(3):
            await it.look(*logs.read)
            assert [each.copied_step for each in await world.said() if each.request_id == "l2"][-1] == 0
        warm.goes_on.set()
        await world.until(lambda said: _is_ready(said) and said.request_id == "l2", it, logs)
        assert warm.began == [(3, STEP), (1, STEP)]

    world.run(scenario)

"""When tables of state are left unmerged, and snapshots asked for, while a change of the layout is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pytest

from kcontrol.apps import warm_up
from kcontrol.apps.held_tables import AGAIN_S, HOLD_MS, MOST_STEPS, WAITED_PARTS, HeldTables, TableCare
from kcontrol.core.log.steps_view import StepsView
from tests.unit.core.made import boundary, checkpoint

READY = ["hold", "snapshots"]


@dataclass
class _State:
    """That is open, and what was asked of it. now_s: by the clock of whoever asks."""

    asked: list[str] = field(default_factory=list)
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.tables = HeldTables(TableCare(self._hold, self._take), lambda: self.now_s)

    def _hold(self, for_ms: int) -> None:
        assert for_ms == HOLD_MS
        self.asked.append("hold")

    def _take(self) -> None:
        self.asked.append("snapshots")

    async def looked(self, steps: StepsView, request: str = "l1", *, is_ready: bool = False) -> list[str]:
        """What is asked of it at a look."""
        self.asked.clear()
        self.tables.look(request, steps, is_ready=is_ready)
        await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
        return list(self.asked)


def at(step: int, state_bytes: int | None = None) -> StepsView:
    """The log up to a step. state_bytes: of the newest checkpoint; None: there is none."""
    saved = checkpoint(1, 1)
    parts = (replace(saved.parts[0], size_bytes=state_bytes or 0),)
    return StepsView(
        "p", last=boundary(step), checkpoints=() if state_bytes is None else (replace(saved, parts=parts),)
    )


LARGE, SMALL = warm_up.MAX_BYTES + 1, warm_up.MAX_BYTES


@pytest.fixture
def run() -> Callable[[Callable[[_State], Coroutine[Any, Any, None]]], None]:
    return lambda scenario: asyncio.run(scenario(_State()))


def test_much_state_is_held_again_and_again(run: Any) -> None:
    async def scenario(state: _State) -> None:
        assert await state.looked(at(5, LARGE)) == ["hold"]
        assert await state.looked(at(6, LARGE)) == [], "not at each look"
        state.now_s += AGAIN_S
        assert await state.looked(at(7, LARGE)) == ["hold"]

    run(scenario)


def test_snapshots_are_asked_for_by_who_only_waits_for_others(run: Any) -> None:
    async def scenario(state: _State) -> None:
        assert await state.looked(at(5, LARGE), is_ready=True) == READY

    run(scenario)


def test_whoever_waits_for_long_asks_for_fewer_snapshots(run: Any) -> None:
    """Each is a table more, which is not merged."""

    async def scenario(state: _State) -> None:
        taken = []
        for look in range(int(600 / AGAIN_S)):
            state.now_s = 100.0 + look * AGAIN_S
            if await state.looked(at(5, LARGE), is_ready=True) == READY:
                taken.append(look * AGAIN_S)
        assert taken[:10] == [number * AGAIN_S for number in range(10)]
        assert all(
            0 <= after - before - after / WAITED_PARTS < 2 * AGAIN_S for before, after in pairwise(taken[15:])
        )
        assert len(taken) < 80
        assert await state.looked(at(5, LARGE), "l2", is_ready=True) == READY, "of another request"

    run(scenario)


def test_state_that_nobody_has_saved_may_be_much(run: Any) -> None:
    async def scenario(state: _State) -> None:
        assert await state.looked(at(5)) == ["hold"]

    run(scenario)


def test_little_state_is_left_alone(run: Any) -> None:
    async def scenario(state: _State) -> None:
        assert await state.looked(at(5, SMALL), is_ready=True) == []

    run(scenario)


def test_it_is_held_for_some_steps_of_each_request(run: Any) -> None:
    async def scenario(state: _State) -> None:
        assert await state.looked(at(5, LARGE)) == ["hold"]
        state.now_s += AGAIN_S
        assert await state.looked(at(5 + MOST_STEPS, LARGE)) == ["hold"]
        state.now_s += AGAIN_S
        assert await state.looked(at(6 + MOST_STEPS, LARGE), is_ready=True) == []
        assert await state.looked(at(6 + MOST_STEPS, LARGE), "l2") == ["hold"], "and at once"

    run(scenario)


def test_who_has_no_state_asks_nothing() -> None:
    HeldTables(None).look("l1", at(5, LARGE), is_ready=True)

"""The keeper of a partition: which sessions follow which, and when."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace

import pytest

from kcontrol.core.coordinator.decide import CoordinatorState
from kcontrol.core.model import Logged, Tombstone
from kcontrol.errors import AccessError
from kcontrol.sessions.coordinator import CoordinatorPorts, CoordinatorSession
from kcontrol.sessions.partition_keeper import PartitionKeeper
from tests.simulation.specs import simulated_spec
from tests.support.patience import HANG_MS, HANG_S
from tests.unit.sessions.scripted import Steps, World, until

NEVER_MS = 10 * HANG_MS
"""Longer than any test."""


def opened_as(
    kind: type[CoordinatorSession],
) -> Callable[[str], AbstractAsyncContextManager[CoordinatorSession]]:
    """For a keeper: its sessions are of this kind, each in a world of its own."""

    @asynccontextmanager
    async def open_session(pipeline: str) -> AsyncIterator[CoordinatorSession]:
        state = CoordinatorState.initial(pipeline, transactional_id="t", steps_topic="s")
        world = World()
        yield kind(state, CoordinatorPorts(world, world, Steps(world), world))

    return open_session


def test_a_keeper_starts_a_crashed_session_again_and_reclaims_when_assigned_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    incarnations: list[str] = []
    outcomes: deque[Exception | str] = deque([ValueError("a bug"), "a newer one", "again a newer one"])

    class Doomed(CoordinatorSession):
        async def run(self) -> str:
            outcome = outcomes.popleft()
            incarnations.append(str(outcome))
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

    async def fold() -> list[Logged]:
        return []

    async def scenario() -> None:
        denied: list[AccessError] = []
        keeper = PartitionKeeper(0, fold, opened_as(Doomed), denied.append, reclaim_after_ms=NEVER_MS)
        keeper.start()
        keeper.push(0, Logged(0, 0, simulated_spec(1, 0, False, 0)))
        await until(lambda: len(incarnations) == 2)
        await asyncio.sleep(0)
        keeper.confirm()
        await until(lambda: len(incarnations) == 3)
        await keeper.stop()

    asyncio.run(asyncio.wait_for(scenario(), HANG_S))
    assert incarnations == ["a bug", "a newer one", "again a newer one"]


@pytest.mark.parametrize(("later_s", "reclaims"), [(1.0, True), (60.0, False)])
def test_a_keeper_does_not_reclaim_because_it_was_assigned_long_before_somebody_else_claimed(
    later_s: float, reclaims: bool
) -> None:
    """It hung meanwhile, and was taken for dead: its partition is another one's, as it will hear."""
    resigns, now_s, begun = asyncio.Event(), [1000.0], list[int]()

    class Resigning(CoordinatorSession):
        async def run(self) -> str:
            begun.append(len(begun))
            await (resigns.wait() if len(begun) == 1 else asyncio.Event().wait())
            return "a newer one"

    async def fold() -> list[Logged]:
        return []

    async def scenario() -> None:
        keeper = PartitionKeeper(0, fold, opened_as(Resigning), lambda _: None, 10_000, lambda: now_s[0])
        keeper.push(0, Logged(0, 0, simulated_spec(1, 0, False, 0)))
        await until(lambda: len(begun) == 1)
        keeper.confirm()
        now_s[0] += later_s
        resigns.set()
        for _ in range(20):
            await asyncio.sleep(0)
        assert len(begun) == 1 + reclaims
        keeper.confirm()
        await until(lambda: len(begun) == 2)
        await keeper.stop()

    asyncio.run(asyncio.wait_for(scenario(), HANG_S))


def test_a_keeper_that_is_not_allowed_says_so_and_tries_nothing_again() -> None:
    refusal = AccessError("grant it")

    @asynccontextmanager
    async def open_session(pipeline: str) -> AsyncIterator[CoordinatorSession]:
        raise ExceptionGroup("of a session", [ExceptionGroup("inner", [refusal])])
        yield

    async def fold() -> list[Logged]:
        return []

    async def scenario() -> None:
        denied: asyncio.Queue[AccessError] = asyncio.Queue()
        keeper = PartitionKeeper(0, fold, open_session, denied.put_nowait)
        keeper.start()
        keeper.push(0, Logged(0, 0, simulated_spec(1, 0, False, 0)))
        assert await denied.get() is refusal
        await keeper.stop()
        assert denied.empty()

    asyncio.run(asyncio.wait_for(scenario(), HANG_S))


@pytest.mark.parametrize("submitted_again", [False, True])
def test_a_keeper_lets_go_of_a_deleted_pipeline_until_it_is_submitted_again(submitted_again: bool) -> None:
    """Whatever comes first: that the session has ended, or the new definition."""
    incarnations: list[int] = []
    spec = simulated_spec(1, 0, False, 0)
    gone = asyncio.Event()

    class Deleted(CoordinatorSession):
        async def run(self) -> str:
            incarnations.append(len(incarnations))
            if len(incarnations) == 2:
                await asyncio.Event().wait()
            await gone.wait()
            self.deleted_at = 1
            return "the pipeline was deleted"

    async def fold() -> list[Logged]:
        deleted = replace(spec, pipeline="deleted")
        return [Logged(0, 0, spec), Logged(1, 0, deleted), Logged(2, 0, Tombstone("deleted/spec"))]

    async def scenario() -> None:
        keeper = PartitionKeeper(0, fold, opened_as(Deleted), lambda _: None, reclaim_after_ms=NEVER_MS)
        keeper.start()
        await until(lambda: len(incarnations) == 1)
        if submitted_again:
            keeper.push(5, Logged(5, 0, spec))
        gone.set()
        if not submitted_again:
            await until(lambda: keeper.pipelines() == [])
            keeper.push(5, Logged(5, 0, spec))
        await until(lambda: len(incarnations) == 2)
        assert keeper.pipelines() == [spec.pipeline]
        await keeper.stop()

    asyncio.run(asyncio.wait_for(scenario(), HANG_S))

"""A rollback of a region is planned for all of its pipelines side by side: of each it may take seconds to hear that
nobody works for it, and a server answers within half a minute."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcontrol.apps import reset
from kcontrol.apps.kept_steps import KeptSteps
from kcontrol.apps.regions import asking, going_back
from kcontrol.apps.regions.asking import plan_region_rollback, request_of
from kcontrol.apps.regions.going_back import BackPlan, plan_rollback
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import CutPipeline, RegionCut, RegionRequestKind, RegionRollback
from kcontrol.errors import (
    AccessError,
    ClusterError,
    ConfigurationError,
    KcontrolError,
    NotFoundError,
    RetriableError,
    TopicError,
)
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S

NAMES = ("a", "b", "c")
CUT = RegionCut("all", 1, 1, tuple(CutPipeline(name, 5, (), ()) for name in NAMES))
SETTINGS = ClusterSettings(bootstrap_servers="127.0.0.1:1")


class _Logs:
    """All are at work at once, or none gets any further."""

    def __init__(self, failing: Mapping[str, KcontrolError]) -> None:
        self.looking, self.planning = asyncio.Barrier(len(NAMES)), asyncio.Barrier(len(NAMES))
        self.failing = failing
        self.void: dict[str, dict[tuple[str, int], int]] = {}
        self.opened = Counter[str]()

    @asynccontextmanager
    async def open(
        self, cluster: ClusterSettings, pipeline: str, *, newest_only: bool = False
    ) -> AsyncIterator[Any]:
        self.opened[pipeline] += 1
        async with _opened(cluster, pipeline, newest_only=newest_only) as logs:
            yield logs

    async def specs(self, _: ClusterSettings) -> dict[str, Any]:
        self.opened["definitions"] += 1
        return {}

    async def look(self, read: KeptSteps, to_step: int, _: str) -> Any:
        await self.looking.wait()
        void = {(f"of-{read.logs.pipeline}", 0): 7}
        return going_back._LookedBack(read, to_step, None, False, None, void)

    async def plan(self, _: ClusterSettings, read: KeptSteps, *rest: Any) -> None:
        pipeline = read.logs.pipeline
        await self.planning.wait()
        self.void[pipeline] = dict(rest[-1].void)
        if pipeline in self.failing:
            raise self.failing[pipeline]


@asynccontextmanager
async def _opened(_: ClusterSettings, pipeline: str, *, newest_only: bool) -> AsyncIterator[Any]:
    assert newest_only
    yield SimpleNamespace(pipeline=pipeline)


def _planned(monkeypatch: pytest.MonkeyPatch, failing: Mapping[str, KcontrolError]) -> _Logs:
    async def run() -> _Logs:
        logs = _Logs(failing)
        monkeypatch.setattr(going_back, "_look", logs.look)
        monkeypatch.setattr(going_back, "plan_reset_of", logs.plan)
        monkeypatch.setattr(going_back, "pipeline_logs", logs.open)
        monkeypatch.setattr(going_back, "all_specs", logs.specs)
        async with asyncio.timeout(HANG_S):
            await plan_rollback(SETTINGS, CUT, "q1", ())
        return logs

    return asyncio.run(run())


def test_all_are_looked_at_and_planned_at_once_and_know_what_writers_have_void(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs = _planned(monkeypatch, {})
    assert {name: sorted(topic for topic, _ in void) for name, void in logs.void.items()} == {
        "a": [],
        "b": ["of-a"],
        "c": ["of-a", "of-b"],
    }
    assert logs.opened == Counter([*NAMES, "definitions"]), "each is read once, and on"


def test_of_several_that_can_t_go_back_the_first_writer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotNowError, match="b works"):
        _planned(monkeypatch, {"c": ConfigurationError("c is refused"), "b": NotNowError("b works")})


def test_a_broker_that_is_away_is_waited_for_and_nothing_is_refused_because_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of the topics that a pipeline needs, the leader of one does not answer at first."""
    faults: list[KcontrolError] = [ClusterError("Kafka at k:1: reading the offsets of topic 'in' failed.")]

    async def plan(*_: Any) -> tuple[()]:
        with reset._asking():
            if faults:
                raise faults.pop()
        return ()

    async def run() -> tuple[tuple[BackPlan, ...], int]:
        return await plan_region_rollback(SETTINGS, "all", 1, (), Path(), timeout_s=HANG_S)

    @asynccontextmanager
    async def reader(*_: Any) -> AsyncIterator[Any]:
        change = SimpleNamespace(number=7)
        settings = RegionSettings("all", NAMES)

        async def look() -> Any:
            return SimpleNamespace(newest=change, has_ended=False, cuts={1: CUT})

        yield SimpleNamespace(look=look, definition=SimpleNamespace(settings=settings))

    monkeypatch.setattr(asking, "_SETTLES_S", HANG_S)
    monkeypatch.setattr(asking, "region_reader", reader)
    monkeypatch.setattr(asking, "plan_rollback", plan)
    assert asyncio.run(run()) == ((), 7)
    assert not faults


@pytest.mark.parametrize(
    ("fault", "refused"),
    [
        (ClusterError("no answer"), None),
        (TopicError("'in' is gone"), "'in' is gone"),
        (AccessError("no"), "no"),
    ],
)
def test_a_controller_refuses_no_rollback_because_a_broker_is_away(
    monkeypatch: pytest.MonkeyPatch, fault: KcontrolError, refused: str | None
) -> None:
    """None: it is looked at again."""

    async def plan(*_: Any) -> None:
        with reset._asking():
            raise fault

    async def run() -> str | None:
        monkeypatch.setattr(going_back, "plan_rollback", plan)
        backs = going_back.RegionRollbacks(SETTINGS)
        request = request_of("all", RegionRequestKind.ROLLBACK, "ana")
        assert await backs.refuses(CUT, request) is None
        await asyncio.wait({each for each in asyncio.all_tasks() if each is not asyncio.current_task()})
        return await backs.refuses(CUT, request)

    if refused is None:
        with pytest.raises(RetriableError, match="no answer Nothing was reset"):
            asyncio.run(run())
    else:
        assert asyncio.run(run()) == refused


def test_who_gives_up_knows_who_is_back_once_nobody_more_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`a` was reset, `b` was deleted, `c` has not been reset."""
    rollback = RegionRollback(1, "q1", "ana", "", ())

    async def look(read: KeptSteps, to_step: int, request_id: str) -> Any:
        pipeline = read.logs.pipeline
        if pipeline == "b":
            raise NotFoundError("there is no pipeline 'b'")
        done = 6 if (pipeline, request_id) == ("a", "q1") else None
        return going_back._LookedBack(read, to_step, None, False, done, {})

    async def run() -> None:
        backs = going_back.RegionRollbacks(SETTINGS)
        begun, ended = asyncio.Event(), asyncio.Event()

        async def go_back(*_: Any) -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        monkeypatch.setattr(going_back, "_look", look)
        monkeypatch.setattr(going_back, "pipeline_logs", _opened)
        monkeypatch.setattr(backs, "_go_back", go_back)
        async with asyncio.timeout(HANG_S):
            assert await backs.take_back(CUT, rollback) == frozenset()
            await begun.wait()
            assert await backs.give_up(CUT, rollback) == {"a"}
        assert ended.is_set()

    asyncio.run(run())

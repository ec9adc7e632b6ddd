"""A rollback of a region is planned for all of its pipelines side by side: of each it may take seconds to hear that
nobody works for it, and a server answers within half a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from kcontrol.apps.regions import going_back
from kcontrol.apps.regions.going_back import plan_rollback
from kcontrol.core.regions.records import CutPipeline, RegionCut
from kcontrol.errors import ConfigurationError, KcontrolError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings

NAMES = ("a", "b", "c")
CUT = RegionCut("all", 1, 1, tuple(CutPipeline(name, 5, (), ()) for name in NAMES))
SETTINGS = ClusterSettings(bootstrap_servers="127.0.0.1:1")


class _Logs:
    """All are at work at once, or none gets any further."""

    def __init__(self, failing: Mapping[str, KcontrolError]) -> None:
        self.looking, self.planning = asyncio.Barrier(len(NAMES)), asyncio.Barrier(len(NAMES))
        self.failing = failing
        self.void: dict[str, dict[tuple[str, int], int]] = {}

    async def look(self, _: ClusterSettings, pipeline: str, to_step: int, __: str) -> Any:
        await self.looking.wait()
        return going_back._LookedBack(pipeline, to_step, None, False, None, {(f"of-{pipeline}", 0): 7})

    async def plan(self, _: ClusterSettings, pipeline: str, *rest: Any) -> None:
        await self.planning.wait()
        self.void[pipeline] = dict(rest[-1].void)
        if pipeline in self.failing:
            raise self.failing[pipeline]


def _planned(monkeypatch: pytest.MonkeyPatch, failing: Mapping[str, KcontrolError]) -> _Logs:
    async def run() -> _Logs:
        logs = _Logs(failing)
        monkeypatch.setattr(going_back, "_look", logs.look)
        monkeypatch.setattr(going_back, "plan_reset", logs.plan)
        async with asyncio.timeout(20):
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


def test_of_several_that_can_t_go_back_the_first_writer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(NotNowError, match="b works"):
        _planned(monkeypatch, {"c": ConfigurationError("c is refused"), "b": NotNowError("b works")})

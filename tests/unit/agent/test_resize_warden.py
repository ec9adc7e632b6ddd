"""How soon a warden asks a pipeline for the layout that is wanted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.agent import resizing
from kcontrol.apps.agent.resizing import ResizeWarden
from kcontrol.core.cluster.resize_wards import Resizing
from kcontrol.core.model import AgentPlacement, ControlRecord, LayoutRequest
from kcontrol.requests.resizing import LayoutSeen
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S

ONE = Resizing("p", 10, 3, 40, 5, 40)
WISH = AgentPlacement(5, 40)
WITHDRAWN = LayoutRequest("p", "w", 1, 0, 0, wish=WISH)
THREE = LayoutRequest("p", "three", 1, 3, 60_000, wish=WISH)


@dataclass
class Logs:
    """Of a pipeline that was submitted; what is written there."""

    written: list[ControlRecord] = field(default_factory=list)

    @property
    def control(self) -> Logs:
        return self

    async def append(self, records: Sequence[ControlRecord]) -> None:
        self.written += records

    async def is_heard(self, _clock: SystemClock) -> bool:
        return True


def _warden(
    monkeypatch: pytest.MonkeyPatch, logs: Logs, seen: list[LayoutSeen], *may_ask: bool
) -> ResizeWarden:
    """may_ask: the first times; then it may."""

    @asynccontextmanager
    async def pipeline_logs(_settings: ClusterSettings, _pipeline: str) -> AsyncIterator[Logs]:
        yield logs

    looks, told = iter(seen), iter(may_ask)
    monkeypatch.setattr(resizing, "pipeline_logs", pipeline_logs)
    monkeypatch.setattr(resizing, "TIMEOUT_S", HANG_S)
    monkeypatch.setattr(resizing, "layout_seen", lambda *_: next(looks))
    return ResizeWarden(ClusterSettings(bootstrap_servers="nowhere:1"), lambda: next(told, True), every_ms=0)


def test_what_is_wanted_is_asked_for_as_soon_as_a_withdrawal_is_answered_and_then_not_again_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs, again = Logs(), replace(THREE, request_id="again")
    looks = [
        LayoutSeen(request=WITHDRAWN),
        LayoutSeen(why="a change of its layout is under way"),
        LayoutSeen(2, request=THREE),
        LayoutSeen(2, request=again),
    ]

    async def play() -> None:
        warden = _warden(monkeypatch, logs, looks)
        seen = [await warden.seen([ONE]) for _ in range(4)]
        assert seen == [[], [], [(ONE, 2)], [(ONE, 2)]]

    asyncio.run(play())
    assert logs.written == [WITHDRAWN, THREE], (
        "what was refused or given up is asked for again after a minute"
    )


def test_that_there_are_as_many_as_are_wanted_is_said_once_the_last_word_is_in_the_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logs, last = Logs(), replace(THREE, wish=replace(WISH, generation=41))
    looks = [LayoutSeen(2, request=THREE), *2 * [LayoutSeen(3, request=last, is_last=True)]]

    async def play() -> None:
        warden = _warden(monkeypatch, logs, looks, True, False)
        assert await warden.seen([ONE]) == [(ONE, 2)]
        assert await warden.seen([ONE]) == [], "what it knows of the cluster is old"
        assert logs.written == [THREE]
        assert await warden.seen([ONE]) == [(ONE, 3)], "at once, though it has asked a moment ago"

    asyncio.run(play())
    assert logs.written == [THREE, last]

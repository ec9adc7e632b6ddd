"""Asking a region while a broker is away: it is waited for, within the time that whoever asks has."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest

from kcontrol.apps.regions import asking
from kcontrol.apps.regions.asking import RegionReader, request_of
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import RegionSettings, Trigger
from kcontrol.core.regions.records import (
    RegionAnswer,
    RegionDefinition,
    RegionOutcome,
    RegionRequest,
    RegionRequestKind,
)
from kcontrol.errors import NotFoundError, RetriableError
from kcontrol.requests.record import NotNowError
from tests.support.patience import HANG_S

AWAY = RetriableError("no connection to broker 1")


class Asked:
    """The topic of regions. away: the next so many looks and appends meet a broker that is away; of an append the record may be
    there all the same."""

    def __init__(self, looks_away: int, appends_away: int) -> None:
        settings = RegionSettings("all", ("a", "b"), Trigger.OPERATOR_DRIVEN, ("a",))
        self.definitions = {"all": RegionDefinition("all", settings, "ana", 1, "d")}
        self.looks_away, self.appends_away = looks_away, appends_away
        self.written: list[RegionRequest] = []

    async def look(self) -> None:
        if self.looks_away:
            self.looks_away -= 1
            raise AWAY

    async def ask(self, record: RegionRequest) -> int:
        self.written.append(record)
        if self.appends_away:
            self.appends_away -= 1
            raise AWAY
        return len(self.written)

    def requests(self, region: str) -> dict[RegionRequestKind, RegionRequest]:
        return {each.kind: each for each in self.written}


class Answered(RegionLogView):
    """Each request is answered, once it is written."""

    def answer(self, request_id: str) -> RegionAnswer | None:
        return RegionAnswer(RegionRequestKind.DRAIN, request_id, RegionOutcome.DONE, 7)


class Log:
    async def read(self) -> Sequence[Any]:
        return ()


def ask(asked: Asked, timeout_s: float, view: RegionLogView, member: str = "") -> RegionAnswer:
    request = request_of("all", RegionRequestKind.DRAIN, "a test", member=member)

    async def done() -> RegionAnswer:
        reader = RegionReader("all", cast(Any, asked), cast(Any, Log()))
        reader.view = view
        return await reader.ask(request, timeout_s)

    return asyncio.run(done())


@pytest.fixture(autouse=True)
def _views_stay_what_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "read_on", lambda view, _: view)


@pytest.fixture(autouse=True)
def _a_broker_may_settle_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "_SETTLES_S", HANG_S)


@pytest.mark.parametrize(("looks", "appends"), [(2, 0), (0, 2), (3, 1)])
def test_a_broker_that_is_away_is_waited_for(looks: int, appends: int) -> None:
    asked = Asked(looks, appends)
    assert ask(asked, HANG_S, Answered()).seq_id == 7
    assert len(asked.written) == appends + 1
    assert len({each.request_id for each in asked.written}) == 1, "the same request, which counts once"


def test_but_no_longer_than_there_is_time() -> None:
    asked = Asked(looks_away=1_000, appends_away=0)
    with pytest.raises(RetriableError, match="is asked of region 'all'"):
        ask(asked, 0.3, Answered())
    assert not asked.written


def test_nobody_answers_in_time() -> None:
    with pytest.raises(RetriableError, match="nobody is in charge of it"):
        ask(Asked(0, 0), 0.3, RegionLogView())


def test_a_region_that_is_not_there_is_an_error_at_once() -> None:
    asked = Asked(0, 0)
    asked.definitions.clear()
    with pytest.raises(NotFoundError, match="there is no region 'all'"):
        ask(asked, HANG_S, Answered())


def test_who_may_not_ask_displaces_nobodys_wish() -> None:
    asked = Asked(0, 0)
    with pytest.raises(NotNowError, match="'b' may not ask for drains of region 'all': a may"):
        ask(asked, HANG_S, Answered(), "b")
    assert asked.written == []
    ask(asked, HANG_S, Answered(), "a")
    assert [each.member for each in asked.written] == ["a"]

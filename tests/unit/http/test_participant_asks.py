"""A participant that asks for drains by itself, of a real server on loopback that is told of its region."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from kcontrol import RegionParticipant
from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.http.listener import HttpOptions, Listener
from kcontrol.adapters.http.plane import Plane
from kcontrol.apps.regions.participant import RegionOrder
from kcontrol.core.regions.leading import began
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import RegionSettings, Trigger
from kcontrol.core.regions.records import RegionAsked, RegionDefinition, RegionRequest, RegionSaid, SaidKind
from kcontrol.core.regions.value import WrittenBy, change_of
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.regions_facts import RegionSight, RegionsSeen
from tests.support.patience import HANG_S
from tests.support.patient_http import patient_limits
from tests.support.shared_api import api_of

SETTINGS = RegionSettings(
    "orders", ("a", "mq", "other"), Trigger.OPERATOR_DRIVEN, triggers=("mq",), participants=("mq", "other")
)


def sight(next_drain: int) -> RegionSight:
    definition = RegionDefinition("orders", SETTINGS, "ana", 1, "d1")
    first = began(definition)
    change = change_of(first.value, first.happened, WrittenBy("c", 1, 1))
    return RegionSight(definition, read_on(RegionLogView(), [replace(change, current_seq_id=next_drain)]))


@contextmanager
def served(*drains: int) -> Iterator[tuple[str, list[RegionAsked]]]:
    """Its address, and what is written down. drains: the number of the next drain, at each look at the region; the last one
    for ever."""
    numbers, written = list(drains), list[RegionAsked]()

    def regions() -> RegionsSeen:
        return {"orders": sight(numbers.pop(0) if len(numbers) > 1 else numbers[0])}

    async def write(record: RegionAsked) -> int:
        written.append(record)
        return 19 + len(written)

    nobody = ClusterSettings(bootstrap_servers="127.0.0.1:1")
    without = cast(Any, None), SystemClock(), CollectorRegistry()
    api = api_of(Plane(nobody, *without, regions=regions, ask_region=write))
    listener = Listener(HttpOptions(limits=patient_limits()))
    with listener.in_thread(lambda: asyncio.ensure_future(listener.serve(api))):
        yield listener.url, written


def participant(name: str, url: str) -> RegionParticipant:
    return RegionParticipant("orders", name, url, timeout_s=HANG_S)


def test_it_asks_in_its_own_name_for_the_next_drain_whichever_that_is_by_then() -> None:
    with served(2, 2, 3) as (url, written), participant("mq", url) as member:
        member.ask_for_drain()
        asked = [each for each in written if isinstance(each, RegionRequest)]
    assert [(each.kind, each.member) for each in asked] == [("drain", "mq")]


def test_one_that_may_not_is_told_so_and_nothing_is_asked() -> None:
    with served(2) as (url, written), participant("other", url) as member:
        with pytest.raises(ConfigurationError, match="mq may, by its triggers"):
            member.ask_for_drain()
        assert not [each for each in written if isinstance(each, RegionRequest)]


class LateTurn:
    """A lock that others have first: what they do then is given."""

    def __init__(self, turn: threading.Lock, others: list[Callable[[], None]]) -> None:
        self._turn, self._others = turn, others

    def __enter__(self) -> None:
        while self._others:
            self._others.pop()()
        self._turn.acquire()

    def __exit__(self, *_: object) -> None:
        self._turn.release()


def test_a_beat_takes_back_nothing_that_is_said_while_it_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would say for ever that it has only joined: what it has done may be read by nobody in between."""
    with served(2) as (url, written), participant("mq", url) as member:
        order = RegionOrder("triggerDrain", 2, 1, 0, False, -1)
        turn = LateTurn(member._speaking, [lambda: member.checkpoint_done(order)])
        ends = iter([False, True])
        with monkeypatch.context() as patched:
            patched.setattr(member, "_speaking", turn)
            patched.setattr(member, "_closed", SimpleNamespace(wait=lambda _: next(ends)))
            member._beat()
        said = [(each.kind, each.seq_id) for each in written if isinstance(each, RegionSaid)]
    assert said[1:] == [(SaidKind.CHECKPOINT_DONE, 2)] * 2

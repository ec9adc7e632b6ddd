"""A region that is deleted while its pipelines are held, and defined again."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from kcontrol.apps.regions import defining
from kcontrol.apps.regions.defining import apply_region
from kcontrol.core.regions.leading import RegionSeen, began, next_change
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import RegionSettings, RegionState, Trigger
from kcontrol.core.regions.records import CutPipeline, RegionDefinition, RegionRequest, RegionRequestKind
from kcontrol.sessions.region_ports import MembersSeen
from kcontrol.settings.cluster import ClusterSettings
from tests.unit.regions.led import IdleMembers, LedRegion

NOBODY = ClusterSettings(bootstrap_servers="127.0.0.1:1")
SETTINGS = RegionSettings("orders", ("a", "b"), Trigger.OPERATOR_DRIVEN, max_reset_attempts=1)
FIRST = RegionDefinition("orders", SETTINGS, "ana", 0, "d1", "d1")
WITHIN_S = 600.0


@dataclass
class Members(IdleMembers):
    """The RegionMembers port: all come to a cut, stay, and are let go, at once."""

    is_held: bool = False

    async def drain(self, number: int, *, stays: bool) -> tuple[CutPipeline, ...] | None:
        return tuple(CutPipeline(name, 1, (), ()) for name in self.seen.lives)

    async def hold(self, number: int) -> dict[str, int]:
        self.is_held = True
        return dict.fromkeys(self.seen.lives, 1)

    async def release(self, number: int) -> frozenset[str]:
        self.is_held = False
        return frozenset(self.seen.lives)


def _held() -> tuple[LedRegion, Members]:
    members, kind = Members(MembersSeen()), RegionRequestKind.DRAIN
    region = LedRegion(SETTINGS, members=members)
    region.asked.definitions["orders"] = FIRST
    region.until(lambda newest: newest.state is RegionState.PROCESSING)
    region.asked.wanted[kind] = RegionRequest("orders", kind, "ana", 1, "q1", hold=True)
    region.until(lambda newest: newest.is_held)
    region.loop.run_while(lambda: not members.is_held, WITHIN_S)
    region.asked.wanted.clear()
    return region, members


def _defined(region: LedRegion, definition: RegionDefinition) -> None:
    region.asked.definitions["orders"] = definition
    region.until(
        lambda newest: (
            newest.definition_id == definition.request_id and newest.state is RegionState.PROCESSING
        )
    )


@pytest.mark.parametrize("is_seen", [False, True])
def test_it_begins_free(is_seen: bool) -> None:
    """is_seen: whether whoever is in charge has looked between."""
    region, members = _held()
    assert members.is_held
    if is_seen:
        del region.asked.definitions["orders"]
        region.loop.run_while(lambda: not read_on(RegionLogView(), region.topic.records).has_ended, WITHIN_S)
        assert not members.is_held
    _defined(region, replace(FIRST, request_id="d2", incarnation="d2"))
    newest = region.changes()[-1]
    assert (newest.is_held, newest.incarnation, newest.last_completed_seq_id) == (False, "d2", 1)
    region.loop.run_while(lambda: members.is_held, region.loop.time() + WITHIN_S)
    assert not members.is_held
    region.end()


@pytest.mark.parametrize("incarnation", ["d1", ""])
def test_one_that_is_defined_anew_stays_held(incarnation: str) -> None:
    """incarnation: '' where an older version defines it anew."""
    region, _ = _held()
    settings = replace(SETTINGS, keep_cuts=7)
    _defined(region, replace(FIRST, settings=settings, request_id="d2", incarnation=incarnation))
    newest = region.changes()[-1]
    assert (newest.is_held, newest.incarnation, newest.settings.keep_cuts) == (True, "d1", 7)
    region.end()


def test_attempts_of_the_one_before_do_not_count() -> None:
    value = began(FIRST).value
    spent = replace(value, region=replace(value.region, state=RegionState.SPENT, reset_attempt=1))
    for incarnation, most in (("d1", 1), ("d2", 2)):
        led = next_change(spent, replace(FIRST, request_id="d2", incarnation=incarnation), RegionSeen())
        assert led is not None
        assert (led.value.region.reset_attempt, led.value.region.max_reset_attempts) == (1, most)


class _Asked:
    """The topic of regions."""

    def __init__(self, definitions: dict[str, RegionDefinition]) -> None:
        self.definitions = definitions
        self._defined: list[tuple[str, RegionDefinition]] = []

    def __call__(self, _: ClusterSettings) -> _Asked:
        """A reader that begins."""
        self._defined = list(self.definitions.items())
        return self

    def take_defined(self) -> list[tuple[str, RegionDefinition]]:
        found, self._defined = self._defined, []
        return found

    async def look(self) -> None:
        """All is known."""

    async def ask(self, record: RegionDefinition) -> int:
        self.definitions[record.region] = record
        self._defined.append((record.region, record))
        return 1

    async def close(self) -> None:
        """Nothing is open."""


def test_a_definition_says_whether_there_was_such_a_region(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: Any = _Asked({})
    monkeypatch.setattr(defining, "specs_of", AsyncMock(return_value={}))
    monkeypatch.setattr(defining, "refused_graph", lambda _: "")
    monkeypatch.setattr(defining, "ensure_regions_topic", lambda *_: None)
    monkeypatch.setattr(defining, "ensure_region_log", lambda *_: None)
    monkeypatch.setattr(defining, "KafkaAskedRegions", asked)

    def apply(settings: RegionSettings) -> RegionDefinition:
        assert asyncio.run(apply_region(NOBODY, settings, "ana"))
        found: RegionDefinition = asked.definitions["orders"]
        return found

    first = apply(SETTINGS)
    again = apply(replace(SETTINGS, keep_cuts=7))
    assert again.request_id != first.request_id == first.incarnation == again.incarnation
    asked.definitions.clear()
    assert apply(SETTINGS).incarnation not in ("", first.incarnation)
    asked.definitions["orders"] = replace(first, incarnation="")
    assert apply(replace(SETTINGS, keep_cuts=7)).incarnation == "", "an older version has begun it"

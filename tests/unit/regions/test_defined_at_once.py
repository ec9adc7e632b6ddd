"""Of several who define regions at the same moment each is told what stands."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from kcontrol.adapters.kafka.regions import asked
from kcontrol.adapters.kafka.regions.asked import KafkaAskedRegions
from kcontrol.apps.regions.defining import define
from kcontrol.core.regions.definitions import standing
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionDefinition
from kcontrol.errors import ConfigurationError
from kcontrol.requests.record import NotNowError
from kcontrol.sessions.region_ports import MembersSeen
from tests.unit.regions.led import IdleMembers, LedRegion
from tests.unit.regions.test_asked import NOBODY, Reader, Topic

SETTINGS = RegionSettings("orders", ("a", "b"))
ANAS, BOBS = replace(SETTINGS, keep_cuts=7), replace(SETTINGS, keep_cuts=8)
FIRST = RegionDefinition("orders", SETTINGS, "eve", 1, "d1", "d1")


class Meanwhile(Topic):
    """Somebody else is quicker: what they do comes before the next record."""

    def __init__(self) -> None:
        super().__init__()
        self.do: Callable[[], Coroutine[Any, Any, Any]] | None = None

    async def append(self, pairs: Any) -> list[int]:
        do, self.do = self.do, None
        if do is not None:
            await do()
        return await super().append(pairs)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    topic = Meanwhile()
    monkeypatch.setattr(asked, "PartitionReader", lambda *_: Reader(topic))
    monkeypatch.setattr(asked, "Appender", lambda *_: topic)
    return topic


async def defined(settings: RegionSettings, by: str) -> bool:
    return await define(KafkaAskedRegions(NOBODY), settings, by, 1)


async def stands(region: str = "orders") -> RegionDefinition | None:
    """For whoever reads the topic."""
    reader = KafkaAskedRegions(NOBODY)
    await reader.look()
    return reader.definitions.get(region)


@pytest.mark.parametrize("is_new", [True, False])
def test_who_is_second_is_told_that_the_first_definition_stands(topic: Meanwhile, is_new: bool) -> None:
    async def run() -> None:
        if not is_new:
            await KafkaAskedRegions(NOBODY).ask(FIRST)
        topic.do = lambda: defined(ANAS, "ana")
        with pytest.raises(
            NotNowError, match="was defined by ana at the same moment: that definition stands"
        ):
            await defined(BOBS, "bob")
        found = await stands()
        assert found is not None
        assert (found.settings, found.by) == (ANAS, "ana"), "also for controllers"
        assert await defined(BOBS, "bob"), "who has seen it takes its place"
        last = await stands()
        assert last is not None
        assert (last.settings, last.follows) == (BOBS, found.request_id)

    asyncio.run(run())


def test_who_is_first_is_not_told_otherwise(topic: Meanwhile) -> None:
    """The second has not read on yet, and dies then."""

    async def run() -> None:
        await KafkaAskedRegions(NOBODY).ask(FIRST)
        first, unseen = (
            KafkaAskedRegions(NOBODY),
            RegionDefinition("orders", BOBS, "bob", 1, "d9", "d1", "d1"),
        )
        look, looks = first.look, 0

        async def looked() -> None:
            nonlocal looks
            looks += 1
            if looks == 2:
                await KafkaAskedRegions(NOBODY).ask(unseen)
            await look()

        first.look = looked  # type: ignore[method-assign]
        assert await define(first, ANAS, "ana", 1)
        found = await stands()
        assert found is not None
        assert found.settings == ANAS

    asyncio.run(run())


def test_a_definition_of_what_was_deleted_at_that_moment_does_not_stand(topic: Meanwhile) -> None:
    async def run() -> None:
        await KafkaAskedRegions(NOBODY).ask(FIRST)
        topic.do = lambda: KafkaAskedRegions(NOBODY).forget("orders")
        with pytest.raises(NotNowError, match="was deleted at the same moment"):
            await defined(ANAS, "ana")
        assert await stands() is None

    asyncio.run(run())


def test_two_regions_that_share_a_pipeline_do_not_pass_unseen(topic: Meanwhile) -> None:
    money = RegionSettings("money", ("b", "c"))

    async def run() -> None:
        topic.do = lambda: defined(money, "ana")
        with pytest.raises(
            ConfigurationError, match=r"pipeline 'b' is of region 'money'.*Neither is drained"
        ):
            await defined(SETTINGS, "bob")
        assert (await stands(), await stands("money")) != (None, None)
        with pytest.raises(
            ConfigurationError, match="pipeline 'b' is of region 'money', and would be held by both"
        ):
            await defined(replace(SETTINGS, keep_cuts=9), "bob")

    asyncio.run(run())


def test_a_region_that_shares_a_pipeline_is_not_drained() -> None:
    region = LedRegion(SETTINGS, members=IdleMembers(MembersSeen()))
    region.until(lambda newest: newest.is_healthy)
    other = RegionDefinition("money", RegionSettings("money", ("b", "c")), "bob", 1, "d7")
    region.asked.definitions["money"] = other
    ill = region.until(lambda newest: not newest.is_healthy)
    assert "pipeline 'b' is of region 'money'" in ill.happened.why
    del region.asked.definitions["money"]
    region.until(lambda newest: newest.is_healthy)
    region.end()


def test_what_older_versions_define_counts() -> None:
    """They do not say what they follow; one that takes its own for the first, where there is one, has not seen that."""
    anew = replace(FIRST, settings=BOBS, request_id="d2")
    assert standing(FIRST, [anew]) == anew
    assert standing(FIRST, [replace(anew, incarnation="")]) == replace(anew, incarnation="")
    assert standing(FIRST, [replace(anew, incarnation="d2")]) == FIRST
    assert standing(FIRST, [None, replace(anew, incarnation="d2")]) == replace(anew, incarnation="d2")

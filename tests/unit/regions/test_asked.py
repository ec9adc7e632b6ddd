"""What is wanted of regions, as the topic of regions says: also after compaction, and after a region was deleted."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.adapters.kafka.regions import asked
from kcontrol.adapters.kafka.regions.asked import KafkaAskedRegions
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import (
    RegionDefinition,
    RegionPods,
    RegionRequest,
    RegionRequestKind,
    RegionSaid,
    SaidKind,
)
from kcontrol.settings.cluster import ClusterSettings

NOBODY = ClusterSettings(bootstrap_servers="127.0.0.1:1")
DEFINED = RegionDefinition("orders", RegionSettings("orders", ("a",)), "ana", 1, "d1")
OTHER = RegionDefinition("money", RegionSettings("money", ("b",)), "ana", 1, "d2")
ASKED = [RegionRequest("orders", kind, "ana", 1, f"q-{kind}", hold=True) for kind in RegionRequestKind]
PODS = RegionPods("orders", "kubernetes", 1, ("a-0: Pending",))


class Topic:
    """One partition in memory; a reader and a writer of it."""

    def __init__(self) -> None:
        self.records: list[RawRecord] = []
        self._next = 0

    def compact(self) -> None:
        """Of each key the newest value is left, and nothing of those whose newest is a tombstone."""
        newest = {record.key: record for record in self.records}
        self.records = [each for each in self.records if newest[each.key] is each and each.value is not None]

    async def append(self, pairs: Sequence[tuple[bytes, bytes | None]]) -> list[int]:
        offsets = [self._next + number for number in range(len(pairs))]
        self.records += [RawRecord(at, 0, *pair, ()) for at, pair in zip(offsets, pairs, strict=True)]
        self._next += len(pairs)
        return offsets

    async def close(self) -> None:
        """Nothing is open."""


class Reader:
    def __init__(self, topic: Topic) -> None:
        self._topic, self._position = topic, 0

    async def read_to_end(self) -> list[RawRecord]:
        found = [each for each in self._topic.records if each.offset >= self._position]
        self._position = max((each.offset + 1 for each in found), default=self._position)
        return found


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> Topic:
    topic = Topic()
    monkeypatch.setattr(asked, "PartitionReader", lambda *_: Reader(topic))
    monkeypatch.setattr(asked, "Appender", lambda *_: topic)
    return topic


async def wanted(reader: KafkaAskedRegions | None = None) -> tuple[Any, ...]:
    """Of `orders`, by who has read on, or begins now."""
    reader = reader or KafkaAskedRegions(NOBODY)
    await reader.look()
    return set(reader.definitions), reader.requests("orders"), reader.pods("orders")


@pytest.mark.parametrize("compacted", [False, True])
def test_what_was_asked_of_a_deleted_region_is_not_asked_of_the_next(topic: Topic, compacted: bool) -> None:
    """Somebody has asked for a drain and a hold while nobody was in charge, and then deleted the region."""

    async def run() -> None:
        writer, follower = KafkaAskedRegions(NOBODY), KafkaAskedRegions(NOBODY)
        for record in (DEFINED, OTHER, *ASKED, PODS):
            await writer.ask(record)
        everything = {each.kind: each for each in ASKED}
        assert (await wanted(follower))[1] == everything
        await writer.forget("orders")
        if compacted:
            topic.compact()
        else:
            assert await wanted(follower) == ({"money"}, {}, None)
        await writer.ask(DEFINED)
        assert await wanted() == ({"orders", "money"}, {}, None)
        assert (await wanted(follower))[0] == {"orders", "money"}
        await writer.ask(ASKED[0])
        assert (await wanted())[1] == {ASKED[0].kind: ASKED[0]}

    asyncio.run(run())


def test_a_region_that_is_defined_anew_keeps_what_was_asked_of_it(topic: Topic) -> None:
    async def run() -> None:
        writer = KafkaAskedRegions(NOBODY)
        for record in (DEFINED, ASKED[0], DEFINED):
            await writer.ask(record)
        topic.compact()
        assert (await wanted())[1] == {ASKED[0].kind: ASKED[0]}

    asyncio.run(run())


def test_lives_of_a_participant_that_are_over_leave_nothing(topic: Topic) -> None:
    """A bridge is started again each day, for years; the one of yesterday wakes up once more."""

    async def run() -> None:
        server, follower = KafkaAskedRegions(NOBODY), KafkaAskedRegions(NOBODY)

        async def say(process: str, life: int = -1, member: str = "mq") -> int:
            return await server.ask(RegionSaid("orders", member, process, life, SaidKind.JOINED, 1))

        await server.ask(DEFINED)
        other = await say("other", member="slot")
        life = -1
        for day in range(20):
            yesterday, life = life, await say(f"day-{day}")
            await say(f"day-{day}", life)
            if yesterday >= 0:
                await say(f"day-{day - 1}", yesterday)
        again = await say("day-19")
        assert again > life
        await follower.look()
        assert (follower.said("orders")["mq"].life, follower.said("orders")["slot"].life) == (again, other)
        topic.compact()
        keys = [(record.key or b"").decode() for record in topic.records]
        assert sorted(keys) == ["orders/definition", "orders/member/mq/day-19", "orders/member/slot/other"]
        later = KafkaAskedRegions(NOBODY)
        await later.look()
        assert later.said("orders") == follower.said("orders")

    asyncio.run(run())


def test_a_life_that_nobody_was_given_is_not_heard(topic: Topic) -> None:
    async def run() -> None:
        writer = KafkaAskedRegions(NOBODY)
        for life in (5_000, -1, 5_000):
            await writer.ask(RegionSaid("orders", "mq", "p", life, SaidKind.JOINED, 1, 0, 0, ""))
        await writer.look()
        assert writer.said("orders")["mq"].life == 1

    asyncio.run(run())

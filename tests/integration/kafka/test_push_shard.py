"""What whoever takes a shard of pushes reads: requests that count, and each of them once, however often it has to begin."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count, islice

import pytest

from examples.topic_reading import read_topics
from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.adapters.kafka.push import shard as shards
from kcontrol.adapters.kafka.push.log import KafkaPushLog
from kcontrol.adapters.kafka.push.shard import Shard
from kcontrol.adapters.kafka.push.topic import SHARDS
from kcontrol.errors import RetriableError
from kcontrol.requests.push.limits import SLACK_MS, MemoryLimits
from kcontrol.requests.push.log import Push, Pushed
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.murmur2 import partition_of
from kcontrol.wire.pushed import request_key
from tests.conftest import TopicFactory
from tests.integration.kafka.pushing import PIPELINE, rows_of
from tests.integration.kafka.test_push import World

DAY_MS = MemoryLimits().remember_ms
HOUR_MS = 3_600_000
SHARD = 3


class StandingClock(SystemClock):
    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms


@pytest.fixture
def world(settings: ClusterSettings, topic_factory: TopicFactory) -> World:
    return World(settings, topic_factory)


def ids_of(world: World) -> Iterator[str]:
    """Of requests that belong to one shard."""
    for number in count():
        key = request_key(PIPELINE, world.item.name, str(number))
        if partition_of(key.encode(), SHARDS) == SHARD:
            yield str(number)


async def push(world: World, ids: list[str], at_ms: int, remember_ms: int = DAY_MS) -> list[Pushed]:
    """By a server that remembers requests for so long."""
    log = KafkaPushLog(world.settings, StandingClock(at_ms), MemoryLimits(remember_ms))
    try:
        return [await log.push(Push(PIPELINE, world.item, each, rows_of(each))) for each in ids]
    finally:
        await log.close()


async def taken(world: World, at_ms: int, remember_ms: int = DAY_MS) -> Shard:
    """Closed."""
    shard = Shard(world.settings, SHARD, StandingClock(at_ms), remember_ms)
    try:
        await shard.take()
    finally:
        await shard.close()
    return shard


def known(shard: Shard) -> list[str]:
    return [each.request_id for each in shard.known.values()]


def test_a_shard_that_is_read_for_longer_than_one_deadline_is_had_by_the_next_tries(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = list(islice(ids_of(world), 4))
    monkeypatch.setattr(shards, "CHUNK_BYTES", 1)

    async def run() -> None:
        now_ms = SystemClock().now_ms()
        await push(world, ids, now_ms)
        shard, deadlines = Shard(world.settings, SHARD, StandingClock(now_ms), DAY_MS), 0
        monkeypatch.setattr(shards, "READ_MS", 0)
        try:
            while not shard.is_ours:
                before = len(shard.known)
                try:
                    await shard.take()
                except RetriableError:
                    deadlines += 1
                    assert deadlines <= 2 * len(ids), "a record and a marker each"
                assert len(shard.known) <= before + 1
        finally:
            await shard.close()
        assert deadlines >= 2
        assert known(shard) == ids

    asyncio.run(run())


def test_what_no_longer_counts_is_not_kept(world: World) -> None:
    old, new = list(islice(ids_of(world), 2))

    async def run() -> None:
        now_ms = SystemClock().now_ms()
        await push(world, [old], now_ms - DAY_MS - SLACK_MS)
        await push(world, [new], now_ms - DAY_MS - SLACK_MS + 1)
        assert known(await taken(world, now_ms)) == [new]

    asyncio.run(run())


def test_reading_begins_where_requests_may_count(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kafka has the time of each record; the clock of a server may be `SLACK_MS` before or behind it, and so may be that of
    whoever has promised to remember a request."""
    older, newer = list(islice(ids_of(world), 2))
    read: list[int] = []
    learn = Shard._learn

    async def spied(self: Shard, records: list[RawRecord]) -> None:
        read.extend(record.offset for record in records)
        await learn(self, records)

    async def run() -> None:
        now_ms = SystemClock().now_ms()
        await push(world, [older, newer], now_ms)
        topic = world.settings.names().pushes_topic()
        first, second = read_topics(world.settings.bootstrap_servers, [topic])
        times = [each.timestamp()[1] for each in (first, second)]
        assert times[0] < times[1]
        monkeypatch.setattr(Shard, "_learn", spied)
        await taken(world, times[0] + DAY_MS + 2 * SLACK_MS)
        assert read == [first.offset(), second.offset()]
        read.clear()
        await taken(world, times[1] + DAY_MS + 2 * SLACK_MS)
        assert read == [second.offset()]

    asyncio.run(run())


def test_what_a_server_has_promised_holds_at_one_that_remembers_for_less_long(world: World) -> None:
    async def run() -> None:
        now_ms = SystemClock().now_ms()
        [first] = await push(world, ["a"], now_ms)
        assert first.request.until_ms == now_ms + DAY_MS
        for at_ms in (now_ms + HOUR_MS, now_ms + DAY_MS - 1):
            [again] = await push(world, ["a"], at_ms, remember_ms=60_000)
            assert (again.replayed, again.request.until_ms) == (True, now_ms + DAY_MS)
        forgotten_ms = now_ms + DAY_MS + SLACK_MS
        [new] = await push(world, ["a"], forgotten_ms, remember_ms=60_000)
        assert (new.replayed, new.request.until_ms) == (False, forgotten_ms + 60_000)

    asyncio.run(run())


@pytest.mark.parametrize("ahead_ms", [SLACK_MS, -SLACK_MS])
def test_a_request_counts_at_a_server_whose_clock_is_another(world: World, ahead_ms: int) -> None:
    """It is remembered for a minute, and sent again within it."""

    async def run() -> None:
        now_ms = SystemClock().now_ms()
        [first] = await push(world, ["a"], now_ms, remember_ms=60_000)
        [again] = await push(world, ["a"], now_ms + ahead_ms + 59_999, remember_ms=60_000)
        assert (again.replayed, again.request) == (True, first.request)

    asyncio.run(run())
    rows = world.committed()
    assert {len(places) for places in rows.values()} == {1}


@pytest.mark.parametrize("newer_remember_ms", [DAY_MS, 1_000])
def test_each_request_says_how_far_back_another_may_count(world: World, newer_remember_ms: int) -> None:
    """Whoever remembers for a second begins with the newer one, which was written by whoever knew the older one."""
    older, newer = list(islice(ids_of(world), 2))

    async def run() -> None:
        now_ms = SystemClock().now_ms()
        await push(world, [older], now_ms, DAY_MS)
        await push(world, [newer], now_ms, newer_remember_ms)
        topic = world.settings.names().pushes_topic()
        times = [each.timestamp()[1] for each in read_topics(world.settings.bootstrap_servers, [topic])]
        assert times[0] < times[1]
        found = known(await taken(world, times[1] + 1_000 + 2 * SLACK_MS, 1_000))
        assert found == ([older, newer] if newer_remember_ms == DAY_MS else [older])

    asyncio.run(run())


def test_what_counts_no_longer_is_not_looked_back_for(world: World) -> None:
    older, newer, last = list(islice(ids_of(world), 3))

    async def run() -> None:
        now_ms = SystemClock().now_ms()
        await push(world, [older], now_ms)
        clock = StandingClock(now_ms)
        log = KafkaPushLog(world.settings, clock, MemoryLimits(1_000))
        try:
            for clock.at_ms, each, longest_ms in (
                (now_ms, newer, DAY_MS),
                (now_ms + DAY_MS + SLACK_MS, last, 1_000),
            ):
                pushed = await log.push(Push(PIPELINE, world.item, each, rows_of(each)))
                assert pushed.request.longest_ms == longest_ms
        finally:
            await log.close()

    asyncio.run(run())

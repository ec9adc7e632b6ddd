"""An input watcher tells of committed input as it arrives, of retention, and of topics
that are not the same any more."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.read.watcher import GONE_TOPIC_ID, PACE_S, Arrival, KafkaInputWatcher
from kcontrol.core.model import Gap
from kcontrol.core.step.gaps import records_between
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.support.patience import HANG_S
from tests.support.transactions import transactional

_DEADLINE_S = HANG_S
Scenario = Callable[[AsyncIterator[Arrival]], Awaitable[None]]


def _watch(
    settings: ClusterSettings,
    topic: str,
    partitions: Iterable[int],
    scenario: Scenario,
    takes: Callable[[int], bool] = lambda _: False,
) -> None:
    async def main() -> None:
        watcher = KafkaInputWatcher(settings, topic, partitions, takes, partitions_every_s=0.05)
        try:
            async with asyncio.timeout(_DEADLINE_S), aclosing(watcher.arrivals()) as arrivals:
                await scenario(arrivals)
        finally:
            await watcher.close()

    asyncio.run(main())


async def _until(arrivals: AsyncIterator[Arrival], true: Callable[[dict[int, int]], bool]) -> dict[int, int]:
    """The ends by partition, once they are as wanted."""
    async for partitions, _ in arrivals:
        ends = {part.partition: part.to for part in partitions}
        if true(ends):
            return ends
    raise AssertionError("the arrivals ended")


def _produce(settings: ClusterSettings, topic: str, partition: int, count: int = 1) -> None:
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for _ in range(count):
        producer.produce(topic, b"x" * 100, partition=partition)
    assert producer.flush(_DEADLINE_S) == 0


def test_the_first_arrival_comes_at_once_and_says_what_is_there(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("watched", partitions=3)
    _produce(settings, topic, 1, 4)

    async def scenario(arrivals: AsyncIterator[Arrival]) -> None:
        partitions, _ = await anext(arrivals)
        assert [(part.partition, part.earliest, part.to) for part in partitions] == [(0, 0, 0), (1, 0, 4)]
        assert {part.topic_id for part in partitions} == {TopicAdmin(settings).get(topic, "input").topic_id}

    _watch(settings, topic, [0, 1], scenario)


def test_records_wake_it_up_in_any_partition(settings: ClusterSettings, topic_factory: TopicFactory) -> None:
    topic = topic_factory("watched", partitions=2)

    async def scenario(arrivals: AsyncIterator[Arrival]) -> None:
        await anext(arrivals)
        for count in range(1, 4):
            for partition in (0, 1):
                await asyncio.to_thread(_produce, settings, topic, partition)
                await _until(arrivals, lambda ends, p=partition, n=count: ends[p] == n)  # type: ignore[misc]

    _watch(settings, topic, [0, 1], scenario)


def test_an_open_transaction_is_not_input_until_it_is_committed(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("watched", partitions=2)
    producer = transactional(settings)

    async def scenario(arrivals: AsyncIterator[Arrival]) -> None:
        await anext(arrivals)
        producer.begin_transaction()
        producer.produce(topic, b"open", partition=0)
        producer.flush(_DEADLINE_S)
        await asyncio.to_thread(_produce, settings, topic, 1)
        assert (await _until(arrivals, lambda ends: ends[1] == 1))[0] == 0
        producer.commit_transaction(_DEADLINE_S)
        assert (await _until(arrivals, lambda ends: ends[0] > 0))[0] == 2

    _watch(settings, topic, [0, 1], scenario)


def test_offsets_that_hold_no_record_are_told_with_how_far_the_input_reaches(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    """Markers and what was aborted, in each of two partitions; by a watcher that begins before them, too."""
    topic = topic_factory("watched", partitions=2)
    producer = transactional(settings)

    def transaction(records: int, commit: bool) -> None:
        producer.begin_transaction()
        for number in range(2 * records):
            producer.produce(topic, b"x" * 100, partition=number % 2)
        producer.flush(_DEADLINE_S)
        (producer.commit_transaction if commit else producer.abort_transaction)(_DEADLINE_S)

    def transactions() -> None:
        transaction(3, True)
        transaction(2, False)
        transaction(1, True)

    expected = (Gap(3, 7, 4), Gap(8, 9, 1))

    async def knows_all(arrivals: AsyncIterator[Arrival]) -> None:
        async for partitions, _ in arrivals:
            if all(part.to == 9 and part.gaps == expected for part in partitions):
                return

    async def scenario(arrivals: AsyncIterator[Arrival]) -> None:
        await anext(arrivals)
        producing = asyncio.create_task(asyncio.to_thread(transactions))
        told = [parts async for parts, _ in _up_to(arrivals, 9)]
        await producing
        for part in (part for parts in told for part in parts):
            empty = sum(min(part.to, gap.to) - gap.from_ for gap in expected if gap.from_ < part.to)
            assert records_between(part.gaps, 0, part.to) == part.to - empty, part

    _watch(settings, topic, [0, 1], scenario)
    _watch(settings, topic, {0: 0, 1: 2}, knows_all)


async def _up_to(arrivals: AsyncIterator[Arrival], end: int) -> AsyncIterator[Arrival]:
    async for arrival in arrivals:
        yield arrival
        if all(part.to == end for part in arrival[0]):
            return


def test_retention_moves_the_beginning(settings: ClusterSettings, topic_factory: TopicFactory) -> None:
    topic = topic_factory("watched")
    _produce(settings, topic, 0, 5)
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})

    async def scenario(arrivals: AsyncIterator[Arrival]) -> None:
        await anext(arrivals)
        where = TopicPartition(topic, 0, 3)
        await asyncio.to_thread(lambda: admin.delete_records([where])[where].result(_DEADLINE_S))
        async for partitions, _ in arrivals:
            if partitions[0].earliest == 3:
                break
        assert partitions[0].to == 5

    _watch(settings, topic, [0], scenario)


def _widen(settings: ClusterSettings, topic: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(_DEADLINE_S)


@pytest.mark.parametrize("given", [[0], []])
def test_partitions_that_are_added_are_watched_if_they_are_taken(
    settings: ClusterSettings, topic_factory: TopicFactory, given: list[int]
) -> None:
    topic = topic_factory("watched", partitions=1)

    async def scenario(arrivals: AsyncIterator[Arrival]) -> None:
        await anext(arrivals)
        await asyncio.to_thread(_widen, settings, topic, 4)
        ends = await _until(arrivals, lambda ends: 2 in ends)
        assert set(ends) == {0, 2}
        await asyncio.to_thread(_produce, settings, topic, 2, 3)
        await asyncio.to_thread(_produce, settings, topic, 0)
        assert await _until(arrivals, lambda ends: ends == {0: 1, 2: 3})

    _watch(settings, topic, given, scenario, lambda partition: partition % 2 == 0)


def test_partitions_that_were_there_before_the_first_look_are_watched_too(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("watched", partitions=3)

    async def scenario(arrivals: AsyncIterator[Arrival]) -> None:
        partitions, _ = await anext(arrivals)
        assert [part.partition for part in partitions] == [0, 2]

    _watch(settings, topic, [0], scenario, lambda partition: partition == 2)


@pytest.mark.parametrize("anew", [2, 1])
def test_a_topic_that_was_deleted_or_made_anew_is_not_the_same(
    settings: ClusterSettings, topic_factory: TopicFactory, anew: int
) -> None:
    topic = topic_factory("watched", partitions=2)
    _produce(settings, topic, 0, 5)
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})

    async def scenario(arrivals: AsyncIterator[Arrival]) -> None:
        (first, _), _ = await anext(arrivals)
        await asyncio.to_thread(lambda: admin.delete_topics([topic])[topic].result(_DEADLINE_S))
        async for partitions, _ in arrivals:
            if partitions[0].topic_id == GONE_TOPIC_ID:
                break
        await asyncio.to_thread(
            lambda: admin.create_topics([NewTopic(topic, anew, 1)])[topic].result(_DEADLINE_S)
        )
        async for partitions, _ in arrivals:
            if partitions[0].topic_id not in (GONE_TOPIC_ID, first.topic_id):
                break
        assert [(part.earliest, part.to) for part in partitions] == [(0, 0), (0, 0)]

    _watch(settings, topic, [0, 1], scenario)


def test_busy_input_is_not_reported_for_each_batch(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("watched")
    count = 3000

    def produce() -> None:
        producer = Producer(
            {"bootstrap.servers": settings.bootstrap_servers, "linger.ms": 0, "batch.num.messages": 1}
        )
        for _ in range(count):
            producer.produce(topic, b"x", partition=0)
            producer.poll(0)
        assert producer.flush(_DEADLINE_S) == 0

    async def scenario(arrivals: AsyncIterator[Arrival]) -> None:
        producing = asyncio.create_task(asyncio.to_thread(produce))
        seen, begun_s = 0, time.monotonic()
        async for partitions, _ in arrivals:
            seen += 1
            if partitions[0].to == count:
                break
        # On a machine that stands still the batches may come no faster than they are told of.
        paced = (time.monotonic() - begun_s) / PACE_S + 1
        await producing
        assert seen < count / 2 or seen <= paced

    _watch(settings, topic, [0], scenario)

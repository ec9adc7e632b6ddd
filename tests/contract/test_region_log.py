"""The RegionLog port: against the fake, and against a real broker that is reached through a proxy."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from kcontrol.adapters.kafka.regions.log import KafkaRegionLog
from kcontrol.adapters.kafka.regions.topics import ensure_region_log
from kcontrol.adapters.kafka.transaction import requests
from kcontrol.core.regions.log_view import RegionLogged, RegionTombstone
from kcontrol.core.regions.records import RegionBeat, RegionCut
from kcontrol.errors import CommitUnknownError, FencedError
from kcontrol.sessions.region_ports import RegionLog
from kcontrol.settings.cluster import ClusterSettings
from tests.contract.conftest import ProxiedBroker
from tests.fakes.memory_kafka import Loss
from tests.fakes.memory_regions import MemoryRegionLog, MemoryRegionTopic
from tests.support.patience import HANG_S
from tests.support.proxy import END_TXN, INIT_PRODUCER_ID, Cut, Proxy

REGION = "orders"
_DEADLINE_S = HANG_S

MakeLog = Callable[[], RegionLog]
Lose = Callable[[Cut, int], None]
"""The next request of this kind, or its answer."""
Scenario = Callable[[MakeLog, Lose], Awaitable[None]]
Run = Callable[[Scenario], None]


def beat(number: int) -> RegionBeat:
    return RegionBeat(REGION, "a test", number, 1_000 + number, (), False)


async def shown(log: RegionLog, count: int) -> list[RegionLogged]:
    """So many records, once they are shown: a commit is acknowledged before its markers lie in the log."""
    found = await log.read()
    while len(found) < count:
        await asyncio.sleep(0.01)
        found += await log.read()
    return found


@pytest.fixture(params=["memory", "kafka", "kafka, epochs not told"])
def run(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Run:
    """`run(scenario)`: to its end or to the deadline."""
    if request.param == "memory":
        return lambda scenario: asyncio.run(asyncio.wait_for(_in_memory(scenario), _DEADLINE_S))
    if "not told" in request.param:
        monkeypatch.setattr(requests, "has_epoch_for_each", lambda answer: False)
    proxied = request.getfixturevalue("proxied_broker")
    return lambda scenario: asyncio.run(asyncio.wait_for(_on_kafka(scenario, proxied), _DEADLINE_S))


async def _in_memory(scenario: Scenario) -> None:
    topic = MemoryRegionTopic()

    def lose(cut: Cut, request: int) -> None:
        if request == END_TXN:
            topic.loss = Loss.REQUEST if cut is Cut.REQUEST else Loss.ANSWER

    await scenario(lambda: MemoryRegionLog(topic), lose)


async def _on_kafka(scenario: Scenario, proxied: ProxiedBroker) -> None:
    prefix = f"r{secrets.token_hex(4)}"
    direct = ClusterSettings(bootstrap_servers=proxied.broker.bootstrap_servers, prefix=prefix)
    through_proxy = ClusterSettings(bootstrap_servers=f"127.0.0.1:{proxied.proxy_port}", prefix=prefix)
    await asyncio.to_thread(ensure_region_log, direct, REGION)
    async with Proxy(proxied.proxy_port, proxied.proxied_port) as proxy, AsyncExitStack() as stack:

        def make() -> RegionLog:
            log = KafkaRegionLog(through_proxy, REGION)
            stack.push_async_callback(log.close)
            return log

        await scenario(make, lambda cut, request: proxy.cut_next(request, cut))


def test_what_was_written_is_read_by_all_in_its_order(run: Run) -> None:
    async def scenario(make: MakeLog, lose: Lose) -> None:
        writer, reader = make(), make()
        assert await writer.take() == []
        await writer.write([beat(1), RegionCut(REGION, 1, 5, ())])
        assert await shown(reader, 2) == [beat(1), RegionCut(REGION, 1, 5, ())]
        await writer.write([beat(2)], ["cut/1"])
        await writer.write([beat(3)])
        assert await shown(reader, 3) == [beat(2), RegionTombstone("cut/1"), beat(3)]
        assert await reader.read() == []
        assert (await shown(make(), 5))[-1] == beat(3)

    run(scenario)


def test_whoever_takes_the_log_fences_whoever_had_it_and_knows_all(run: Run) -> None:
    async def scenario(make: MakeLog, lose: Lose) -> None:
        older, newer = make(), make()
        await older.take()
        await older.write([beat(1)])
        assert await newer.take() == [beat(1)]
        with pytest.raises(FencedError):
            await older.write([beat(2)])
        await newer.write([beat(3)])
        assert await shown(older, 1) == [beat(3)]
        with pytest.raises(FencedError):
            await older.write([beat(4)])
        assert await shown(make(), 2) == [beat(1), beat(3)]

    run(scenario)


def test_nobody_writes_who_has_not_taken_it(run: Run) -> None:
    async def scenario(make: MakeLog, lose: Lose) -> None:
        log = make()
        await log.read()
        with pytest.raises(FencedError):
            await log.write([beat(1)])

    run(scenario)


@pytest.mark.parametrize("cut", Cut)
def test_what_became_of_a_commit_is_known_once_it_is_taken_again(run: Run, cut: Cut) -> None:
    async def scenario(make: MakeLog, lose: Lose) -> None:
        log = make()
        await log.take()
        await log.write([beat(1)])
        lose(cut, END_TXN)
        with pytest.raises(CommitUnknownError):
            await log.write([beat(2)])
        found = await log.take()
        assert found in ([], [beat(2)])
        await log.write([beat(3)])
        assert await shown(make(), 2 + len(found)) == [beat(1), *found, beat(3)]

    run(scenario)


@pytest.mark.parametrize("cut", Cut)
def test_what_is_committed_is_known_to_who_wrote_it_whatever_becomes_of_the_next_producer(
    run: Run, cut: Cut
) -> None:
    """Where Kafka does not tell it with the commit, it is asked for then: who wrote took the write for one that had failed,
    passed over its records, and wrote others under their numbers."""

    async def scenario(make: MakeLog, lose: Lose) -> None:
        log = make()
        await log.take()
        await log.write([beat(1)])
        lose(cut, INIT_PRODUCER_ID)
        await log.write([beat(2)])
        try:
            await log.write([beat(3)])
        except FencedError:
            assert await log.take() == []
            await log.write([beat(3)])
        assert await shown(make(), 3) == [beat(1), beat(2), beat(3)]

    run(scenario)

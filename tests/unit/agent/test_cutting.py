"""An agent that cuts the log may stand still between any two requests: others cut further meanwhile, store what is old, or
delete the topics and make them anew. Nothing that is needed is deleted all the same."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from kcontrol.adapters.kafka.client import partitions
from kcontrol.adapters.kafka.client.leaders import TopicInfo
from kcontrol.adapters.kafka.logs import partition_reader
from kcontrol.adapters.kafka.logs.cluster_log import KafkaClusterLog
from kcontrol.adapters.kafka.logs.cluster_snapshots import KafkaSnapshots
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.apps.agent.snapshots import SnapshotStore
from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.entries import Drain
from kcontrol.core.cluster.model import EMPTY, Mark, Replica
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.stored_snapshots import StoredSnapshots
from tests.fakes.one_broker import FakeTopic, OneBroker, at_once
from tests.support.dice import seeded

SETTINGS = ClusterSettings(bootstrap_servers="nowhere:1")
LOG, SNAPSHOTS = SETTINGS.names().cluster_topic(), SETTINGS.names().cluster_snapshots_topic()
ENTRIES = 30


@pytest.fixture(autouse=True)
def _replicas_are_not_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_reader, "LOST_GRACE_MS", 0)


def value_at(offset: int, founded_ms: int = 7) -> Replica:
    return EMPTY.but(offset=offset, founded_ms=founded_ms)


def mark_of(value: Replica) -> Mark:
    return Mark(value.offset, digest(value))


OLD, NEW = value_at(10), value_at(20)


class Agent:
    """Its own connections. It has read the log."""

    def __init__(self) -> None:
        self.log, self.snapshots = KafkaClusterLog(SETTINGS), KafkaSnapshots(SETTINGS)
        self.store = SnapshotStore(self.log, self.snapshots)

    async def save(self, value: Replica) -> None:
        await self.snapshots.save(mark_of(value), value)

    async def cut(self, value: Replica) -> None:
        await self.store.cut(mark_of(value))


async def fill(broker: OneBroker, entries: int = ENTRIES) -> Agent:
    """The log has so many entries, and somebody has read them."""
    writer = Agent()
    for _ in range(entries):
        await writer.log.append(Drain("a", True))
    return await reader(broker)


async def reader(broker: OneBroker) -> Agent:
    agent = Agent()
    agent.log.go_on_from(broker.topics[LOG].start)
    await agent.log.read_to_end()
    return agent


class Stops:
    """Whoever sends the nth request stands still before it, while something else happens."""

    def __init__(self, broker: OneBroker, at: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._broker, self._left, self._meanwhile = broker, at, meanwhile
        self.stopped_before = ""

    async def of(self, act: Awaitable[None]) -> None:
        self._broker.before = self
        await act
        self._broker.before = at_once

    async def __call__(self, kind: str) -> None:
        self._left -= 1
        if self._left < 0 and not self.stopped_before:
            self.stopped_before, self._broker.before = kind, at_once
            await self._meanwhile()


async def requires_bridge(broker: OneBroker, seed: object) -> None:
    newest = await Agent().snapshots.newest_confirmed()
    start = broker.topics[LOG].start
    assert not start or (newest is not None and newest.offset >= start - 1), (seed, start, newest)


def at_each_request(play: Callable[[int], Awaitable[str]]) -> list[str]:
    """Before what it stood still."""
    found: list[str] = []
    while not found or found[-1]:
        found.append(asyncio.run(play(len(found))))
    return found[:-1]


@pytest.mark.parametrize("saved", [(OLD, NEW), (NEW, OLD)], ids=["in their order", "the newer one first"])
@pytest.mark.parametrize("again", [False, True], ids=["", "an old one is stored again"])
@pytest.mark.parametrize("sleeper", [OLD, NEW], ids=["of the old one", "of the new one"])
def test_others_cut_while_one_stands_still(
    saved: tuple[Replica, Replica], again: bool, sleeper: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = others_cut(monkeypatch, saved, again, sleeper)
    assert stopped.count("delete") >= (1 if sleeper is OLD and not again else 0)


def others_cut(
    monkeypatch: pytest.MonkeyPatch, saved: tuple[Replica, Replica], again: bool, sleeper: Replica
) -> list[str]:
    """Before which requests one stood still."""
    other = NEW if sleeper is OLD else OLD

    async def play(at: int) -> str:
        broker = OneBroker(monkeypatch, LOG, SNAPSHOTS)
        agent = await fill(broker)
        for one in saved:
            await agent.save(one)

        async def meanwhile() -> None:
            if again:
                await Agent().save(OLD)
            await (await reader(broker)).cut(other)
            if again:
                await Agent().save(OLD)

        stops = Stops(broker, at, meanwhile)
        await stops.of(agent.cut(sleeper))
        await requires_bridge(broker, at)
        await (await reader(broker)).cut(NEW)
        await requires_bridge(broker, at)
        return stops.stopped_before

    return at_each_request(play)


def test_many_cut_and_store_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = seeded()

    async def play(seed: int) -> None:
        draws = random.Random(seed)
        broker = OneBroker(monkeypatch, LOG, SNAPSHOTS)
        agents = [await fill(broker), *[await reader(broker) for _ in range(5)]]
        for one in draws.sample([OLD, NEW], 2):
            await agents[0].save(one)

        async def some_time(_: str) -> None:
            for _ in range(draws.choice((0, 0, 1, 5, 40))):
                await asyncio.sleep(0)

        broker.before = some_time
        acts = [(agent.cut, draws.choice((OLD, NEW))) for agent in agents[:4]]
        acts += [(agent.save, draws.choice((OLD, NEW))) for agent in agents[4:]]
        await asyncio.gather(*(act(value) for act, value in acts))
        broker.before = at_once
        await requires_bridge(broker, seed)

    for seed in (dice.randrange(1 << 32) for _ in range(40)):
        asyncio.run(play(seed))


@pytest.mark.parametrize("anew", [{LOG, SNAPSHOTS}, {LOG}], ids=["both", "the log alone"])
def test_the_topics_are_made_anew_while_one_stands_still(
    anew: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {"topic", "fetch", "produce", "delete"} <= {*made_anew(monkeypatch, anew)}


def made_anew(monkeypatch: pytest.MonkeyPatch, anew: set[str]) -> list[str]:
    """Before which requests one stood still."""

    async def play(at: int) -> str:
        broker = OneBroker(monkeypatch, LOG, SNAPSHOTS)
        agent = await fill(broker)
        await agent.save(OLD)

        async def meanwhile() -> None:
            broker.topics.update({name: FakeTopic() for name in anew})
            next_one = await fill(broker, 2 * ENTRIES)
            for offset in (5, 15, 25):
                await next_one.save(value_at(offset, founded_ms=8))

        stops = Stops(broker, at, meanwhile)
        await stops.of(agent.cut(OLD))
        if stops.stopped_before == "delete":
            return stops.stopped_before  # Kafka deletes by name, so this moment remains.
        starts = {name: broker.topics[name].start for name in anew}
        assert not stops.stopped_before or not any(starts.values()), (at, stops.stopped_before, starts)
        return stops.stopped_before

    return at_each_request(play)


def test_what_is_newer_is_deleted_if_only_its_own_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule switched off: it is missed."""

    def needless_before(self: StoredSnapshots, mark: Mark) -> int | None:
        return self._stored[mark].first if self.holds(mark) else None

    monkeypatch.setattr(StoredSnapshots, "needless_before", needless_before)
    with pytest.raises(AssertionError, match="21"):
        others_cut(monkeypatch, (NEW, OLD), again=False, sleeper=OLD)
    with pytest.raises(AssertionError, match="21"):
        others_cut(monkeypatch, (OLD, NEW), again=True, sleeper=OLD)


def test_a_new_log_is_cut_if_topics_are_known_by_their_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule switched off: it is missed."""

    async def check_topic(self: PartitionReader) -> TopicInfo:
        self._partitions.forget(self._topic)
        return await self._partitions.topic(self._topic)

    monkeypatch.setattr(PartitionReader, "check_topic", check_topic)
    with pytest.raises(AssertionError, match="11"):
        made_anew(monkeypatch, {LOG})


def test_who_stood_still_since_the_leader_was_asked_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "STOOD_STILL_MS", 0)

    async def play() -> None:
        broker = OneBroker(monkeypatch, LOG, SNAPSHOTS)
        agent = await fill(broker)
        await agent.save(OLD)
        await agent.cut(OLD)
        assert [topic.start for topic in broker.topics.values()] == [0, 0]

    asyncio.run(play())


def test_what_a_deleted_log_has_left_goes_with_the_first_cut_of_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play() -> None:
        broker = OneBroker(monkeypatch, LOG, SNAPSHOTS)
        before = await fill(broker)
        await before.save(NEW)
        await before.cut(NEW)
        broker.topics[LOG] = FakeTopic()
        agent, first = await fill(broker), value_at(10, founded_ms=8)
        await agent.save(first)
        await agent.cut(first)
        assert broker.topics[LOG].start == 11
        assert await agent.snapshots.newest_confirmed() == first
        # One that hung stores and confirms, late, what was of the deleted log.
        late, second = value_at(20), value_at(15, founded_ms=8)
        await agent.save(late)
        await agent.snapshots.confirm(mark_of(late))
        await agent.save(second)
        await agent.save(value_at(25))
        await agent.cut(second)
        assert broker.topics[LOG].start == 16

    asyncio.run(play())

"""The records of the control topic by Faust's consumer: each once and in order, through rebalances, with nothing committed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from aiokafka import ConsumerRecord
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient, NewTopic

from kcontrol.adapters.faust.app import Worker, make_app
from kcontrol.adapters.faust.assignor import join_again
from kcontrol.adapters.faust.direct import DirectTransport
from kcontrol.adapters.kafka.embedded import EmbeddedCluster
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.support.patience import HANG_S
from tests.support.processes import until
from tests.support.reassignment import reassign

TIMEOUT_S = HANG_S
SESSION_S = 2 * HANG_S
"""Nobody but the test joins anew, however long all stand still."""
PARTITIONS = 2


class Member:
    """A Faust application that takes the records of a topic, in the loop that runs."""

    def __init__(self, settings: ClusterSettings, topic: str, home: Path, group: str = "") -> None:
        self.group = group or f"group-{uuid4().hex[:8]}"
        self.seen: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
        self.changed = asyncio.Event()
        self.assignments = 0
        self.assigned: set[int] = set()
        self.refuses = b""
        loop = asyncio.get_running_loop()
        self.app = make_app(self.group, settings, loop, SESSION_S, None, "member", home, settle_s=0.0)
        self.app.transport = DirectTransport(self.app, self._take)
        source = self.app.topic(topic, value_type=bytes, value_serializer="raw")
        self.app.agent(source, name="nobody")(self._nothing)
        on_assigned: Any = self._on_assigned
        self.app.on_partitions_assigned.connect(on_assigned, weak=False)
        self.worker = Worker(self.app, loop)

    async def _nothing(self, _stream: Any) -> None:
        await self.worker.wait_until_stopped()

    def _take(self, partition: int, records: Sequence[ConsumerRecord]) -> None:
        for each in records:
            if each.value == self.refuses:
                raise ValueError("this one is refused")
            self.seen[partition].append(each.value)
        self.changed.set()

    async def _on_assigned(self, _app: Any, assigned: Any, **_: Any) -> None:
        self.assignments += len(assigned) == PARTITIONS
        self.assigned = {each.partition for each in assigned}
        self.changed.set()

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def run(
    settings: ClusterSettings, topic: str, home: Path, scenario: Callable[[Member, Appender], Awaitable[None]]
) -> Member:
    """Returns once the scenario has ended, or raises what the application crashed of."""

    async def whole() -> Member:
        member = Member(settings, topic, home)
        appender = Appender(settings, topic, 0)
        working = asyncio.create_task(member.worker.start())
        playing = asyncio.ensure_future(scenario(member, appender))
        try:
            async with asyncio.timeout(2 * TIMEOUT_S):
                await asyncio.wait([working, playing], return_when=asyncio.FIRST_COMPLETED)
                if playing.done():
                    await playing
                # As a worker's process does at its end.
                if member.worker.crash_reason is not None:
                    raise member.worker.crash_reason
        finally:
            playing.cancel()
            await appender.close()
            await member.worker.stop()
            working.cancel()
            await asyncio.gather(working, playing, return_exceptions=True)
        return member

    return asyncio.run(whole())


async def _await_assigned(member: Member, appender: Appender, times: int) -> None:
    """What is written before a member's partitions have found their ends is for whoever reads the log."""
    await member.until(lambda: member.assignments >= times)
    await _until_read(member, appender, 0)


async def _until_read(member: Member, appender: Appender, partition: int) -> None:
    """appender: of that partition."""
    number = len(member.seen[partition])
    while len(member.seen[partition]) == number:
        await appender.append([(b"", f"try {uuid4().hex}".encode())])
        try:
            async with asyncio.timeout(0.5):
                await member.until(lambda: len(member.seen[partition]) > number)
        except TimeoutError:
            continue


def test_each_record_comes_once_and_in_order_through_a_rebalance_and_nothing_is_committed(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    topic = topic_factory("direct", PARTITIONS)
    first = [f"first {number}".encode() for number in range(50)]
    second = [f"second {number}".encode() for number in range(50)]

    async def scenario(member: Member, appender: Appender) -> None:
        await _await_assigned(member, appender, 1)
        await appender.append([(b"", value) for value in first])
        await member.until(lambda: member.seen[0][-1] == first[-1])
        join_again(member.app)
        await member.until(lambda: member.assignments >= 2)
        await appender.append([(b"", value) for value in second])
        await member.until(lambda: member.seen[0][-1] == second[-1])

    member = run(settings, topic, tmp_path, scenario)
    counted = [value for value in member.seen[0] if not value.startswith(b"try")]
    assert counted == first + second
    assert len(set(member.seen[0])) == len(member.seen[0])
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    asked = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(member.group)])
    committed = asked[member.group].result(TIMEOUT_S).topic_partitions or []
    assert [each.offset for each in committed if each.offset >= 0] == []


def test_what_can_not_be_taken_in_ends_the_application(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    topic = topic_factory("direct", PARTITIONS)

    async def scenario(member: Member, appender: Appender) -> None:
        await _await_assigned(member, appender, 1)
        member.refuses = b"bad"
        await appender.append([(b"", b"bad")])
        await asyncio.Event().wait()

    with pytest.raises(ValueError, match="this one is refused"):
        run(settings, topic, tmp_path, scenario)


def test_a_partition_whose_leader_has_moved_is_read_by_whoever_takes_it(
    cluster3: EmbeddedCluster, tmp_path: Path
) -> None:
    """It knows the leader of before, which it had no need to ask."""
    group, (old, new, _) = f"group-{uuid4().hex[:8]}", sorted(cluster3.brokers)

    async def scenario() -> None:
        both = [Member(cluster3.settings, topic, tmp_path / name, group) for name in ("a", "b")]
        working = [asyncio.create_task(each.worker.start()) for each in both]
        try:
            for each in both:
                await each.until(lambda each=each: len(each.assigned) == 1)  # type: ignore[misc]
            keeper, taker = both
            (moved,) = keeper.assigned
            await reassign(cluster3.settings, {(topic, moved): [new]})
            has_moved = partial(_is_led_by, cluster3, topic, moved, new)
            await asyncio.to_thread(until, has_moved, "the partition has moved", TIMEOUT_S)
            await keeper.worker.stop()
            await taker.until(lambda: taker.assignments >= 1)
            appender = Appender(cluster3.settings, topic, moved)
            try:
                async with asyncio.timeout(TIMEOUT_S):
                    await _until_read(taker, appender, moved)
            finally:
                await appender.close()
        finally:
            for each in both:
                if not each.worker.should_stop:
                    await each.worker.stop()
            await asyncio.gather(*working, return_exceptions=True)

    with _topic_of_one_replica(cluster3, old) as topic:
        asyncio.run(scenario())


@contextmanager
def _topic_of_one_replica(cluster: EmbeddedCluster, broker: int) -> Iterator[str]:
    """On that broker alone. It is gone afterwards: after its broker was killed, a single replica that was moved may have no
    leader again, and whoever kills brokers of this cluster waits until all have."""
    topic = f"moved-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    made = NewTopic(topic, PARTITIONS, replica_assignment=[[broker]] * PARTITIONS)
    admin.create_topics([made])[topic].result(TIMEOUT_S)
    try:
        yield topic
    finally:
        admin.delete_topics([topic])[topic].result(TIMEOUT_S)


def _is_led_by(cluster: EmbeddedCluster, topic: str, partition: int, broker: int) -> bool:
    return cluster.leader(topic, partition) == broker

"""A broker, or an address, that is there and says nothing is no obstacle: it is given up in
bounded time, others are asked."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import partial

import pytest
from aiokafka.protocol.metadata import MetadataRequest
from confluent_kafka.admin import AdminClient

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.client.connections import Connections, Lane, NoAnswerError, NoConnectionError
from kcontrol.adapters.kafka.client.options import REQUEST_TIMEOUT_MS, Patience
from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.embedded import EmbeddedCluster
from kcontrol.adapters.kafka.logs.appender import APPEND_TIMEOUT_MS, Appender
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.errors import ConfigurationError, RetriableError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.support.patience import HANG_S
from tests.support.processes import until
from tests.support.topics import kept

DEADLINE_S = HANG_S
QUICK = {"socket.timeout.ms": "1000", "socket.connection.setup.timeout.ms": "1000"}


class Silence:
    """An address that takes connections and never says a word. heard: bytes that came."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.address = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[Silence]:
        server = await asyncio.start_server(self._listen, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            yield self
        finally:
            server.close()

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(1024):
            self.heard += chunk
        writer.close()


@contextmanager
def _black_hole() -> Iterator[str]:
    """An address where connections are not even taken: its queue is full."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        address = listener.getsockname()
        fillers = []
        for _ in range(4):
            filler = socket.socket()
            filler.setblocking(False)
            filler.connect_ex(address)
            fillers.append(filler)
        try:
            yield f"127.0.0.1:{address[1]}"
        finally:
            for filler in fillers:
                filler.close()


def _behind(settings: ClusterSettings, *first: str) -> ClusterSettings:
    return ClusterSettings(bootstrap_servers=",".join([*first, settings.bootstrap_servers]), client=QUICK)


def test_the_first_address_may_be_dead_or_silent(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("alive")

    async def main() -> None:
        async with Silence().listening() as silence:
            with _black_hole() as hole:
                # Addresses are asked in any order, so that not all clients begin with the same broker.
                while not silence.heard:
                    rpc = KafkaRpc(_behind(settings, silence.address, hole, "127.0.0.1:1"))
                    async with asyncio.timeout(DEADLINE_S):
                        assert (await rpc.topic(topic)).leaders == {0: 1}
                        assert await rpc.nodes() == [1]
                    await rpc.close()

    asyncio.run(main())


def test_topics_are_looked_at_through_a_silent_first_address(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("alive")

    async def main() -> None:
        async with Silence().listening() as silence:
            admin = TopicAdmin(_behind(settings, silence.address), DEADLINE_S)
            assert (await asyncio.to_thread(admin.get, topic, "a topic")).partitions == 1

    asyncio.run(main())


def test_when_every_address_is_silent_that_is_said_in_bounded_time() -> None:
    async def main() -> None:
        async with Silence().listening() as silence:
            rpc = KafkaRpc(ClusterSettings(bootstrap_servers=silence.address, client=QUICK))
            async with asyncio.timeout(DEADLINE_S):
                with pytest.raises(
                    RetriableError, match=f"no connection to {silence.address}: no answer within 1000 ms"
                ):
                    await rpc.nodes()
            await rpc.close()

    asyncio.run(main())


@pytest.mark.parametrize("wrong", ["0", "never", "-5", "500000", ""])
def test_a_time_that_is_none_is_refused(wrong: str) -> None:
    settings = ClusterSettings(bootstrap_servers="127.0.0.1:1", client={"socket.timeout.ms": wrong})
    with pytest.raises(ConfigurationError, match="milliseconds from 1000 to 300000"):
        Patience.of(settings)


def test_a_connection_that_hangs_fails_all_that_wait_on_it_and_others_are_asked(
    whole_cluster3: EmbeddedCluster,
) -> None:
    settings = whole_cluster3.settings.model_copy(update={"client": QUICK})
    hung = 2

    async def main() -> None:
        connections = Connections(settings)
        await connections.find()
        assert connections.brokers == [1, 2, 3]
        await connections.send(hung, MetadataRequest([]), Lane.PROMPT)
        whole_cluster3.brokers[hung].pause()
        asked = [connections.send(hung, MetadataRequest([]), Lane.PROMPT) for _ in range(3)]
        async with asyncio.timeout(DEADLINE_S):
            faults = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(fault) for fault in faults] == [NoAnswerError] * 3
        assert "broker 2 at 127.0.0.1:" in str(faults[0])
        with pytest.raises(NoConnectionError, match="no answer within 1000 ms") as raised:
            await connections.send(hung, MetadataRequest([]), Lane.PROMPT)
        assert raised.value.hangs
        for _ in range(2 * len(connections.brokers)):
            assert await connections.ask_any(MetadataRequest([]))
        await connections.close()

    asyncio.run(main())


def test_reading_and_writing_go_on_at_the_new_leader_while_the_old_one_hangs(
    whole_cluster3: EmbeddedCluster,
) -> None:
    settings = whole_cluster3.settings
    topic = f"moving-{secrets.token_hex(3)}"
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers, "log_level": 0})
    admin.create_topics([kept(topic)])[topic].result(DEADLINE_S)

    async def main() -> None:
        appender = Appender(settings, topic, 0)
        rpc = KafkaRpc(settings)
        reader = PartitionReader(rpc, topic, 0, READ_COMMITTED)
        assert await appender.append([(b"k", b"0"), (b"k", b"1")]) == [0, 1]
        assert [record.value for record in await reader.read_to_end()] == [b"0", b"1"]
        leader = whole_cluster3.leader(topic)
        whole_cluster3.brokers[leader].pause()

        arrived: list[bytes | None] = []
        async with asyncio.timeout(DEADLINE_S), asyncio.TaskGroup() as both:
            both.create_task(_tail(reader, arrived, 3))
            assert await appender.append([(b"k", b"2")]) == [2]
            assert await appender.append([(b"k", b"3"), (b"k", b"4")]) == [3, 4]
        assert arrived == [b"2", b"3", b"4"]
        moved = partial(until, lambda: whole_cluster3.leader(topic) != leader, "another leader is named")
        await asyncio.to_thread(moved)
        await appender.close()
        await rpc.close()

    assert APPEND_TIMEOUT_MS > 9_000 + REQUEST_TIMEOUT_MS, "a write outlasts the loss of a leader"
    asyncio.run(main())


async def _tail(reader: PartitionReader, arrived: list[bytes | None], count: int) -> None:
    while len(arrived) < count:
        try:
            async with aclosing(reader.tail()) as chunks:
                async for chunk in chunks:
                    arrived += [record.value for record in chunk]
                    if len(arrived) >= count:
                        return
        except RetriableError:
            continue


def test_a_batch_too_large_goes_in_parts_and_a_record_too_large_is_refused(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("small", config={"max.message.bytes": "1000"})

    async def main() -> None:
        appender = Appender(settings, topic, 0)
        assert await appender.append([(b"k", b"x" * 300) for _ in range(7)]) == list(range(7))
        with pytest.raises(Exception, match="does not take a record of 2000 bytes"):
            await appender.append([(b"k", b"x" * 2_000)])
        assert await appender.append([(b"k", b"y")]) == [7]
        await appender.close()

    asyncio.run(main())


def test_an_appender_is_idempotent_beside_other_writers(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("shared")

    async def main() -> None:
        one, two = Appender(settings, topic, 0), Appender(settings, topic, 0)
        found = [await each.append([(b"k", b"v")] * 3) for each in (one, two, one, two)]
        assert [offset for offsets in found for offset in offsets] == list(range(12))
        await one.close()
        await two.close()

    asyncio.run(main())

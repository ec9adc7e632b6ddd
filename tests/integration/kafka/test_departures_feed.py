"""The feed of docker/compose.yaml on a real broker: its topics fit each other, and a
carrier is always in one partition."""

from __future__ import annotations

import json
import secrets
import threading
from concurrent.futures import ThreadPoolExecutor

from confluent_kafka import Consumer

from examples import departures_feed
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S

ENOUGH = 300
TIMEOUT_S = HANG_S


def test_it_makes_what_is_missing_and_sends_until_it_is_told_to_end(settings: ClusterSettings) -> None:
    servers = settings.bootstrap_servers
    assert sorted(departures_feed.make_topics(servers, 1)) == sorted(departures_feed.TOPICS)
    assert departures_feed.make_topics(servers, 1) == []
    admin = TopicAdmin(settings)
    assert {admin.get(name, name).partitions for name in departures_feed.TOPICS} == {
        departures_feed.PARTITIONS
    }
    ended = threading.Event()
    reader = Consumer(
        {"bootstrap.servers": servers, "group.id": secrets.token_hex(4), "auto.offset.reset": "earliest"}
    )
    reader.subscribe([departures_feed.TOPICS[0]])
    with ThreadPoolExecutor() as pool:
        try:
            sent = pool.submit(departures_feed.send, servers, 5_000, 1, ended)
            read = reader.consume(ENOUGH, TIMEOUT_S)
        finally:
            ended.set()
            reader.close()
    assert len(read) == ENOUGH <= sent.result(TIMEOUT_S)
    places: dict[bytes, set[int]] = {}
    for message in read:
        assert message.error() is None
        assert json.loads(message.value())["carrier"].encode() == message.key()
        places.setdefault(message.key(), set()).add(message.partition())
    assert len(places) > 1
    assert all(len(partitions) == 1 for partitions in places.values())

"""Whoever begins to look at a cluster of agents reads no more beats than tell who lives, however long there were agents."""

from __future__ import annotations

import asyncio
from uuid import uuid4

import pytest

from kcontrol.adapters.kafka.admin.cluster_topics import ensure_cluster_topics, ensure_packages_topic
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.cluster_log import KafkaBeats
from kcontrol.core.cluster.liveness import Beat
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.cluster import beat_bytes

OLD, LOOKED_AT, BATCH = 5_000, 20_000, 1_000


def beat(seq: int) -> Beat:
    return Beat("a", "a-1", seq, False, 0)


@pytest.fixture
def prefixed(settings: ClusterSettings) -> ClusterSettings:
    own = settings.model_copy(update={"prefix": f"beats-{uuid4().hex[:6]}"})
    ensure_cluster_topics(own)
    return own


async def newest(settings: ClusterSettings, more: Beat) -> list[int]:
    """Numbers of the beats that are read first; another one is read then, and nothing else."""
    beats, agent = KafkaBeats(settings), KafkaBeats(settings)
    try:
        found = [one.seq for one in await beats.read_to_end(newest=True)]
        assert await agent.read_to_end() == [], "an agent begins at the end"
        await agent.append(more)
        assert await beats.read_to_end() == await agent.read_to_end() == [more]
        return found
    finally:
        await beats.close()
        await agent.close()


def test_whoever_begins_to_look_reads_the_newest_beats(prefixed: ClusterSettings) -> None:
    async def write() -> None:
        writer = Appender(prefixed, prefixed.names().cluster_beats_topic(), 0)
        for begin in range(0, OLD + LOOKED_AT, BATCH):
            await writer.append([(b"a", beat_bytes(beat(begin + one))) for one in range(BATCH)])
        await writer.close()

    assert asyncio.run(newest(prefixed, beat(0))) == [], "there are none yet"
    asyncio.run(write())
    assert asyncio.run(newest(prefixed, beat(-1))) == list(range(OLD, OLD + LOOKED_AT))


def test_topics_of_which_the_newest_counts_are_compacted_within_hours(prefixed: ClusterSettings) -> None:
    ensure_packages_topic(prefixed)
    names = prefixed.names()
    for topic in (names.cluster_beats_topic(), names.cluster_packages_topic()):
        found = TopicAdmin(prefixed).find(topic)
        assert found is not None
        assert (found.config["cleanup.policy"], found.config["segment.ms"]) == ("compact", "3600000")
        assert found.config["message.timestamp.type"] == "LogAppendTime", "no host's clock says what is old"

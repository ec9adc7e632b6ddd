"""kcontrol's own topics are created right, wrong ones are refused with what is wrong and
what to do, and so are clusters."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcontrol.adapters.kafka.admin import cluster
from kcontrol.adapters.kafka.admin.cluster import CONTROL_PARTITIONS, check_cluster, ensure_topics
from kcontrol.adapters.kafka.admin.fitting import check_own_topic, compaction_warnings
from kcontrol.adapters.kafka.admin.kept import kept_of
from kcontrol.adapters.kafka.admin.topics import TopicAdmin, TopicState
from kcontrol.errors import ClusterError, TopicError
from kcontrol.sessions.ports import Kept
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.support.patience import HANG_S


@pytest.fixture
def own(settings: ClusterSettings) -> ClusterSettings:
    """The shared broker under a prefix that no other test uses."""
    return settings.model_copy(update={"prefix": f"t{secrets.token_hex(4)}"})


def test_missing_topics_are_created_compacted_and_found_right_afterwards(own: ClusterSettings) -> None:
    ensure_topics(own, "flights")
    admin = TopicAdmin(own)
    control, steps = (
        admin.get(f"{own.prefix}.control", "control"),
        admin.get(f"{own.prefix}.flights.steps", "steps"),
    )
    assert (control.partitions, steps.partitions) == (CONTROL_PARTITIONS, 1)
    assert {control.config["cleanup.policy"], steps.config["cleanup.policy"]} == {"compact"}
    ensure_topics(own, "flights")
    assert admin.get(control.name, "control").topic_id == control.topic_id


@pytest.mark.parametrize(
    ("partitions", "config", "said"),
    [
        (CONTROL_PARTITIONS, {}, r"cleanup\.policy is 'delete'"),
        (CONTROL_PARTITIONS, {"cleanup.policy": "compact,delete"}, r"cleanup\.policy is"),
        (3, {"cleanup.policy": "compact"}, r"has 3 partitions and must have 8"),
    ],
)
def test_a_wrong_control_topic_is_refused(
    own: ClusterSettings, partitions: int, config: dict[str, str], said: str
) -> None:
    admin = AdminClient({"bootstrap.servers": own.bootstrap_servers})
    name = f"{own.prefix}.control"
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(HANG_S)
    with pytest.raises(TopicError, match=said):
        ensure_topics(own)


def test_too_few_replicas_are_refused() -> None:
    state = TopicState("kcontrol.control", "id", 8, 1, {"cleanup.policy": "compact"})
    with pytest.raises(TopicError, match="replicated 1 times and must be 3"):
        check_own_topic(state, "The control topic", 8, 3)


def test_a_missing_topic_is_named_with_what_it_is_for(own: ClusterSettings) -> None:
    with pytest.raises(TopicError, match=r"input 'flights': there is no topic 'nowhere'"):
        TopicAdmin(own).get("nowhere", "input 'flights'")


def test_offsets_are_those_of_committed_records(own: ClusterSettings, topic_factory: TopicFactory) -> None:
    topic = topic_factory("offsets", partitions=2)
    producer = Producer(
        {"bootstrap.servers": own.bootstrap_servers, "transactional.id": secrets.token_hex(4)}
    )
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    for _ in range(3):
        producer.produce(topic, b"x", partition=1)
    producer.commit_transaction(HANG_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=1)
    assert producer.flush(HANG_S) == 0
    try:
        found = TopicAdmin(own).offsets(topic, 2)
    finally:
        producer.abort_transaction(HANG_S)
    # Three records and the commit's marker; the open one is not counted.
    assert (found.earliest, found.latest) == ((0, 0), (0, 4))


def test_a_compacted_input_without_lag_is_warned_of() -> None:
    compacted = TopicState("users", "id", 1, 1, {"cleanup.policy": "compact", "min.compaction.lag.ms": "0"})
    patient = TopicState(
        "events", "id", 1, 1, {"cleanup.policy": "compact", "min.compaction.lag.ms": "90000"}
    )
    plain = TopicState("clicks", "id", 1, 1, {"cleanup.policy": "delete"})
    (said,) = compaction_warnings([compacted, patient, plain], 60_000)
    assert "'users'" in said
    assert "at least 60000" in said
    (said,) = compaction_warnings([plain, patient], None)
    assert "'events'" in said
    assert "no checkpoints" in said


def test_a_new_enough_cluster_is_accepted(own: ClusterSettings) -> None:
    asyncio.run(check_cluster(own))


def test_an_older_cluster_is_refused(own: ClusterSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker of these tests, were EndTxn's newest version here the sign of the first release that is good
    enough."""
    monkeypatch.setattr(cluster, "_END_TXN_OF_4_0", 99)
    with pytest.raises(ClusterError, match=r"broker 1 is older than 4\.0.*KIP-890"):
        asyncio.run(check_cluster(own))


def test_an_address_where_nobody_listens_is_named() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with pytest.raises(ClusterError, match=f"No Kafka answers at {address}"):
        asyncio.run(check_cluster(ClusterSettings(bootstrap_servers=address)))
    with pytest.raises(ClusterError, match=address):
        TopicAdmin(ClusterSettings(bootstrap_servers=address), timeout_s=2).find("any")


def test_what_kafka_has_of_a_topic_and_what_it_will_soon_take(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    """Of a retention of an hour the last quarter is soon."""
    minute_ms = 60_000
    topic = topic_factory("kept", 2, {"retention.ms": str(60 * minute_ms), "retention.bytes": "1000000"})
    admin, now_ms = AdminClient({"bootstrap.servers": settings.bootstrap_servers}), round(time.time() * 1000)
    producer = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for age_min in (58, 50, 40, 1):
        producer.produce(topic, b"v", partition=0, timestamp=now_ms - age_min * minute_ms)
    producer.produce(topic, b"v", partition=1, timestamp=now_ms - 50 * minute_ms)
    assert producer.flush(HANG_S) == 0
    where = TopicPartition(topic, 0, 1)
    admin.delete_records([where])[where].result(HANG_S)
    found = kept_of(TopicAdmin(settings), [topic, "nowhere"])
    kept = found[topic]
    assert isinstance(kept, Kept)
    assert (kept.earliest, kept.expiring) == ((1, 0), (2, 1))
    assert (kept.retention_ms, kept.retention_bytes) == (60 * minute_ms, 1_000_000)
    assert found["nowhere"] == "there is no topic 'nowhere'"

"""The topic of an exchange is made right, a wrong one is refused with what to do, and it grows with the slots."""

from __future__ import annotations

import logging
import secrets
from dataclasses import replace

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kcontrol.adapters.kafka.admin.spec_topics import prepare
from kcontrol.adapters.kafka.admin.topic_safety import safety_now
from kcontrol.adapters.kafka.admin.topics import TopicAdmin, TopicState
from kcontrol.adapters.kafka.embedded import EmbeddedCluster
from kcontrol.adapters.kafka.exchange.topic import check_exchange_topic, ensure_exchange_topic
from kcontrol.core.model import ExchangeSpec
from kcontrol.errors import ClusterError, ConfigurationError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.support.played import spec_of


@pytest.fixture
def own(settings: ClusterSettings) -> ClusterSettings:
    """The shared broker under a prefix that no other test uses."""
    return settings.model_copy(update={"prefix": f"t{secrets.token_hex(4)}"})


def ensure(settings: ClusterSettings, slots: int) -> TopicState:
    return ensure_exchange_topic(TopicAdmin(settings), settings, "flights", "by-user", slots)


def said_of_topics(caplog: pytest.LogCaptureFixture) -> list[str]:
    """A broker that is slow is told of, too."""
    return [each.getMessage() for each in caplog.records if each.name == ensure_exchange_topic.__module__]


def create(settings: ClusterSettings, name: str, partitions: int, config: dict[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(HANG_S)


def test_it_is_made_so_that_kafka_deletes_nothing_and_found_right_afterwards(
    own: ClusterSettings, caplog: pytest.LogCaptureFixture
) -> None:
    made = ensure(own, 6)
    assert (made.name, made.partitions) == (f"{own.prefix}.flights.exchange.by-user", 6)
    kept = {name: made.config[name] for name in ("cleanup.policy", "retention.ms", "retention.bytes")}
    assert kept == {"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}
    assert made.config["message.timestamp.type"] == "LogAppendTime"
    assert ensure(own, 6) == made
    assert ensure(own, 4).partitions == 6
    assert said_of_topics(caplog) == []


def test_more_slots_are_more_partitions_of_the_same_topic(own: ClusterSettings) -> None:
    first = ensure(own, 2)
    more = ensure(own, 5)
    assert (more.partitions, more.topic_id) == (5, first.topic_id)
    admin = TopicAdmin(own)
    assert admin.grow(more.name, 5).partitions == 5, "another process was as fast"
    with pytest.raises(TopicError, match="There is no topic 'nowhere'"):
        admin.grow("nowhere", 5)
    with pytest.raises(ClusterError, match="nowhere"):
        admin.delete_before("nowhere", {0: 1})


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"cleanup.policy": "compact"}, r"cleanup\.policy is 'compact' and must be 'delete'"),
        ({"cleanup.policy": "compact,delete"}, r"cleanup\.policy is 'compact,delete'"),
        ({"max.message.bytes": "5000"}, r"max\.message\.bytes is 5000 and must be at least 1000000"),
    ],
)
def test_a_wrong_one_is_refused(own: ClusterSettings, config: dict[str, str], said: str) -> None:
    create(own, f"{own.prefix}.flights.exchange.by-user", 2, config)
    with pytest.raises(TopicError, match=rf"The topic of exchange 'by-user' of pipeline 'flights'.*{said}"):
        ensure(own, 2)


def test_too_few_replicas_are_refused() -> None:
    with pytest.raises(TopicError, match="replicated 1 times and must be 3"):
        check_exchange_topic(TopicState("x", "id", 8, 1, {"cleanup.policy": "delete"}), "It", 3)


def test_one_from_which_kafka_deletes_is_warned_of(
    own: ClusterSettings, caplog: pytest.LogCaptureFixture
) -> None:
    create(own, f"{own.prefix}.flights.exchange.by-user", 2, {"retention.ms": "3600000"})
    with caplog.at_level(logging.WARNING):
        assert ensure(own, 2).partitions == 2
    (said,) = said_of_topics(caplog)
    assert "retention.ms=3600000: a node that recovers needs it from the oldest checkpoint on" in said


def test_a_name_that_kafka_would_confuse_is_refused(own: ClusterSettings) -> None:
    create(own, f"{own.prefix}_flights_exchange_by-user", 1, {})
    with pytest.raises(TopicError, match=r"Kafka does not take this name: .*collides"):
        ensure(own, 2)
    with pytest.raises(ConfigurationError, match="exchange name 'by user' is not allowed"):
        ensure_exchange_topic(TopicAdmin(own), own, "flights", "by user", 2)


def test_it_is_as_safe_as_the_other_topics_of_kcontrol(cluster3: EmbeddedCluster) -> None:
    settings = ClusterSettings(
        bootstrap_servers=cluster3.bootstrap_servers, prefix=f"x-{secrets.token_hex(3)}"
    )
    made = ensure(settings, 2)
    assert (made.replication, made.config["min.insync.replicas"]) == (3, "2")
    assert safety_now(settings, None).sentences == ()


def test_a_definition_names_the_topic_that_is_there_with_as_many_slots_as_it_needs(
    own: ClusterSettings,
) -> None:
    made = ensure(own, 3)
    spec = replace(spec_of("flights", nodes=2, inputs={}, outputs={}), inputs=(), outputs=())
    spec = replace(spec, layout=replace(spec.layout, max_tasks=2))
    exchange = ExchangeSpec("by-user", made.name, made.topic_id, ("user",), "x.send", 0)
    where = "pipeline 'flights', exchange 'by-user'"
    for wrong, kind, said in (
        (exchange, ConfigurationError, f"{where}: topic .* 3 partitions; the definition says .* and needs 4"),
        (replace(exchange, topic_id="other"), ConfigurationError, f"{where}: .* the definition says other"),
        (replace(exchange, topic="nowhere"), TopicError, f"{where}: there is no topic 'nowhere'"),
    ):
        with pytest.raises(kind, match=said):
            prepare(own, replace(spec, exchanges=(wrong,)))
    ensure(own, 4)
    prepare(own, replace(spec, exchanges=(exchange,)))

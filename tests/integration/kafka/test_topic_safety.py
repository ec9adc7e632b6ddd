"""What a real cluster says of the safety of kcontrol's topics, and what kcontrol makes there for itself."""

from __future__ import annotations

import secrets
from typing import Any

import pytest
from confluent_kafka import admin as untyped_admin

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.topic_safety import safety_now
from kcontrol.adapters.kafka.admin.topics import TopicAdmin, TopicState
from kcontrol.adapters.kafka.embedded import EmbeddedCluster
from kcontrol.errors import ClusterError, ConfigurationError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.support.processes import until

_kafka: Any = untyped_admin
TIMEOUT_S = HANG_S


def _settings(cluster: EmbeddedCluster, **more: int) -> ClusterSettings:
    return ClusterSettings(
        bootstrap_servers=cluster.bootstrap_servers, prefix=f"safe-{secrets.token_hex(3)}", **more
    )


def _sentences(settings: ClusterSettings) -> tuple[str, ...]:
    return safety_now(settings, None, TIMEOUT_S).sentences


def _until_safe(settings: ClusterSettings) -> None:
    """The broker that is asked may be behind, and not know yet of what was made or changed, or who is back."""
    until(
        lambda: _sentences(settings) == (), "nothing is unsafe", TIMEOUT_S, lambda: str(_sentences(settings))
    )


def _seen(settings: ClusterSettings, topic: str) -> TopicState:
    """Once the broker that is asked knows of it."""
    found: list[TopicState] = []

    def is_seen() -> bool:
        found.extend(each for each in [TopicAdmin(settings).find(topic)] if each is not None)
        return bool(found)

    until(is_seen, f"{topic} is seen", TIMEOUT_S)
    return found[-1]


def test_one_broker_is_named_as_such(settings: ClusterSettings) -> None:
    (sentence,) = _sentences(settings)
    assert sentence.startswith("one broker")


def test_what_can_not_be_asked_is_said(settings: ClusterSettings) -> None:
    nobody = settings.model_copy(update={"bootstrap_servers": "127.0.0.1:1"})
    (sentence,) = safety_now(nobody, None, timeout_s=0.5).sentences
    assert "can't be looked at" in sentence


def test_own_topics_are_made_safe_and_one_that_is_made_unsafe_is_named(cluster3: EmbeddedCluster) -> None:
    settings = _settings(cluster3)
    ensure_topics(settings, "flights")
    for name in (settings.names().control_topic(), settings.names().steps_topic("flights")):
        state = _seen(settings, name)
        assert state.replication == 3
        assert state.config["min.insync.replicas"] == "2"
    _until_safe(settings)

    control = settings.names().control_topic()
    entries = [
        _kafka.ConfigEntry(name, value, incremental_operation=_kafka.AlterConfigOpType.SET)
        for name, value in {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}.items()
    ]
    resource = _kafka.ConfigResource(_kafka.ResourceType.TOPIC, control, incremental_configs=entries)
    client = _kafka.AdminClient({"bootstrap.servers": cluster3.bootstrap_servers})
    client.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)
    until(lambda: len(_sentences(settings)) == 2, "what was changed is seen", TIMEOUT_S)
    said = _sentences(settings)
    assert [sentence.split("'")[1] for sentence in said] == [control, control]
    assert "min.insync.replicas=1" in said[0]
    assert "unclean.leader.election.enable=true" in said[1]


def test_replication_can_be_set_and_what_can_not_be_is_refused(cluster3: EmbeddedCluster) -> None:
    settings = _settings(cluster3, replication_factor=2, min_insync_replicas=1)
    ensure_topics(settings, "flights")
    state = _seen(settings, settings.names().control_topic())
    assert (state.replication, state.config["min.insync.replicas"]) == (2, "1")
    until(
        lambda: any("is replicated twice" in each for each in _sentences(settings)), "it is said", TIMEOUT_S
    )
    with pytest.raises(TopicError, match="replication_factor is 4, but the cluster has 3 brokers"):
        ensure_topics(_settings(cluster3, replication_factor=4))
    with pytest.raises(
        ConfigurationError, match="min_insync_replicas is 3, but kcontrol's topics have 2 replicas"
    ):
        ensure_topics(_settings(cluster3, replication_factor=2, min_insync_replicas=3))


def _has(settings: ClusterSettings, brokers: int) -> bool:
    """A broker that was killed may be asked as well."""
    try:
        return TopicAdmin(settings).broker_count() == brokers
    except ClusterError:
        return False


def test_what_is_made_while_a_broker_is_away_is_on_it_once_it_is_back(
    whole_cluster3: EmbeddedCluster,
) -> None:
    settings = _settings(whole_cluster3)
    away = whole_cluster3.brokers[max(whole_cluster3.brokers)]
    away.kill()
    until(lambda: _has(settings, 2), "it is missed", TIMEOUT_S)
    ensure_topics(settings, "flights")
    admin = TopicAdmin(settings)
    made = admin.create(f"{settings.prefix}-output", 2)
    away.start()
    until(lambda: _has(settings, 3), "it is back", TIMEOUT_S)
    ensure_topics(settings, "flights")
    for name in (settings.names().control_topic(), settings.names().steps_topic("flights"), made.name):
        assert _seen(settings, name).replication == 3
    _until_safe(settings)

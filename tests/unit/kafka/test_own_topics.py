"""How often kcontrol's own topics are replicated: by how many brokers Kafka knows, of which one may be away just now."""

from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcontrol.adapters.kafka.admin.cluster import find_or_make
from kcontrol.adapters.kafka.admin.fitting import check_own_topic
from kcontrol.adapters.kafka.admin.topics import TopicAdmin, TopicState
from kcontrol.errors import ConfigurationError, TopicError
from kcontrol.settings.cluster import ClusterSettings


class Brokers:
    """Kafka as confluent-kafka's admin client shows it. registered: so many brokers there are, of which so many are up."""

    def __init__(self, registered: int, up: int) -> None:
        self.registered, self.up = registered, up
        self.made: Any = None
        self.asked: list[int] = []
        """How many replicas were asked for, each time."""

    def describe_cluster(self) -> Future[Any]:
        return _done(SimpleNamespace(nodes=range(self.up)))

    def describe_topics(self, wanted: Any, **_: Any) -> dict[str, Future[Any]]:
        (name,) = (self.made.topic,) if self.made else ("t",)
        if self.made is None:
            return {name: _failed(KafkaError.UNKNOWN_TOPIC_OR_PART)}
        partition = SimpleNamespace(replicas=range(self.made.replication_factor))
        id_ = SimpleNamespace(get_most_significant_bits=lambda: 1, get_least_significant_bits=lambda: 2)
        described = SimpleNamespace(authorized_operations=None, topic_id=id_, partitions=[partition])
        return {name: _done(described)}

    def describe_configs(self, wanted: list[Any]) -> dict[Any, Future[Any]]:
        entries = [SimpleNamespace(name=name, value=value) for name, value in self.made.config.items()]
        return {wanted[0]: _done({entry.name: entry for entry in entries})}

    def create_topics(self, wanted: list[Any]) -> dict[str, Future[None]]:
        (topic,) = wanted
        self.asked.append(topic.replication_factor)
        if topic.replication_factor > self.registered:
            return {topic.topic: _failed(KafkaError.INVALID_REPLICATION_FACTOR)}
        self.made = topic
        return {topic.topic: _done(None)}

    def poll(self, _: float) -> None: ...


def _done(result: Any) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def _failed(code: int) -> Future[Any]:
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


def _make(brokers: Brokers, **given: int) -> TopicState:
    settings = ClusterSettings(bootstrap_servers="k:1", **given)  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("confluent_kafka.admin.AdminClient", lambda _: brokers)
        admin = TopicAdmin(settings)
    state, least = find_or_make(admin, settings, "t", "The topic", 1, (), {"cleanup.policy": "compact"})
    check_own_topic(state, "The topic", 1, least)
    return state


@pytest.mark.parametrize(
    ("registered", "up", "replicas", "in_sync"),
    [
        (1, 1, 1, ""),
        (2, 2, 2, ""),
        (3, 3, 3, "2"),
        (5, 5, 3, "2"),
        (3, 2, 3, "2"),
        (3, 1, 3, "2"),
        (2, 1, 2, ""),
    ],
)
def test_a_topic_that_is_made_while_a_broker_is_away_is_right_once_it_is_back(
    registered: int, up: int, replicas: int, in_sync: str
) -> None:
    brokers = Brokers(registered, up)
    made = _make(brokers)
    assert (made.replication, made.config.get("min.insync.replicas", "")) == (replicas, in_sync)
    assert made.config["cleanup.policy"] == "compact"
    assert brokers.asked == list(range(3, replicas - 1, -1)), "each number of replicas is asked for once"
    brokers.up = registered
    assert _make(brokers) == made


def test_what_is_asked_for_is_asked_of_kafka() -> None:
    assert _make(Brokers(3, 2), replication_factor=3).replication == 3
    with pytest.raises(TopicError, match="replication_factor is 4, but the cluster has 3 brokers"):
        _make(Brokers(3, 3), replication_factor=4)
    with pytest.raises(ConfigurationError, match="min_insync_replicas is 3, but kcontrol's topics have 2"):
        _make(Brokers(2, 2), min_insync_replicas=3, replication_factor=2)


def test_one_that_has_too_few_replicas_is_refused_as_ever() -> None:
    brokers = Brokers(2, 2)
    _make(brokers)
    brokers.registered = brokers.up = 3
    with pytest.raises(TopicError, match="replicated 2 times and must be 3"):
        _make(brokers)

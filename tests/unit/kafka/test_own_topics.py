"""How often kcontrol's own topics are replicated: by how many brokers Kafka knows, of which one may be away just now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import pytest

from kcontrol.adapters.kafka.admin.cluster import find_or_make
from kcontrol.adapters.kafka.admin.topics import TooFewBrokersError, TopicState, check_own_topic
from kcontrol.errors import ConfigurationError, TopicError
from kcontrol.settings.cluster import ClusterSettings


class Brokers:
    """registered: so many there are, of which so many are up."""

    def __init__(self, registered: int, up: int) -> None:
        self.registered, self.up = registered, up
        self.made: TopicState | None = None

    def broker_count(self) -> int:
        return self.up

    def find(self, _: str, __: Sequence[Any]) -> TopicState | None:
        return self.made

    def create(self, name: str, partitions: int, config: Mapping[str, str], replication: int) -> TopicState:
        if replication > self.registered:
            raise TooFewBrokersError("too few")
        self.made = TopicState(name, "id", partitions, replication, config)
        return self.made


def _make(brokers: Brokers, **given: int) -> TopicState:
    settings = ClusterSettings(bootstrap_servers="k:1", **given)  # type: ignore[arg-type]
    admin = cast(Any, brokers)
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

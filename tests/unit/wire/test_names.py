"""Names in Kafka, and names that users may give."""

from __future__ import annotations

import pytest

from kcontrol.errors import ConfigurationError
from kcontrol.wire.names import (
    Names,
    check_no_collisions,
    check_part_name,
    check_pipeline_name,
    check_topic_name,
)


def test_all_names_come_from_the_prefix() -> None:
    names = Names("team.kc")
    assert names.control_topic() == "team.kc.control"
    assert names.steps_topic("late-flights") == "team.kc.late-flights.steps"
    assert names.transactional_id("late-flights") == "team.kc.late-flights"
    assert names.coordinator_group() == "team.kc.coordinator"


def test_each_name_can_be_overridden() -> None:
    names = Names("kc", {"control_topic": "ops.control", "steps_topic": "ops.{pipeline}.log"})
    assert names.control_topic() == "ops.control"
    assert names.steps_topic("a") == "ops.a.log"
    assert names.transactional_id("a") == "kc.a"


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ({"topic": "x"}, "no name 'topic'"),
        ({"steps_topic": "one-for-all"}, r"must hold \{pipeline\}"),
        ({"control_topic": "{pipeline}.control"}, r"must not hold \{pipeline\}"),
        ({"steps_topic": "{pipeline}.{exchange}"}, r"must not hold \{exchange\}"),
        ({"exchange_topic": "x.{exchange}"}, r"must hold \{pipeline\}"),
        ({"exchange_topic": "x.{pipeline}"}, r"must hold \{exchange\}"),
        ({"exchange_topic": "{exchange}.{pipeline}"}, r"must hold \{pipeline\} before \{exchange\}"),
    ],
)
def test_a_wrong_override_is_refused(overrides: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        Names("kc", overrides)


def test_an_override_that_is_no_topic_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="control topic: 'a b'"):
        Names("kc", {"control_topic": "a b"}).control_topic()


@pytest.mark.parametrize("name", ["a", "flights", "late-flights-2", "0", "a" * 63])
def test_good_pipeline_names(name: str) -> None:
    assert check_pipeline_name(name) == name


@pytest.mark.parametrize("name", ["", "-a", "a-", "A", "a/b", "a.b", "a_b", "é", "a\n", "a" * 64, "schema"])
def test_bad_pipeline_names(name: str) -> None:
    with pytest.raises(ConfigurationError, match="pipeline name"):
        check_pipeline_name(name)


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", "a" * 64, "a\n"])
def test_bad_part_names(name: str) -> None:
    with pytest.raises(ConfigurationError, match="input name"):
        check_part_name("input", name)


@pytest.mark.parametrize("name", ["", "a.b", "a b", "a" * 64, "a\n", "ü"])
def test_bad_exchange_names(name: str) -> None:
    with pytest.raises(ConfigurationError, match="exchange name"):
        Names().exchange_topic("flights", name)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a" * 250, "ü", "a b", "a\n", "__consumer_offsets"])
def test_bad_topic_names(name: str) -> None:
    with pytest.raises(ConfigurationError, match="topic of output 'x'"):
        check_topic_name("topic of output 'x'", name)


def test_names_that_kafka_would_confuse_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"b: topic 'x_y.z' differs from 'x.y_z' \(a\) only in"):
        check_no_collisions({"x.y_z": "a", "other": "c", "x_y.z": "b"})
    check_no_collisions({"x.y": "a", "x-y": "b", "xy": "c"})


@pytest.mark.parametrize(
    ("topic", "is_one"),
    [("kc.a-1.steps", True), ("kc.steps", False), ("kc.A.steps", False), ("kcxa.steps", False)],
)
def test_a_log_of_steps_is_known_by_its_name(topic: str, is_one: bool) -> None:
    assert Names("kc").is_steps_topic(topic) is is_one
    assert Names("kc", {"steps_topic": "log.{pipeline}"}).is_steps_topic("log.a")
    assert not Names("kc", {"steps_topic": "log.{pipeline}"}).is_steps_topic(topic)


def test_exchanges_are_known_by_their_names() -> None:
    names = Names("team.kc")
    topic = names.exchange_topic("late-flights", "by-carrier_1")
    assert topic == "team.kc.late-flights.exchange.by-carrier_1"
    assert topic.startswith(names.exchange_prefix("late-flights"))
    assert names.exchange_prefix("late-flights") == "team.kc.late-flights.exchange."
    assert names.is_exchange_topic(topic)
    assert names.is_exchange_topic(topic, "late-flights")
    assert not names.is_exchange_topic(topic, "flights")
    for other in (
        "team.kc.steps",
        "team.kc.late-flights.steps",
        "team.kc.a.exchange.",
        "teamxkc.a.exchange.b",
    ):
        assert not names.is_exchange_topic(other)
    own = Names("kc", {"exchange_topic": "x.{pipeline}.{exchange}.y"})
    assert own.is_exchange_topic(own.exchange_topic("a", "b"), "a")
    assert (own.exchange_topic("a", "b"), own.exchange_prefix("a")) == ("x.a.b.y", "x.a.")

"""Names in Kafka, and names that users may give."""

from __future__ import annotations

import pytest

from kcontrol.errors import ConfigurationError
from kcontrol.wire.names import Names, check_part_name, check_pipeline_name, check_topic_name


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


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a" * 250, "ü"])
def test_bad_topic_names(name: str) -> None:
    with pytest.raises(ConfigurationError, match="topic of output 'x'"):
        check_topic_name("topic of output 'x'", name)

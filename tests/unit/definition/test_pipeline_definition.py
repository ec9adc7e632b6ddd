"""Inputs, outputs and settings: sane defaults, and one clear sentence for each thing that is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from kcontrol import Checkpoint, KafkaInput, KafkaOutput, Layout, Limits, StepPolicy
from kcontrol.core.model import BadRecords, LimitsSpec
from kcontrol.errors import ConfigurationError

AVRO = {"type": "record", "name": "Flight", "fields": [{"name": "carrier", "type": "string"}]}
DDL = "carrier STRING, delay INT"


def test_the_defaults_of_steps_and_tasks() -> None:
    policy, layout, checkpoint = StepPolicy(), Layout(), Checkpoint("file:///tmp/c")
    assert (policy.min_records, policy.max_delay_ms, policy.max_records, policy.clock_ms) == (
        1,
        100,
        1_000_000,
        0,
    )
    assert (layout.max_tasks, layout.records_per_task, layout.shuffle_partitions) == (2, 50_000, 2)
    assert (checkpoint.every_ms, checkpoint.keep) == (60_000, 2)


def test_the_defaults_of_limits() -> None:
    assert Limits().to_spec() == LimitsSpec(
        max_attempts=5,
        max_lost=20,
        backoff_ms=200,
        max_backoff_ms=10_000,
        heartbeat_timeout_ms=10_000,
        open_timeout_ms=120_000,
        step_timeout_ms=50_000,
        replay_timeout_ms=120_000,
        transaction_timeout_ms=60_000,
        pin_timeout_ms=10_000,
        save_timeout_ms=600_000,
        max_forgotten=10_000,
    )


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("100 ms", 100),
        ("60 s", 60_000),
        ("1.5 min", 90_000),
        (" 2h ", 7_200_000),
        ("1 d", 86_400_000),
        (250, 250),
        (0, 0),
    ],
)
def test_durations(written: str | int, meant: int) -> None:
    assert StepPolicy(max_delay=written).max_delay_ms == meant


@pytest.mark.parametrize(
    "written", ["", "5", "3 parsecs", "-1 s", -1, "1e3 s", "400 d", "s", True, None, 1.5]
)
def test_what_is_no_duration(written: Any) -> None:
    with pytest.raises(ConfigurationError, match="StepPolicy: max_delay = "):
        StepPolicy(max_delay=written)


@pytest.mark.parametrize("name", ["earliest", "latest"])
def test_starting_offsets_by_word(name: Any) -> None:
    assert KafkaInput("a", topic="t", starting_offsets=name).starting_offsets == name


def test_what_happens_to_bad_records() -> None:
    skipping = KafkaInput("a", topic="t", value_format="json", schema=DDL, on_bad_record="skip")
    keeping = KafkaInput(
        "a", topic="t", value_format="avro", schema=AVRO, on_bad_record="dead_letter", dead_letter_topic="bad"
    )
    assert (skipping.bad_records, skipping.dead_letter_output) == (BadRecords.SKIP, "")
    assert (keeping.bad_records, keeping.dead_letter_output) == (BadRecords.DEAD_LETTER, "a.dead_letter")


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "KafkaInput 'a': topic is missing"),
        ({"topic": "a b"}, "KafkaInput 'a': topic: 'a b' is not a Kafka topic name"),
        ({"topic": 5}, "topic = 5: must be a valid string"),
        (
            {"topic": "t", "starting_offset": "latest"},
            "no setting 'starting_offset'; did you mean 'starting_offsets'",
        ),
        (
            {"topic": "t", "starting_offsets": "newest"},
            "starting_offsets = 'newest': must be 'earliest' or 'latest'",
        ),
        ({"topic": "t", "starting_offsets": {0: -1}}, r"starting_offsets = .*greater than or equal to 0"),
        (
            {"topic": "t", "value_format": "xml"},
            "value_format = 'xml': must be 'json', 'avro', 'confluent-avro', 'confluent-json' or 'confluent-protobuf'",
        ),
        ({"topic": "t", "value_format": "json"}, "value_format = 'json' needs schema="),
        ({"topic": "t", "schema": DDL}, "schema is given without value_format"),
        (
            {"topic": "t", "value_format": "json", "schema": 5},
            "for JSON it must be a StructType or a DDL string",
        ),
        ({"topic": "t", "value_format": "json", "schema": "  "}, "for JSON it must be"),
        ({"topic": "t", "value_format": "avro", "schema": DDL}, "schema is not an Avro schema"),
        ({"topic": "t", "value_format": "avro", "schema": '"string"'}, "schema must be an Avro record"),
        (
            {"topic": "t", "value_format": "avro", "schema": {"type": "record", "name": "A"}},
            "an Avro record with fields",
        ),
        (
            {"topic": "t", "value_format": "avro", "schema": {**AVRO, "name": 5}},
            "schema is not an Avro schema",
        ),
        ({"topic": "t", "on_bad_record": "skip"}, "raw values are never bad"),
        ({"topic": "t", "tombstones": "drop"}, "tombstones = 'drop' needs a value_format"),
        ({"topic": "t", "value_format": "confluent-avro"}, "value_format = 'confluent-avro' needs schema="),
        ({"topic": "t", "value_format": "confluent-avro", "schema": DDL}, "schema is not an Avro schema"),
        (
            {"topic": "t", "on_bad_record": "ignore"},
            "on_bad_record = 'ignore': must be 'halt', 'skip' or 'dead_letter'",
        ),
        ({"topic": "t", "value_format": "json", "schema": DDL, "on_bad_record": "dead_letter"}, "give both"),
        ({"topic": "t", "value_format": "json", "schema": DDL, "dead_letter_topic": "bad"}, "give both"),
    ],
)
def test_a_wrong_input(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        KafkaInput("a", **settings)


@pytest.mark.parametrize("name", ["a-b", "", "1a"])
def test_an_input_that_can_not_be_a_parameter(name: str) -> None:
    with pytest.raises(ConfigurationError, match="handed to queries as parameters"):
        KafkaInput(name, topic="t")


@pytest.mark.parametrize("digest", ["exact", "count", "float:1e-9", "float:0.001"])
def test_digests(digest: str) -> None:
    assert KafkaOutput("a", topic="t", digest=digest).digest == digest


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"digest": "sum"}, "digest = 'sum': must be 'exact', 'count' or 'float:TOLERANCE'"),
        ({"digest": "float:0"}, "digest = 'float:0'"),
        ({"digest": "float:2"}, "digest = 'float:2'"),
        ({"digest": "float:-1e-9"}, "digest = 'float:-1e-9'"),
        ({"compression": "brotli"}, "compression = 'brotli': must be 'none'"),
        ({"key": "carrier"}, "key = 'carrier' needs a value_format"),
        ({"value_format": "json", "schema": DDL}, "schema is for Avro"),
        ({"value_format": "avro", "schema": "{"}, "schema is not an Avro schema"),
        ({"partition": 3}, "there is no setting 'partition'"),
        ({"value_format": "confluent-json", "schema": DDL}, "schema is for Avro"),
        ({"value_format": "json", "deleted_by": "gone"}, "deleted_by = 'gone' needs key="),
        ({"value_format": "json", "key": "gone", "deleted_by": "gone"}, "deleted_by = 'gone' needs key="),
        (
            {"value_format": "json", "register_schema": False},
            "subject and register_schema are for the formats",
        ),
        ({"value_format": "avro", "subject": "record"}, "subject and register_schema are for the formats"),
    ],
)
def test_a_wrong_output(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"KafkaOutput 'a': {told}"):
        KafkaOutput("a", topic="t", **settings)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"step_timeout": "60 s"}, "step_timeout = '60 s' must be shorter than transaction_timeout = '60 s'"),
        ({"transaction_timeout": "16 min"}, "transaction_timeout = '16 min' is longer than 15 min"),
        ({"backoff": "11 s"}, "backoff = '11 s' is longer than max_backoff = '10 s'"),
        ({"heartbeat_timeout": "1 s"}, "heartbeat_timeout = '1 s' is too short"),
        ({"max_attempts": 0}, "max_attempts = 0: must be greater than or equal to 1"),
        ({"open_timeout": 0}, "open_timeout = 0: must be longer than 0 ms"),
    ],
)
def test_wrong_limits(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=f"Limits: {told}"):
        Limits(**settings)


def test_everything_that_is_wrong_is_told_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"min_records = 0: .*; StepPolicy: max_records = 'many': "):
        StepPolicy(min_records=0, max_records="many")  # type: ignore[arg-type]


def test_a_step_that_could_never_be_due_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="min_records = 20 is more than max_records = 10"):
        StepPolicy(min_records=20, max_records=10)


def test_settings_can_not_be_changed_afterwards() -> None:
    with pytest.raises(AttributeError):
        KafkaInput("a", topic="t").topic = "u"  # type: ignore[misc]

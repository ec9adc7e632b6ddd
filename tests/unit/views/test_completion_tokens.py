"""Tokens: what a producer is told, as text and back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.structs import RecordMetadata, TopicPartition

from kcontrol import completion_token
from kcontrol.errors import ConfigurationError
from kcontrol.views.completion import InputRecord, parse_token


def message(topic: str, partition: int, offset: Any) -> Any:
    """As confluent-kafka hands it to a delivery callback: methods."""
    return SimpleNamespace(topic=lambda: topic, partition=lambda: partition, offset=lambda: offset)


def test_a_token_names_where_the_records_are() -> None:
    metadata = RecordMetadata("pay.ments", 0, TopicPartition("pay.ments", 0), 7, 1, 0, 0)
    token = completion_token(
        message("orders", 3, 1042), metadata, topic_ids={"orders": "Kq3-Xz_9TpWbV0aB1cD2eF"}
    )
    assert token == "orders@Kq3-Xz_9TpWbV0aB1cD2eF:3:1042,pay.ments:0:7"
    assert parse_token(token) == (
        InputRecord("orders", 3, 1042, "Kq3-Xz_9TpWbV0aB1cD2eF"),
        InputRecord("pay.ments", 0, 7),
    )


@pytest.mark.parametrize("delivered", [message("t", 0, None), message("t", 0, -1001), object(), None])
def test_what_was_not_acknowledged_has_no_token(delivered: object) -> None:
    with pytest.raises(ConfigurationError, match="no acknowledged record"):
        completion_token(delivered)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a:1",
        "a:b:1",
        "a:1:b",
        "a:-1:1",
        "a:1:-1",
        ":1:1",
        "a b:1:1",
        "a:1:1,",
        "a:1:9999999999999999999",
        "a:²:1",
    ],
)
def test_what_is_no_token_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="completion token"):
        parse_token(text)


def test_a_token_has_an_end() -> None:
    with pytest.raises(ConfigurationError, match="at most 1000"):
        parse_token(",".join(["a:0:1"] * 1_001))

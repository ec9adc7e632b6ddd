"""A misspelt type of a schema is told without Spark; what may be right is left to it."""

from __future__ import annotations

import pytest

from kcontrol import KafkaInput
from kcontrol.definition.ddl import unknown_type
from kcontrol.errors import ConfigurationError


@pytest.mark.parametrize(
    ("ddl", "told"),
    [
        ("carrier STRNG, delay INT", ("STRNG", "STRING")),
        ("a INT, b DECIMAL(10, 2), c DOBULE", ("DOBULE", "DOUBLE")),
        ("a ARRAY<STRUCT<b: INTT, c: INT>>", ("INTT", "INT")),
        ("a MAP<STRING, BIGNIT> NOT NULL", ("BIGNIT", "BIGINT")),
        ("a xyzzy", ("xyzzy", "")),
        ("carrier STRING, delay INT", None),
        ("`a, b` STRING COMMENT 'x, y STRNG', c: timestamp_ntz", None),
        ("a ARRAY<MAP<STRING, STRUCT<b: DECIMAL(3,1)>>>, d VARCHAR(10) NOT NULL DEFAULT 'x'", None),
        ("a INTERVAL DAY TO SECOND, b STRING COLLATE UNICODE", None),
        ("struct<a: int>", None),
    ],
)
def test_a_word_that_is_no_type(ddl: str, told: tuple[str, str] | None) -> None:
    assert unknown_type(ddl) == told


def test_a_definition_with_one_is_refused() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"KafkaInput 'a': schema = 'x STRNG': 'STRNG' is not a type .* mean STRING\?",
    ):
        KafkaInput("a", topic="t", value_format="json", schema="x STRNG")

"""What tasks say of the state that they have made is held against what they were to make of which state."""

from __future__ import annotations

from typing import Any

import pytest

from kcontrol.adapters.spark.engine.state_ids import checked_ids
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError

BEFORE = (("a",), ("b",))


def told(
    partition: int, version: int = 5, made: str | None = None, base: str | None = None
) -> dict[str, Any]:
    return {
        "partitionId": partition,
        "batchVersion": version,
        "stateStoreCkptId": [made or f"new {partition}"],
        "baseStateStoreCkptId": [base or BEFORE[partition][0]],
    }


def test_they_are_in_the_order_of_the_partitions() -> None:
    assert checked_ids("query 'q'", 0, 5, BEFORE, [told(0), told(1)]) == (("new 0",), ("new 1",))


def test_the_first_step_is_on_nothing() -> None:
    first = told(0, version=1) | {"baseStateStoreCkptId": None}
    assert checked_ids("query 'q'", 0, 1, None, [first]) == (("new 0",),)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([told(0)], "1 of 2 partitions of operator 3 were run"),
        ([told(0), told(1, version=6)], "partition 1 of operator 3 was to make version 5"),
        ([told(0), told(0)], "partition 1 of operator 3"),
        (
            [told(0, base="z"), told(1)],
            "partition 0 of operator 3 was to make version 5 of its state on \\('a',\\)",
        ),
        ([told(0), told(1) | {"stateStoreCkptId": None}], "partition 1 of operator 3"),
    ],
    ids=["not all were run", "another version", "one was run twice", "another state", "no id"],
)
def test_what_was_not_wanted_ends_the_attempt(given: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(StepFailedError, match=why) as failed:
        checked_ids("query 'q'", 3, 5, BEFORE, given)
    assert failed.value.kind == FailureKind.LOST

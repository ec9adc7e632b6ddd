"""A coordinator that has dropped out of its group, and that Faust does not bring back, is told so."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from kcontrol.apps.coordinator_membership import OutOfGroupError, watch_membership
from kcontrol.errors import AccessError, ClusterError, RetriableError

MISSED = 3
HERE, GONE = True, False
SILENT, TOO_OLD = RetriableError("no answer"), ClusterError("too old")
DENIED = AccessError("grant it")


def watched(*answers: bool | Exception) -> int:
    """How many answers were listened to until it ended; raises what it ended with."""
    given: Iterator[bool | Exception] = iter(answers)
    asked = 0

    async def is_member() -> bool:
        nonlocal asked
        asked += 1
        answer = next(given)
        if isinstance(answer, Exception):
            raise answer
        return answer

    try:
        asyncio.run(watch_membership(is_member, 0, MISSED))
    except OutOfGroupError:
        return asked
    raise AssertionError("it ends only by an error")


def test_so_many_looks_in_a_row_without_it_are_too_many() -> None:
    assert watched(GONE, GONE, GONE, HERE) == MISSED
    assert watched(GONE, GONE, HERE, GONE, GONE, HERE, GONE, GONE, GONE) == 9


@pytest.mark.parametrize("unknown", [SILENT, TOO_OLD])
def test_a_look_that_was_not_answered_tells_nothing(unknown: Exception) -> None:
    assert watched(GONE, unknown, unknown, unknown, GONE, unknown, GONE) == 7


def test_what_is_not_allowed_ends_it_at_once() -> None:
    with pytest.raises(AccessError, match="grant it"):
        watched(HERE, DENIED, HERE)

"""Waits double up to a ceiling, and tries end at their deadline."""

from __future__ import annotations

import asyncio

import pytest

from kcontrol.backoff import Backoff
from kcontrol.errors import ClusterError, RetriableError
from tests.support.patience import HANG_MS


class Hand:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def test_waits_double_up_to_a_ceiling() -> None:
    backoff = Backoff(first_ms=50, longest_ms=300)
    assert [backoff.wait_ms(failures) for failures in (1, 2, 3, 4, 100)] == [50, 100, 200, 300, 300]


def test_tries_count_failures_until_one_succeeds() -> None:
    tries = Backoff(10, 1_000).begin()
    assert [tries.failed(), tries.failed(), tries.failed()] == [10, 20, 40]
    tries.succeeded()
    assert tries.failed() == 10


def test_tries_without_a_deadline_go_on_for_ever() -> None:
    clock = Hand()
    tries = Backoff(10, 1_000).begin(clock)
    clock.now_s = 1e9
    tries.check("reading")
    assert not tries.passed


def test_tries_are_over_at_their_deadline_and_say_what_went_wrong_last() -> None:
    clock = Hand()
    tries = Backoff(1, 1).within(300).begin(clock)
    clock.now_s = 0.299
    asyncio.run(tries.again("reading", "away"))
    clock.now_s = 0.3
    with pytest.raises(RetriableError, match=r"^reading did not succeed within 300 ms: away$"):
        asyncio.run(tries.again("reading", RetriableError("away")))
    with pytest.raises(ClusterError, match=r"^reading did not succeed within 300 ms$"):
        tries.check("reading", kind=ClusterError)


def test_polling_ends_with_the_first_answer_or_with_the_deadline() -> None:
    answers = iter([None, False, 0, 5])
    assert Backoff(1, 1, deadline_ms=HANG_MS).poll(lambda: next(answers)) == 0
    assert Backoff(1, 1, deadline_ms=5).poll(lambda: None) is None


def test_waiting_in_a_thread_counts_as_well() -> None:
    tries = Backoff(1, 4).begin()
    tries.wait_blocking()
    assert tries.failures == 1

"""Each error code has one verdict, and error codes that repeating can't help against end the attempt."""

from __future__ import annotations

import pytest

from kcontrol.adapters.kafka.client.codes import VERDICTS, ErrorCode, Verdict, describe_code, verdict_of
from kcontrol.adapters.kafka.transaction.faults import raise_for
from kcontrol.errors import FencedError


@pytest.mark.parametrize("code", [45, 47, 48, 49, 59, 90])
def test_a_transaction_that_is_over_or_not_ours_is_never_tried_again(code: int) -> None:
    with pytest.raises(FencedError, match=str(code)):
        raise_for("writing the boundary", code)


@pytest.mark.parametrize("code", [ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.CONCURRENT_TRANSACTIONS])
def test_a_broker_that_is_still_busy_with_the_transaction_is_asked_again(code: ErrorCode) -> None:
    assert verdict_of(code) is Verdict.PASSING


def test_a_broker_that_does_not_say_what_became_of_a_request_is_not_asked_for_a_commit_again() -> None:
    assert verdict_of(ErrorCode.UNKNOWN_SERVER_ERROR) is Verdict.UNCERTAIN


def test_every_code_that_has_a_name_has_a_verdict_and_an_unknown_one_is_unexpected() -> None:
    assert set(ErrorCode) == set(VERDICTS)
    assert verdict_of(32_767) is Verdict.UNEXPECTED


def test_a_code_is_shown_by_kafkas_name_and_number() -> None:
    assert describe_code(90) == "PRODUCER_FENCED (error 90)"
    assert "(error 32767)" in describe_code(32_767)

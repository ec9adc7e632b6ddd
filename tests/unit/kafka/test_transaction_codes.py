"""Error codes that repeating can't help against end the attempt."""

from __future__ import annotations

import pytest

from kcontrol.adapters.kafka.transaction.codes import Verdict, raise_for, verdict_of
from kcontrol.errors import FencedError


@pytest.mark.parametrize("code", [45, 47, 48, 49, 59, 90])
def test_a_transaction_that_is_over_or_not_ours_is_never_tried_again(code: int) -> None:
    assert verdict_of(code) is Verdict.FENCED
    with pytest.raises(FencedError, match=str(code)):
        raise_for("writing the boundary", code)


@pytest.mark.parametrize("code", [19, 51])
def test_a_broker_that_is_still_busy_with_the_transaction_is_asked_again(code: int) -> None:
    assert verdict_of(code) is Verdict.PASSING

"""What chaos adds where queries with state are planned once: the twin of its two states."""

from __future__ import annotations

import json

from tests.chaos.expected import Expected, InputRecord, row
from tests.chaos.names import LARGE_AMOUNT


def ordered(user: str, amount: int) -> InputRecord:
    value = json.dumps({"id": 1, "user": user, "amount": amount}).encode()
    return InputRecord("orders", 0, 0, user.encode(), value)


def came(user: str) -> InputRecord:
    return InputRecord("visits", 0, 0, user.encode(), b"")


def test_an_amount_counts_once_for_each_user_and_nobody_is_told_of_who_has_nothing_new() -> None:
    twin = Expected()
    first = twin.kept_step([ordered("ann", 5), ordered("ann", 5), ordered("bob", 5), came("bob")])
    assert set(first["totals"]) == {
        row("ann", {"user": "ann", "orders": 1, "amount": 5, "visits": 0}),
        row("bob", {"user": "bob", "orders": 1, "amount": 5, "visits": 1}),
    }
    assert not twin.kept_step([ordered("ann", 5)])["totals"]
    assert list(twin.kept_step([ordered("ann", 6), ordered("bob", 5)])["totals"]) == [
        row("ann", {"user": "ann", "orders": 2, "amount": 11, "visits": 0})
    ]


def test_whoever_came_often_is_told_of_once_more() -> None:
    twin = Expected()
    assert not twin.kept_step([came("ann")] * (LARGE_AMOUNT - 1))["large"]
    told = twin.kept_step([came("ann")])
    assert list(told["large"]) == [row(None, {"user": "ann", "visits": LARGE_AMOUNT})]
    assert len(told["totals"]) == 1

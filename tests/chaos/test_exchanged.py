"""What chaos adds where nodes exchange rows: the twin of its windows, and the moments that faults wait for."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.chaos.expected import ClosedWindows, Row, row
from tests.chaos.names import DELAY_S, WINDOW_S
from tests.chaos.stages import Moment, moment_of


def order(number: int, amount: int = 1) -> dict[str, Any]:
    return {"id": number, "user": "ann", "amount": amount}


def closed(start: int, orders: int, amount: int) -> Counter[Row]:
    return Counter([row(None, {"start": start, "orders": orders, "amount": amount})])


def test_a_window_comes_out_once_the_orders_of_earlier_steps_have_closed_it() -> None:
    twin, end = ClosedWindows(), WINDOW_S + DELAY_S
    assert twin.step([order(5, 7), order(end - 1)]) == Counter()
    assert twin.step([order(end)]) == Counter(), "the watermark was one second short"
    assert twin.step([order(6, 30)]) == closed(0, 2, 37), "which is late from the next step on"
    assert twin.step([order(7, 99)]) == Counter(), "that was late"
    assert twin.step([order(2 * WINDOW_S + DELAY_S)]) == Counter()
    assert twin.step([]) == closed(WINDOW_S, 2, 2)


WRITTEN = {"record": "Written", "failure": None, "early": True, "stage": 0}


@pytest.mark.parametrize(
    ("line", "moment"),
    [
        ({"record": "Command", "work": {"step": 1}}, Moment.BEGUN),
        ({"record": "Command", "work": None}, None),
        (WRITTEN, Moment.SENT),
        (WRITTEN | {"stage": 1}, Moment.COUNTED),
        (WRITTEN | {"stage": 2}, None),
        (WRITTEN | {"stage": 2, "early": False}, Moment.WRITTEN),
        (WRITTEN | {"failure": "lost"}, None),
        ({"record": "Claim"}, None),
    ],
)
def test_what_is_said_tells_where_a_step_is(line: dict[str, Any], moment: Moment | None) -> None:
    assert moment_of(line) is moment

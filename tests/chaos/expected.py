"""The pipelines of `pipeline.py`, `stateless.py`, `kept.py` and `exchanged.py` in plain Python: what a step must write, given
what it read and all steps before."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.names import DELAY_S, EXCHANGE, KEPT, LARGE_AMOUNT, STATELESS, WINDOW_S


@dataclass(frozen=True, slots=True)
class InputRecord:
    """A committed record of an input topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None


Row = tuple[str | None, str]
"""Key, and value as JSON with its fields in order."""


def row(key: str | None, fields: dict[str, Any]) -> Row:
    """A row in the form in which rows are counted."""
    return key, json.dumps(fields, sort_keys=True)


@dataclass
class ClosedWindows:
    """Counts orders in windows. One comes out in the step whose watermark, that of all orders of the steps before, has
    reached its end; an order is left out if the watermark before that had."""

    _open: dict[int, list[int]] = field(default_factory=lambda: defaultdict(lambda: [0, 0]))
    """By start: orders, amount."""
    _watermark_s: int = 0
    _late_s: int = 0

    def step(self, orders: list[dict[str, Any]]) -> Counter[Row]:
        """The windows that come out of the step that read these."""
        for order in orders:
            start = order["id"] // WINDOW_S * WINDOW_S
            if start + WINDOW_S > self._late_s:
                self._open[start][0] += 1
                self._open[start][1] += order["amount"]
        over = [start for start in self._open if start + WINDOW_S <= self._watermark_s]
        counts = {start: self._open.pop(start) for start in over}
        seen_s = max((order["id"] for order in orders), default=0)
        self._late_s, self._watermark_s = self._watermark_s, max(self._watermark_s, seen_s - DELAY_S)
        return Counter(
            row(None, {"start": start, "orders": count, "amount": amount})
            for start, (count, amount) in counts.items()
        )


@dataclass
class Expected:
    """Carries the aggregate's state from step to step."""

    totals: dict[str, dict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: {"orders": 0, "amount": 0, "visits": 0})
    )
    closed: ClosedWindows = field(default_factory=ClosedWindows)
    known: set[tuple[str, int]] = field(default_factory=set)
    """Of `kept.py`: users and amounts of their orders."""

    def step(self, records: list[InputRecord], now_ms: int) -> dict[str, Counter[Row]]:
        """Rows by output of the step that read these records at this time."""
        if KEPT:
            return self.kept_step(records)
        totals: Counter[Row] = Counter()
        large: Counter[Row] = Counter()
        touched: set[str] = set()
        orders: list[dict[str, Any]] = []
        stamp = {} if STATELESS else {"at_ms": now_ms}
        for record in records:
            if record.topic == "orders":
                order = json.loads(record.value or b"{}")
                orders.append(order)
                user, counts = order["user"], {"orders": 1, "amount": order["amount"], "visits": 0}
                if order["amount"] >= LARGE_AMOUNT:
                    large[row(None, {**order, **stamp})] += 1
            else:
                user, counts = (record.key or b"").decode(), {"orders": 0, "amount": 0, "visits": 1}
            if STATELESS:
                totals[row(user, {"user": user, **counts})] += 1
            else:
                for name, count in counts.items():
                    self.totals[user][name] += count
                touched.add(user)
        totals.update(row(user, {"user": user, **self.totals[user]}) for user in touched)
        closed = {"closed": self.closed.step(orders)} if EXCHANGE else {}
        return {"totals": totals, "large": large, **closed}

    def kept_step(self, records: list[InputRecord]) -> dict[str, Counter[Row]]:
        """The same of the step's pipeline in `kept.py`, in which nothing takes the step's time."""
        touched: set[str] = set()
        for record in records:
            if record.topic == "visits":
                user, counts = (record.key or b"").decode(), {"visits": 1}
            else:
                order = json.loads(record.value or b"{}")
                user, counts = order["user"], {"orders": 1, "amount": order["amount"]}
                if (user, order["amount"]) in self.known:
                    continue
                self.known.add((user, order["amount"]))
            touched.add(user)
            for name, count in counts.items():
                self.totals[user][name] += count
        often = [user for user in touched if self.totals[user]["visits"] >= LARGE_AMOUNT]
        return {
            "totals": Counter(row(user, {"user": user, **self.totals[user]}) for user in touched),
            "large": Counter(
                row(None, {"user": user, "visits": self.totals[user]["visits"]}) for user in often
            ),
        }

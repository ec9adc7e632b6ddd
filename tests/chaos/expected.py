"""The pipelines of `pipeline.py` and `stateless.py` in plain Python: what a step must write, given what it read
and all steps before."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.names import LARGE_AMOUNT, STATELESS


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
class Expected:
    """Carries the aggregate's state from step to step."""

    totals: dict[str, dict[str, int]] = field(
        default_factory=lambda: defaultdict(lambda: {"orders": 0, "amount": 0, "visits": 0})
    )

    def step(self, records: list[InputRecord], now_ms: int) -> dict[str, Counter[Row]]:
        """Rows by output of the step that read these records at this time."""
        totals: Counter[Row] = Counter()
        large: Counter[Row] = Counter()
        touched: set[str] = set()
        stamp = {} if STATELESS else {"at_ms": now_ms}
        for record in records:
            if record.topic == "orders":
                order = json.loads(record.value or b"{}")
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
        return {"totals": totals, "large": large}

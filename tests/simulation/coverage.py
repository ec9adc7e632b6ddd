"""Counts how often each transition of both tables is taken: a simulator that never gets
somewhere proves nothing there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any
from unittest.mock import patch

from kcontrol.core.coordinator import turn as coordinator
from kcontrol.core.node import turn as node


class _Counting(dict[tuple[Any, Any], Any]):
    def __init__(self, table: dict[Any, Any], who: str, counts: Counter[str]) -> None:
        super().__init__(table)
        self.who = who
        self.counts = counts

    def __getitem__(self, key: tuple[Any, Any]) -> Any:
        self.counts[transition(self.who, *key)] += 1
        return super().__getitem__(key)


def transition(who: str, state: StrEnum, cause: StrEnum) -> str:
    """The name of one row."""
    return f"{who}: {state}, {cause}"


def all_transitions() -> list[str]:
    """Every row of both tables."""
    return [
        *(transition("coordinator", state, cause) for state, cause in coordinator.TABLE),
        *(transition("node", state, cause) for state, cause in node.TABLE),
    ]


@contextmanager
def counted(counts: Counter[str]) -> Iterator[None]:
    """Within, both cores count the rows that they follow."""
    with (
        patch.object(coordinator, "TABLE", _Counting(coordinator.TABLE, "coordinator", counts)),
        patch.object(node, "TABLE", _Counting(node.TABLE, "node", counts)),
    ):
        yield

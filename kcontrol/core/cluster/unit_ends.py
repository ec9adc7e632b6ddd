"""How units have ended here, by placement: which failures are to be reported, and what is not started again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kcontrol.core.cluster.model import Place, Unit

Placed = tuple[Unit, int]
"""A unit, and the generation of its placement on this agent."""


class Hope(StrEnum):
    """Where a unit that has failed here may do better."""

    HERE = "here"
    ELSEWHERE = "elsewhere"
    NOWHERE = "nowhere"


@dataclass(frozen=True, slots=True)
class UnitFailures:
    """So many of a unit in one placement, and what was said of the last."""

    count: int
    error: str
    hope: Hope


class UnitEnds:
    """Of one agent. most: so many failures of a unit in one placement are reported, or one without hope. left_out: units
    whose pipelines had no such node any more; the shell remembers them over lives."""

    def __init__(self, most: int, left_out: Iterable[Placed] = ()) -> None:
        self._most = most
        self._failures: dict[Placed, UnitFailures] = {}
        self.left_out = frozenset(left_out)

    def begin(self) -> None:
        """A new incarnation has failed at nothing."""
        self._failures = {}

    def failed(self, one: Placed, error: str, hope: Hope) -> None:
        before = self._failures.get(one)
        self._failures[one] = UnitFailures(1 if before is None else before.count + 1, error, hope)

    def lasted(self, one: Placed) -> None:
        self._failures.pop(one, None)

    def leave_out(self, one: Placed, mine: Mapping[Unit, Place] | None) -> None:
        """mine: what is placed here; of all else nothing is remembered any more. None: that is not known yet."""
        self._failures.pop(one, None)
        kept = (each for each in self.left_out if mine is None or _is_among(each, mine))
        self.left_out = frozenset((*kept, one))

    def is_over(self, one: Placed) -> bool:
        """Not to be started by this placement: it was left out, or has failed, which is still to be said."""
        failures = self._failures.get(one)
        return one in self.left_out or (failures is not None and self._is_to_be_said(failures))

    def _is_to_be_said(self, failures: UnitFailures) -> bool:
        return failures.hope is not Hope.HERE or failures.count >= self._most

    def due(self, mine: Mapping[Unit, Place]) -> Iterator[tuple[Placed, UnitFailures]]:
        """What is to be reported of what is placed here; all else is forgotten."""
        self._failures = {one: failures for one, failures in self._failures.items() if _is_among(one, mine)}
        for one, failures in sorted(self._failures.items(), key=lambda each: each[0]):
            if self._is_to_be_said(failures):
                yield one, failures


def _is_among(one: Placed, mine: Mapping[Unit, Place]) -> bool:
    place = mine.get(one[0])
    return place is not None and place.generation == one[1]

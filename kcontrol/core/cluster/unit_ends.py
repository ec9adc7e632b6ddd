"""How units have ended here, by placement: which failures are to be reported, and what is not started again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from kcontrol.core.cluster.model import Place, Unit

Placed = tuple[Unit, int]
"""A unit, and the generation of its placement on this agent."""


@dataclass(frozen=True, slots=True, order=True)
class LeftOut:
    """A unit whose pipeline had no such node any more, by placement. founded_ms: which log of agents that is of; 0 if it was
    not written down, by an older version."""

    unit: Unit
    generation: int
    founded_ms: int = 0

    def is_placed_by(self, one: Placed, founded_ms: int) -> bool:
        """As far as can be told: two logs may have the same numbers."""
        return (self.unit, self.generation) == one and may_be_of(self.founded_ms, founded_ms)


def may_be_of(noted_ms: int, founded_ms: int) -> bool:
    """Whether what was noted with the first is of the log of agents with the second, as far as can be told: 0 was noted by an
    older version, of any."""
    return noted_ms in (0, founded_ms)


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

    def __init__(self, most: int, left_out: Iterable[LeftOut] = ()) -> None:
        self._most = most
        self._failures: dict[Placed, UnitFailures] = {}
        self.left_out = frozenset(left_out)

    @property
    def has_failures(self) -> bool:
        """Whether any is remembered."""
        return bool(self._failures)

    def begin(self) -> None:
        """A new incarnation has failed at nothing."""
        self._failures = {}

    def failed(self, one: Placed, error: str, hope: Hope) -> None:
        before = self._failures.get(one)
        self._failures[one] = UnitFailures(1 if before is None else before.count + 1, error, hope)

    def lasted(self, one: Placed) -> None:
        self._failures.pop(one, None)

    def leave_out(self, one: LeftOut, mine: Mapping[Unit, Place] | None) -> None:
        """mine: what is placed here by the log that this one is of; of all else nothing is remembered any more. None: that is
        not known yet."""
        self._failures.pop((one.unit, one.generation), None)
        kept = (each for each in self.left_out if mine is None or _is_of(each, one.founded_ms, mine))
        self.left_out = frozenset((*kept, one))

    def is_over(self, one: Placed, founded_ms: int) -> bool:
        """Not to be started by this placement of that log: it was left out, or has failed, which is still to be said."""
        failures = self._failures.get(one)
        if any(each.is_placed_by(one, founded_ms) for each in self.left_out):
            return True
        return failures is not None and self._is_to_be_said(failures)

    def _is_to_be_said(self, failures: UnitFailures) -> bool:
        return failures.hope is not Hope.HERE or failures.count >= self._most

    def due(self, mine: Mapping[Unit, Place]) -> Iterator[tuple[Placed, UnitFailures]]:
        """What is to be reported of what is placed here; all else is forgotten."""
        self._failures = {one: failures for one, failures in self._failures.items() if _is_among(one, mine)}
        for one, failures in sorted(self._failures.items(), key=lambda each: each[0]):
            if self._is_to_be_said(failures):
                yield one, failures


def _is_of(one: LeftOut, founded_ms: int, mine: Mapping[Unit, Place]) -> bool:
    placed = (one.unit, one.generation)
    return one.is_placed_by(placed, founded_ms) and _is_among(placed, mine)


def _is_among(one: Placed, mine: Mapping[Unit, Place]) -> bool:
    place = mine.get(one[0])
    return place is not None and place.generation == one[1]

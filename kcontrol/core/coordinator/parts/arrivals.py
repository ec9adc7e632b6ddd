"""Since when input waits: when the coordinator heard how far it reaches, by its own monotonic clock."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from kcontrol.core.model import Gap, InputRange
from kcontrol.core.step.gaps import records_between

_MAX_MARKS = 64
"""Of one partition. With more, pairs are merged under the earlier time: input then waits
too short rather than too long."""

Marks = tuple[tuple[int, int], ...]
"""(when, offset after the last one that was there then), oldest first."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """What lies beyond the last committed step."""

    marks: Mapping[tuple[str, int], Marks] = field(default_factory=dict)
    """By (input, partition)."""
    only_gaps_ms: int | None = None
    """Since when only offsets without a record wait; None if there are none, or records beside them."""

    def marked(
        self, place: tuple[str, int], begin: int, to: int, gaps: Iterable[Gap], now_ms: int
    ) -> Arrivals:
        """The input from `begin` on reaches to there. What was marked before, or holds no record, does not
        arrive."""
        marks = self.marks.get(place, ())
        if not records_between(gaps, max(begin, marks[-1][1]) if marks else begin, to):
            return self
        marks = (*marks, (now_ms, to))
        return replace(
            self, marks={**self.marks, place: _merged(marks) if len(marks) > _MAX_MARKS else marks}
        )

    def committed(self, next_from: Mapping[tuple[str, int], int]) -> Arrivals:
        """A step was, and what it holds waits no more."""
        kept = {place: _after(marks, next_from.get(place, -1)) for place, marks in self.marks.items()}
        return Arrivals({place: marks for place, marks in kept.items() if marks})

    def without(self, names: Iterable[str]) -> Arrivals:
        """These inputs are paused."""
        gone = set(names)
        return replace(
            self, marks={place: marks for place, marks in self.marks.items() if place[0] not in gone}
        )

    def holding_gaps_alone(self, holds: bool, now_ms: int) -> Arrivals:
        """Whether what waits is nothing but offsets without a record."""
        if holds is (self.only_gaps_ms is not None):
            return self
        return replace(self, only_gaps_ms=now_ms if holds else None)


def arrived_ms(arrivals: Arrivals, ranges: Iterable[InputRange]) -> int | None:
    """When the first offset of the ranges arrived; None if they are empty."""
    marks = arrivals.marks
    firsts = (
        _after(marks.get((one.input, one.partition), ()), one.from_)[:1]
        for one in ranges
        if one.from_ < one.to
    )
    return min((mark[0] for first in firsts for mark in first), default=None)


def _after(marks: Marks, offset: int) -> Marks:
    first = next((index for index, (_, to) in enumerate(marks) if to > offset), len(marks))
    return marks[first:]


def _merged(marks: Marks) -> Marks:
    return tuple((marks[at][0], marks[min(at + 1, len(marks) - 1)][1]) for at in range(0, len(marks), 2))

"""Moments of runs without faults, for schedules to begin in.

Of a run every sixteenth moment is kept, with where its generator was; any other is made anew from the one before it, whenever a
schedule begins there. To keep all of them took longer than all schedules of a sample, and gigabytes.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.simulation.fleet import Fleet

if TYPE_CHECKING:
    from tests.simulation.schedule import Schedule

Kind = tuple[int, int, bool, int, bool, bool, int, bool]
"""All that a run was made of."""
Moment = tuple[Kind, int]
"""Of a run, the number of one of its moments."""
_KEPT_EVERY = 16


class Run:
    """A run without faults, made as far as anybody has asked for."""

    def __init__(self, first: Schedule) -> None:
        self._kept = [first]

    def at(self, moment: int) -> Fleet:
        """The fleet as it is then."""
        number, more = divmod(moment, _KEPT_EVERY)
        while number >= len(self._kept):
            self._kept.append(_later(self._kept[-1], _KEPT_EVERY))
        return _later(self._kept[number], more).fleet


def _later(schedule: Schedule, moments: int) -> Schedule:
    """Another one, as this one will be so many moments later."""
    twin = schedule.twin()
    for _ in range(moments):
        twin.until_decided()
    return twin


class Moments:
    """make: the first moment of a run."""

    def __init__(self, make: Callable[[Kind], Schedule]) -> None:
        self._make = make
        self._runs: dict[Kind, Run] = {}
        self._prepared: dict[Moment, Fleet] | None = None

    def at(self, moment: Moment) -> Fleet:
        """The fleet as it is then; clone it, and leave it alone. In `prepared` a KeyError unless it was named."""
        if self._prepared is not None:
            return self._prepared[moment]
        kind, number = moment
        if kind not in self._runs:
            self._runs[kind] = Run(self._make(kind))
        return self._runs[kind].at(number)

    @contextmanager
    def of_its_own(self) -> Iterator[None]:
        """What begins in here begins at moments that are made in here and forgotten at the end: a core with a rule switched off
        must not make those of others."""
        others, self._runs = self._runs, {}
        try:
            yield
        finally:
            self._runs = others

    @contextmanager
    def prepared(self, moments: Iterable[Moment]) -> Iterator[None]:
        """All of these are made before the block, with the core as it is before it, and no other can be had in it."""
        self._prepared = {moment: self.at(moment) for moment in moments}
        try:
            yield
        finally:
            self._prepared = None

    def forget(self) -> None:
        """For a process that makes no more schedules."""
        self._runs.clear()
        gc.collect()

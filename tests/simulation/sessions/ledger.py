"""What a session owes to its core, to its readers and to its engine: everything once, and in order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kcontrol.core.events import CancelAttempt, CloseEngine, ControlSeen, OpenEngine, Publish, RunStep
from kcontrol.core.model import ControlRecord, StepWork, Tombstone
from tests.simulation.invariants import require
from tests.simulation.world import World

SEEN = "a session shows its core every control record once and in order"
CANCELLED = "an attempt that was cancelled neither begins nor goes on"
SAID = "what was decided is in the log in the order in which it was decided"


class Ledger:
    """Of one session. What was written twice, because its acknowledgement was lost, is no fault."""

    def __init__(self, world: World, next_offset: int = 0) -> None:
        """next_offset: of the control log, where its reader stands when it begins."""
        self.world = world
        self._next_offset = next_offset
        self._said: dict[int, tuple[int, Any]] = {}
        """By the identity of a record: its number, and the record, which must not be forgotten."""
        self._written = -1
        """The greatest number in the log."""
        self._in_log: set[int] = set()
        self._asked: StepWork | None = None
        """The newest work for the engine, until it is cancelled."""

    def see(self, event: object) -> None:
        """An event is about to be decided. Raises Violation."""
        if isinstance(event, ControlSeen):
            offset = event.logged.offset
            missed = [one.offset for one in self.world.control[self._next_offset : offset] if one is not None]
            require(offset >= self._next_offset and not missed, SEEN, (offset, self._next_offset, missed))
            self._next_offset = offset + 1

    def say(self, effects: Sequence[object]) -> None:
        """These were decided."""
        for effect in effects:
            if isinstance(effect, RunStep):
                self._asked = effect.work
            elif isinstance(effect, CancelAttempt | OpenEngine | CloseEngine):
                self._asked = None
            if isinstance(effect, Publish):
                for record in effect.records:
                    self._said[id(record)] = len(self._said), record

    def write(self, record: ControlRecord | Tombstone) -> None:
        """That is about to be written. Raises Violation."""
        number = self._said.get(id(record), (-1, None))[0]
        if number >= 0 and number not in self._in_log:
            require(number > self._written, SAID, record)
            self._written = number
            self._in_log.add(number)

    def work(self, work: StepWork) -> None:
        """The engine is about to begin, or to go on. Raises Violation."""
        require(work is self._asked, CANCELLED, work)

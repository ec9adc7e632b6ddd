"""A member of a region: it acts on what it is told, saves, goes back, dies and comes again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcontrol.core.regions.events import BlockingCheckpointDone, CheckpointDone, RegionEvent, ResetDone
from kcontrol.core.regions.model import Region, RegionState, Told, Word, told
from tests.simulation.invariants import require
from tests.simulation.regions.invariants import RESET_FIRST, RETIRED, STAYS

if TYPE_CHECKING:
    from tests.simulation.regions.schedule import RegionSchedule

LOST = -1
"""In place of a cut: what it held is gone."""


@dataclass(eq=False)
class Member:
    """at: the cut that it came to, or was brought back to, last. saved: durable, over lives. version: the newest state of
    the region that it has seen. held: it does nothing of its own."""

    name: str
    beside: bool
    """It goes on while it saves."""
    up: bool = True
    life: int = 1
    at: int = 0
    saved: set[int] = field(default_factory=lambda: {0})
    held: bool = True
    began_clean: bool = True
    was_told: bool = False
    """Any of its lives has ever been told anything: one that the region never knew has done nothing."""
    version: int = -1
    saving: int = 0
    parting: int = 0
    """The cut that it stands at, and has not gone on from."""
    back_at: int = 0
    """The cut that it was taken back to last."""
    settled: int = -1
    """The newest state at which it has looked, if another look at that would do nothing but say the same again: what is told is
    a function of the state, and what it does is one of that and of what it has saved."""
    says: RegionEvent | None = None

    def die(self) -> None:
        self.up = False

    def begin(self) -> None:
        """What it has saved is left, and nothing else."""
        self.up, self.life = True, self.life + 1
        self.at, self.held, self.began_clean = LOST, True, not self.was_told
        self.version, self.settled, self.saving, self.parting = -1, -1, 0, 0

    def look(self, now: RegionSchedule, version: int, region: Region) -> None:
        """At one of the states of the region, which may be an old one."""
        if not self.up or version < self.version:
            return
        if version == self.settled:
            if self.says is not None:
                now.send(self.says)
            return
        self.version = version
        said = told(region, self.name, self.life)
        if said is None:
            self._settle(now, None)
            return
        self.was_told = True
        self._retire(said.to_retire)
        match said.word:
            case Word.TRIGGER_DRAIN:
                self._drain(now, said.seq_id)
            case Word.TRIGGER_RESET:
                self._reset(now, said)
            case Word.HOLD:
                self._tell_saved(now, said)
            case Word.RESUME_SUBMISSION:
                self._go_on(now)
                self._tell_saved(now, said)
            case Word.RESET_FAILED:
                self.held = True
                self._settle(now, None)

    def _settle(self, now: RegionSchedule, says: RegionEvent | None) -> None:
        self.settled, self.says = self.version, says
        if says is not None:
            now.send(says)

    def _tell_saved(self, now: RegionSchedule, said: Told) -> None:
        tells = said.saving and said.seq_id == self.saving and self.saving in self.saved
        self._settle(now, CheckpointDone(self.name, self.life, self.saving) if tells else None)

    def go_back(self, number: int) -> None:
        """While it is down: what it has saved since is void."""
        self.die()
        self.back_at = number
        self.saved = {cut for cut in self.saved if cut <= number}

    def _retire(self, newest: int) -> None:
        if newest > 0:
            self.saved -= {cut for cut in self.saved if 0 < cut <= newest}

    def _drain(self, now: RegionSchedule, number: int) -> None:
        if self.saving != number:
            self.held, self.saving, self.parting, self.at = True, number, number, number
            now.came_to.setdefault(number, {})[self.name] = now.tick
        if self.beside and number not in self.saved:
            now.send(BlockingCheckpointDone(self.name, self.life, number))
            now.begin_saving(self, number)
        else:
            self.saved.add(number)
            self._settle(now, CheckpointDone(self.name, self.life, number))

    def save(self, number: int) -> None:
        if self.up and self.saving == number:
            self.saved.add(number)
            self.settled = -1

    def _reset(self, now: RegionSchedule, said: Told) -> None:
        require(said.seq_id in self.saved, RETIRED, (said, self))
        self.held, self.saving, self.parting, self.at = True, 0, 0, said.seq_id
        self.began_clean = True
        self._settle(now, ResetDone(self.name, self.life, said.seq_id, said.reset_attempt))

    def _go_on(self, now: RegionSchedule) -> None:
        require(self.began_clean, RESET_FIRST, self)
        latest = now.region
        if self.version == len(now.states) - 1 and latest.state is RegionState.PROCESSING:
            require(not latest.is_held, STAYS, (self, latest))
        self.held = False
        if self.parting:
            now.left.setdefault(self.parting, {}).setdefault(self.name, now.tick)
            self.parting = 0

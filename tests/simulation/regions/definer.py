"""Whoever runs `kcontrol region apply` and `kcontrol region delete` beside simulated controllers, and what has to hold then."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionChange, RegionDefinition, RegionEventKind
from tests.simulation.invariants import require
from tests.simulation.regions.asked import Asked

BEGINS_FREE = "a region that was deleted and is defined again begins free, with all its attempts at a reset"
STAYS_HELD = "who is held stays so until somebody resumes the region, or deletes it"


@dataclass
class Definer:
    """lives: by the `request_id` of a definition, which region of this name it is of; that of no controller says so."""

    asked: Asked
    settings: RegionSettings
    random: Random
    counts: Counter[str]
    lives: dict[str, int] = field(default_factory=dict)
    _life: int = 0

    def __post_init__(self) -> None:
        self.define()
        if self.random.random() < 0.5:
            name = self.settings.region
            self.asked.definitions[name] = replace(self.asked.definitions[name], incarnation="")
            self.counts["regions of an older version"] += 1

    @property
    def is_defined(self) -> bool:
        return self.settings.region in self.asked.definitions

    def act(self, newest: RegionChange | None) -> None:
        """Perhaps. newest: of the region's log; it is not deleted while its pipelines are taken back."""
        chance, is_held = self.random.random(), newest is not None and newest.is_held
        if not self.is_defined:
            if chance < 0.3:
                self.define()
        elif chance < (0.2 if is_held else 0.04):
            if newest is None or newest.rollback is None:
                self._delete()
        elif chance > 0.95:
            period_ms, keep_cuts = self.random.choice(((4_000, 1_000), (5_000, 1_000), (5_000, 1)))
            self.settings = replace(self.settings, period_ms=period_ms, keep_cuts=keep_cuts)
            self.counts["defined anew"] += 1
            self.define()

    def define(self) -> None:
        """As `apply_region` does."""
        name, request_id = self.settings.region, f"d{len(self.lives)}"
        before = self.asked.definitions.get(name)
        self._life += before is None
        self.lives[request_id] = self._life
        incarnation = request_id if before is None else before.incarnation
        self.asked.definitions[name] = RegionDefinition(
            name, self.settings, "ana", 0, request_id, incarnation
        )

    def _delete(self) -> None:
        """Whether a controller sees it gone, before there is another, is the schedule's."""
        self.counts["deleted"] += 1
        self.asked.forget()
        if self.random.random() < 0.5:
            self.define()

    def check(self, before: RegionChange, now: RegionChange) -> None:
        """Raises Violation."""
        if self.lives[now.definition_id] == self.lives[before.definition_id]:
            resumed = now.happened.kind is RegionEventKind.RESUME_ASKED
            require(now.is_held or not before.is_held or resumed, STAYS_HELD, (before, now))
            return
        attempts = now.max_reset_attempts - now.reset_attempt
        require(not now.is_held, BEGINS_FREE, (before, now))
        require(attempts == now.settings.max_reset_attempts, BEGINS_FREE, (before, now))
        self.counts["deleted while held"] += before.is_held

"""A member of a simulated region that is no pipeline."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.core.regions.model import Word, told
from kcontrol.core.regions.participants import ParticipantSaid, newest_said
from kcontrol.core.regions.records import RegionSaid, SaidKind
from kcontrol.core.regions.value import RegionValue

if TYPE_CHECKING:
    from tests.simulation.regions.controllers import RegionWorld

OUTSIDE = "x"


class Participant:
    """It looks at what is told now and then, or was told a while ago, does so, and says it again and again. Every hint is lost.
    A process that begins has what it has saved, and is a new life."""

    def __init__(self, world: RegionWorld, region: str) -> None:
        self._world, self._region = world, region
        self._offset, self.life = 0, -1
        self._view, self._read = RegionLogView(), 0
        self.saved: set[int] = set()
        self.silent_until = 0.0

    async def run(self) -> None:
        while True:
            world = self._world
            await asyncio.sleep(world.random.uniform(0.1, 2.0))
            if world.loop.time() < self.silent_until:
                continue
            if self.life < 0:
                self._say(SaidKind.JOINED)
                continue
            value = self._look(world.random.choice((0, 0, 1, 8)))
            said = None if value is None else told(value.region, OUTSIDE, self.life)
            if said is not None and said.word is Word.TRIGGER_DRAIN:
                blocking = world.random.random() < 0.3 and said.seq_id not in self.saved
                if not blocking:
                    self.saved.add(said.seq_id)
                kind = SaidKind.BLOCKING_CHECKPOINT_DONE if blocking else SaidKind.CHECKPOINT_DONE
                self._say(kind, said.seq_id)
            elif said is not None and said.saving:
                self.saved.add(said.seq_id)
                self._say(SaidKind.CHECKPOINT_DONE, said.seq_id)
            elif said is not None and said.word is Word.TRIGGER_RESET:
                self._say(SaidKind.RESET_DONE, said.seq_id, said.reset_attempt)
            else:
                before = world.asked.words[OUTSIDE].word
                self._say(before.kind, before.seq_id, before.reset_attempt)

    def _look(self, back: int) -> RegionValue | None:
        """As it was so many records ago, or as it was seen last."""
        records = self._world.topic.records
        read, end = self._read, len(records) - back
        if end > read:
            self._view, self._read = read_on(self._view, records[read:end]), end
        return self._view.value

    def _say(self, kind: SaidKind, seq_id: int = 0, attempt: int = 0) -> None:
        self._offset += 1
        word = RegionSaid(self._region, OUTSIDE, "process", self.life, kind, 0, seq_id, attempt)
        said = ParticipantSaid(self._offset, word)
        words = self._world.asked.words
        newest = newest_said(words.get(OUTSIDE), said)
        assert newest is not None
        words[OUTSIDE] = newest
        self.life = said.life

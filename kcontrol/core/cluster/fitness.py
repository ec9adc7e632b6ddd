"""Whether an agent can do its work: who can't falls silent, so that another gets it.

Any of its ways to Kafka may fail alone, and an answer may be old: a broker that was deposed goes on telling what it knew. So an
agent goes by what comes back to it, and by what others say that they have read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import Agent, Replica


class _InVain:
    """Something that is done again and again, and does not work. unfit_ms: as of `Fitness`."""

    def __init__(self, unfit_ms: int) -> None:
        self._unfit_ms = unfit_ms
        self._since_ms: int | None = None
        """The first time since it has last worked."""
        self._last_ms = 0

    def tried(self, now_ms: int) -> None:
        self._last_ms = now_ms
        if self._since_ms is None:
            self._since_ms = now_ms

    def works(self) -> None:
        self._since_ms = None

    def lasts(self, now_ms: int) -> bool:
        """It was tried for long, and not only long ago: who has not tried since then can't tell, and tries again."""
        if self._since_ms is None:
            return False
        if now_ms - self._last_ms > 3 * self._unfit_ms:
            self._since_ms = None
            return False
        return self._last_ms - self._since_ms > self._unfit_ms


class Fitness:
    """Of one agent, by its own clock. unfit_ms: what did not work for so long makes it silent; who can't tell without a beat
    whether it works again tries after three times as long."""

    def __init__(self, unfit_ms: int, now_ms: int) -> None:
        self._read_end_ms = now_ms
        self._unfit_ms = unfit_ms
        self._writes = _InVain(unfit_ms)
        """Of the log, while that could be read."""
        self._beats = _InVain(unfit_ms)
        """That Kafka has taken, and of which none came back: others hear it, and it would see nobody die."""
        self._applied: dict[str, tuple[str, int]] = {}
        """By agent: its incarnation, and the newest offset that it says it has applied."""
        self._known: Mapping[str, Agent] | None = None
        """Of whom `_applied` and `_reached` are, if nothing else was heard since."""
        self._reached = -1
        """What the one in the middle has applied."""
        self._goal: tuple[int, int] | None = None
        """An offset that most others had applied, and since when it is waited for."""

    def fits(self, now_ms: int) -> bool:
        if self.since_read_ms(now_ms) > self._unfit_ms:
            return False
        return not self._beats.lasts(now_ms) and not self._writes.lasts(now_ms)

    def begin(self) -> None:
        """As a new incarnation."""
        self._beats.works()

    # --- the log --------------------------------------------------------------------------------------------

    def appended(self) -> None:
        self._writes.works()

    def not_appended(self, now_ms: int, reads: bool) -> None:
        """reads: the log could be read meanwhile, so only writing fails."""
        if reads:
            self._writes.tried(now_ms)
        else:
            self._writes.works()

    # --- what others have read of it ------------------------------------------------------------------------

    def heard(self, beats: Iterable[Beat]) -> None:
        """Beats of others."""
        for beat in beats:
            applied = beat.incarnation, beat.applied
            if self._applied.get(beat.agent) != applied:
                self._applied[beat.agent] = applied
                self._known = None

    def read(self, replica: Replica, now_ms: int) -> None:
        """The log was read to where its broker said that it ends, and applied. Only those whom the value knows are gone by:
        others may read another log. What is behind that end is told of by the one in the middle, the lower of two: so a
        single one that is wrong makes nobody silent where there are others."""
        self._read_end_ms = now_ms
        if self._known is not replica.agents:
            self._forget_others(replica.agents)
        if self._goal is not None and replica.offset < self._goal[0]:
            return
        self._goal = (self._reached, now_ms) if self._reached > replica.offset else None

    def _forget_others(self, known: Mapping[str, Agent]) -> None:
        self._applied = {
            name: one
            for name, one in self._applied.items()
            if name in known and known[name].incarnation == one[0]
        }
        reached = sorted(applied for _, applied in self._applied.values())
        self._reached = reached[(len(reached) - 1) // 2] if reached else -1
        self._known = known

    def since_read_ms(self, now_ms: int) -> int:
        """So long it has not read the log to its end, or not what most others have applied of it: a broker that was deposed
        goes on telling the end that it knew."""
        return now_ms - (self._read_end_ms if self._goal is None else min(self._read_end_ms, self._goal[1]))

    # --- beats ----------------------------------------------------------------------------------------------

    def beat_sent(self, now_ms: int) -> None:
        """Kafka has taken it."""
        self._beats.tried(now_ms)

    def beat_came_back(self) -> None:
        self._beats.works()

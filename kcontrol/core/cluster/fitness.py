"""Whether an agent can do its work: who can't falls silent, so that another gets it.

Any of its ways to Kafka may fail alone, and an answer may be old: a broker that was deposed goes on telling what it knew. So an
agent goes by what comes back to it, and by what others say that they have read.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import Replica


class Fitness:
    """Of one agent, by its own clock. unfit_ms: what did not work for so long makes it silent; who can't tell without a beat
    whether it works again tries after three times as long."""

    def __init__(self, unfit_ms: int, now_ms: int) -> None:
        self._read_end_ms = now_ms
        self._unfit_ms = unfit_ms
        self._write_ms: int | None = None
        self._mute_since_ms: int | None = None
        self._beat_ms: int | None = None
        self._unheard_since_ms: int | None = None
        """The first beat that Kafka has taken since the newest that came back."""
        self._applied: dict[str, tuple[str, int]] = {}
        """By agent: its incarnation, and the newest offset that it says it has applied."""
        self._goal: tuple[int, int] | None = None
        """An offset that most others had applied, and since when it is waited for."""

    def fits(self, now_ms: int) -> bool:
        if self.since_read_ms(now_ms) > self._unfit_ms:
            return False
        return not self._is_deaf(now_ms) and not self._is_mute(now_ms)

    def begin(self) -> None:
        """As a new incarnation."""
        self._unheard_since_ms = None

    # --- the log --------------------------------------------------------------------------------------------

    def appended(self) -> None:
        self._mute_since_ms = None

    def not_appended(self, now_ms: int, reads: bool) -> None:
        """reads: the log could be read meanwhile, so only writing fails."""
        self._write_ms = now_ms
        if not reads:
            self._mute_since_ms = None
        elif self._mute_since_ms is None:
            self._mute_since_ms = now_ms

    def _is_mute(self, now_ms: int) -> bool:
        """It has tried for long to write the log, while that could be read, and not only long ago."""
        if self._mute_since_ms is None or self._write_ms is None:
            return False
        if now_ms - self._write_ms > 3 * self._unfit_ms:
            self._mute_since_ms = None
            return False
        return self._write_ms - self._mute_since_ms > self._unfit_ms

    # --- what others have read of it ------------------------------------------------------------------------

    def heard(self, beats: Iterable[Beat]) -> None:
        """Beats of others."""
        self._applied |= {beat.agent: (beat.incarnation, beat.applied) for beat in beats}

    def read(self, replica: Replica, now_ms: int) -> None:
        """The log was read to where its broker said that it ends, and applied. Only those whom the value knows are gone by:
        others may read another log. What is behind that end is told of by the one in the middle, the lower of two: so a
        single one that is wrong makes nobody silent where there are others."""
        self._read_end_ms = now_ms
        known = replica.agents
        self._applied = {
            name: one
            for name, one in self._applied.items()
            if name in known and known[name].incarnation == one[0]
        }
        if self._goal is not None and replica.offset < self._goal[0]:
            return
        reached = sorted(applied for _, applied in self._applied.values())
        most = reached[(len(reached) - 1) // 2] if reached else -1
        self._goal = (most, now_ms) if most > replica.offset else None

    def since_read_ms(self, now_ms: int) -> int:
        """So long it has not read the log to its end, or not what most others have applied of it: a broker that was deposed
        goes on telling the end that it knew."""
        return now_ms - (self._read_end_ms if self._goal is None else min(self._read_end_ms, self._goal[1]))

    # --- beats ----------------------------------------------------------------------------------------------

    def beat_sent(self, now_ms: int) -> None:
        """Kafka has taken it."""
        self._beat_ms = now_ms
        if self._unheard_since_ms is None:
            self._unheard_since_ms = now_ms

    def beat_came_back(self) -> None:
        self._unheard_since_ms = None

    def _is_deaf(self, now_ms: int) -> bool:
        """Others hear it, and it hears not even itself: it would see nobody die."""
        if self._beat_ms is None or self._unheard_since_ms is None:
            return False
        if now_ms - self._beat_ms > 3 * self._unfit_ms:
            self._unheard_since_ms = None
            return False
        return self._beat_ms - self._unheard_since_ms > self._unfit_ms

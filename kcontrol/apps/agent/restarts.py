"""How long an agent waits before it starts its coordinator again.

One that fails again and again is placed elsewhere, where there is a better host. Where there is none, or an agent does not
know how, nothing else bounds how often a host that can't run one starts another.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.apps.agent.processes import EndedProcess
from kcontrol.apps.exit_codes import ExitVerdict, verdict_of
from kcontrol.backoff import Backoff


@dataclass(slots=True)
class CoordinatorRestarts:
    """backoff: the pauses between starts of one that fails. short_life_s: who ran longer has not failed to run here.
    failures: one after another, of the placement with this generation."""

    backoff: Backoff
    short_life_s: float
    failures: int = 0
    generation: int | None = None

    def pause_ms(self, ended: EndedProcess) -> int:
        """Before the next start, now that this one has ended. One of another placement begins with the first pause, and so
        does one that was asked to end or has run for long."""
        if ended.generation != self.generation or not self._has_failed(ended):
            self.failures = 0
        self.generation = ended.generation
        if not self._has_failed(ended):
            return self.backoff.first_ms
        self.failures += 1
        return self.backoff.wait_ms(self.failures)

    def _has_failed(self, ended: EndedProcess) -> bool:
        ends_well = verdict_of(ended.code) in (ExitVerdict.ASKED, ExitVerdict.REPLACED)
        return not ends_well and ended.lived_s <= self.short_life_s

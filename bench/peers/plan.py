"""How much the peers are given to do."""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.plan import QUICK_STREAM, STREAM, Stream


@dataclass(frozen=True)
class PeerPlan:
    """records: of a backlog; slow_records: of one for those that a tenth of it keeps busy for as long.

    commit_ms: from commit to commit while a backlog is worked off, of those that commit by time; kcontrol and Spark make
    steps of step_records, which take about as long, and of which the first warm_up_steps do not count.
    """

    records: int
    slow_records: int
    commit_ms: int
    step_records: int
    warm_up_steps: int
    steps: int
    stream: Stream

    def warmed_up_for(self, seconds: float) -> PeerPlan:
        """With another warm-up of the stream, of everything that takes part."""
        return replace(self, stream=replace(self.stream, warm_up_s=seconds))


FULL = PeerPlan(8_000_000, 1_000_000, 1_000, 800_000, 2, 4, STREAM)
QUICK = PeerPlan(1_000_000, 200_000, 100, 200_000, 1, 2, QUICK_STREAM)

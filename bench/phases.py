"""Where the time of a step goes, from the times that every process logs of it: nothing is measured in their
way.

Between two boundaries lie, in this order: the commit, until every node has read it; Spark records its
batches, while the coordinator hears of it, decides the next step, opens its transaction, and every node has
its command: what of that takes longer than Spark's recording counts as opening; Spark makes the step; the
coordinator hears of it and writes the boundary. Recording and making are Spark's, the rest is the control
plane's, with every message on its way.

A step may be told to the nodes before the one before is committed. Then it is looked at from when that was written: commit and
Spark's recording of the step before lie within its making, and what its writers waited for them is the control plane's.

With several nodes each phase ends with the last of them, because nobody begins the next one before. What a
node waits for the others is so part of Spark's time, and what one more node costs the coordinator is part of
its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Boundary = Mapping[str, Any]
"""A line of `kcontrol steps --json`."""


@dataclass(frozen=True)
class Phases:
    """Milliseconds of one step, from the boundary before it to its own.

    commit_ms: of the step before, and of the boundary.
    """

    step: int
    record_ms: float
    open_ms: float
    work_ms: float
    commit_ms: float

    @property
    def control_ms(self) -> float:
        """What is not Spark's."""
        return self.open_ms + self.commit_ms

    @property
    def control_share(self) -> float:
        """The part of the whole that is not Spark's."""
        return self.control_ms / (self.control_ms + self.record_ms + self.work_ms)


def phases(steps: Sequence[Boundary]) -> list[Phases]:
    """Of every step but the first, if all nodes made it and the step before without a restart in between."""
    found = []
    for before, step in pairwise(steps):
        work, ends = step["work"], (step["before"] or {}).get("nodes", ())
        seen, recorded = _last(ends, "seen_ms"), _last(ends, "recorded_ms")
        begun, written = _last(work, "begun_ms"), _last(work, "written_ms")
        if not (seen and recorded and begun and written):
            continue
        if begun < seen:
            # It was read and computed while the step before was being committed and recorded; what its writers waited for
            # that is not Spark's.
            held_ms = max(each["held_ms"] for each in work)
            open_ms = begun - _last(before["work"], "written_ms") + held_ms
            found.append(Phases(step["step"], 0, open_ms, written - begun - held_ms, 0))
        else:
            commit_ms = seen - before["committed_ms"] + step["committed_ms"] - written
            # The next step may be ready before Spark has recorded this one: then nothing of opening it was
            # waited for.
            ready = max(begun, recorded)
            found.append(Phases(step["step"], recorded - seen, ready - recorded, written - ready, commit_ms))
    return found


def _last(nodes: Sequence[Mapping[str, int]], name: str) -> int:
    """By the last node; 0 if one does not know."""
    times_ms = [each[name] for each in nodes]
    return max(times_ms) if times_ms and all(times_ms) else 0

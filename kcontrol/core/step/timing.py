"""A step's way through the processes as one line of times, put together from its
boundary and the one after it.

The boundary is written before the step ends, so how it ended is in the next one. With several nodes each time
is that of the last of them, because nobody goes on before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from kcontrol.core.model import StepBoundary

MARKS: Mapping[str, str] = {
    "received": "the coordinator knew of input for the step",
    "decided": "the step was due, and what it holds was fixed",
    "opened": "its transaction was open; the commands went out",
    "begun": "every node had taken up its command",
    "planned": "Spark had planned the batch of every query",
    "ran": "the last task had ended",
    "written": "every node had said what it wrote",
    "asked": "the coordinator wrote the boundary and asked for the commit",
    "answered": "Kafka said that it is committed",
    "seen": "every node had read the boundary",
    "recorded": "Spark had recorded the batch of every query",
}
"""What happened at each time, in order."""


def step_marks(boundary: StepBoundary, after: StepBoundary | None) -> dict[str, int]:
    """Milliseconds since the Unix epoch by name of `MARKS`, in that order; what is not known is left out.

    after: the boundary of the next step; None if there is none yet, and then nothing is known after `asked`.
    """
    end = None if after is None or after.step != boundary.step + 1 else after.before
    nodes = () if end is None else end.nodes
    found = (
        *(boundary.received_ms, boundary.now_ms, boundary.opened_ms),
        *(
            _last([each.begun_ms for each in boundary.work]),
            _last([each.planned_ms for each in boundary.work]),
        ),
        *(_last([each.ran_ms for each in boundary.work]), _last([each.written_ms for each in boundary.work])),
        *(boundary.committed_ms, 0 if end is None else end.answered_ms),
        *(_last([each.seen_ms for each in nodes]), _last([each.recorded_ms for each in nodes])),
    )
    return {name: at_ms for name, at_ms in zip(MARKS, found, strict=True) if at_ms}


def _last(times_ms: Sequence[int]) -> int:
    """Of all nodes; unknown if one of them is."""
    return max(times_ms) if times_ms and all(times_ms) else 0


def step_phases(marks: Mapping[str, int]) -> dict[str, int]:
    """By the mark that ends it: milliseconds since the mark before. Less than 0 where
    two machines' clocks disagree."""
    return {name: end - begin for (_, begin), (name, end) in pairwise(marks.items())}

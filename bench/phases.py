"""Where the time of a step goes, from what the processes logged of it: nothing is measured in their way.

Between two commits lie, in this order: the node hears of the commit and Spark records its batches; the coordinator decides the
next step, opens its transaction and publishes the command; Spark makes the step; the coordinator writes the boundary and
commits. The first and third are Spark's, the second and fourth the control plane's. Times are those of the control records and
boundaries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Logged = Mapping[str, Any]
"""A line of `kcontrol log --json`."""
Boundary = Mapping[str, Any]
"""A line of `kcontrol steps --json`."""


@dataclass(frozen=True)
class Phases:
    """Milliseconds of one step, from the commit before it to its own."""

    step: int
    record_ms: float
    open_ms: float
    work_ms: float
    commit_ms: float

    @property
    def control_share(self) -> float:
        """The part of the whole that is not Spark's."""
        control_ms = self.open_ms + self.commit_ms
        return control_ms / (control_ms + self.record_ms + self.work_ms)


def phases(log: Sequence[Logged], steps: Sequence[Boundary]) -> list[Phases]:
    """Of every step but the first that was committed at its first attempt and whose messages are all in the log still."""
    commands = {
        (each["work"]["step"], str(each["work"]["token"])): each["timestamp_ms"]
        for each in log
        if each["record"] == "Command" and each["work"]
    }
    written = {(each["step"], str(each["token"])): each["timestamp_ms"] for each in log if each["record"] == "Written"}
    ready: dict[int, float] = {}
    for each in log:
        if each["record"] == "NodeState":  # Its step is the last one that is complete, Spark's records included.
            ready.setdefault(each["step"], each["timestamp_ms"])
    found = []
    for before, step in pairwise(steps):
        attempt = (step["step"], str(step["token"]))
        if attempt in commands and attempt in written and before["step"] in ready:
            marks = [before["committed_ms"], ready[before["step"]], commands[attempt], written[attempt], step["committed_ms"]]
            found.append(Phases(step["step"], *(end - begin for begin, end in pairwise(marks))))
    return found

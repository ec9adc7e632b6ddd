"""Where a step is, as its processes tell each other, so that a fault can hit it just there.

Follows the control topic, like `AttemptFeed`: what is heard was said a moment ago, so it is about there that a fault hits.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Any

from examples.follower import Follower


class Moment(StrEnum):
    """In an attempt at a step whose rows meet across nodes, as those of `exchanged.py`."""

    BEGUN = "begun"
    """Its command was given: nodes read their inputs, and send."""
    SENT = "a node has sent"
    """One has told what it sent; others still read, or have begun to take."""
    COUNTED = "a node has counted"
    """One has told what it sent on, to the nodes that own the partitions of its keys."""
    WRITTEN = "a node has written"
    """One has told all; the others deliver still, or the step is being committed."""


_EARLY = (Moment.SENT, Moment.COUNTED)
"""By stage: what an early report of it says."""


class StageFeed(Follower):
    """What became of attempts, committed or not."""

    def __init__(self, pipeline: str, bootstrap_servers: str) -> None:
        self._pipeline = pipeline
        self._heard: Counter[Moment] = Counter()
        super().__init__(bootstrap_servers)

    def wait_for_next(self, moment: Moment, timeout_s: float) -> bool:
        """Wait until an attempt is there. Whether one was in time."""
        with self._changed:
            before = self._heard[moment]
        return self._wait_until(lambda: self._heard[moment] > before, timeout_s)

    def _arguments(self) -> list[str]:
        return ["log", self._pipeline]

    def _hear(self, line: dict[str, Any]) -> None:
        found = moment_of(line)
        if found is not None:
            self._heard[found] += 1


def moment_of(line: dict[str, Any]) -> Moment | None:
    """What a record of the control topic, as `kcontrol log --json` prints it, says of an attempt."""
    if line["record"] == "Command" and line["work"]:
        return Moment.BEGUN
    if line["record"] != "Written" or line["failure"]:
        return None
    if not line["early"]:
        return Moment.WRITTEN
    return _EARLY[line["stage"]] if line["stage"] < len(_EARLY) else None

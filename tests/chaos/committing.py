"""One of the pipelines that chaos runs, by what it commits."""

from __future__ import annotations

import json
from collections.abc import Mapping

from examples.step_feed import StepFeed
from tests.chaos import reading
from tests.chaos.oracle import Boundary, OutputRecord

Ends = Mapping[tuple[str, int], int]
"""By topic, as the oracle knows it, and partition: the offset behind the last record."""


class Committing:
    """It. prefix: of its topics' names, without which the oracle knows them."""

    def __init__(self, name: str, bootstrap_servers: str, prefix: str) -> None:
        self.name = name
        self._servers, self._prefix = bootstrap_servers, prefix
        self.feed = StepFeed(name, bootstrap_servers)

    def close(self) -> None:
        self.feed.close()

    def has_begun_one(self, since_ms: float) -> bool:
        """Whether a step is committed that was begun after that."""
        return self.feed.committed > 0 and self.feed.last["opened_ms"] >= since_ms

    def recovered_ms(self, hit_ms: float, over_ms: float) -> float:
        """From the end of an outage to the first commit of a step that was begun after the hit: 0 when that had been
        committed before the end, because others had taken over."""
        first = next(step for step in self.feed.steps if step["opened_ms"] >= hit_ms)
        return max(0.0, float(first["committed_ms"]) - over_ms)

    def has_read(self, ends: Ends) -> bool:
        """Whether all input up to there is in committed steps, and what it has closed has come out."""
        steps = self.feed.steps
        reached = {
            (piece["topic"].removeprefix(self._prefix), piece["partition"]): piece["to"]
            for step in steps
            for piece in step["inputs"]
        }
        owes_a_step = bool(steps) and steps[-1]["watermark_moved"]
        return not owes_a_step and all(reached.get(where, 0) >= end for where, end in ends.items())

    def steps(self) -> list[Boundary]:
        """Those that are committed, with topics as the oracle knows them."""
        told = json.dumps(self.feed.steps)
        found: list[Boundary] = json.loads(told.replace(f'"topic": "{self._prefix}', '"topic": "'))
        return found

    def outputs(self) -> list[OutputRecord]:
        """What a `read_committed` consumer finds."""
        return reading.read_outputs(self._servers, self._prefix)

"""A pipeline that agents run, as the harness sees it: what it is fed, what it commits, and by whom."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

from examples.step_feed import StepFeed
from tests.chaos import oracle, reading
from tests.chaos.hosts.claims import JoinFeed, check_claims
from tests.chaos.hosts.pipelines import prefix_of
from tests.chaos.oracle import Boundary
from tests.chaos.producer import Feeder

JOINS_TIMEOUT_S = 30.0


class RunningPipeline:
    """One of them."""

    def __init__(self, name: str, servers: str, seed: int) -> None:
        self.name = name
        self._servers, self._prefix = servers, prefix_of(name)
        self.feed = StepFeed(name, servers)
        self._joins = JoinFeed(name, servers)
        self.feeder = Feeder(servers, seed, self._prefix)

    def close(self) -> None:
        self.feeder.stop()
        self.feed.close()
        self._joins.close()

    def has_begun_one(self, since_ms: float) -> bool:
        """Whether a step is committed that was begun after that."""
        return self.feed.committed > 0 and self.feed.last["opened_ms"] >= since_ms

    def drained(self) -> Callable[[], bool]:
        """Whether all input that is there now is in committed steps."""
        ends: dict[tuple[str, int], int] = {}
        for record in reading.read_inputs(self._servers, self._prefix):
            where = record.topic, record.partition
            ends[where] = max(record.offset + 1, ends.get(where, 0))

        def holds() -> bool:
            reached = {
                (piece["topic"].removeprefix(self._prefix), piece["partition"]): piece["to"]
                for step in self.feed.steps
                for piece in step["inputs"]
            }
            return all(reached.get(where, 0) >= end for where, end in ends.items())

        return holds

    def violations(self, *, complete: bool) -> list[str]:
        """Of both oracles."""
        steps = self.feed.steps
        inputs = reading.read_inputs(self._servers, self._prefix)
        outputs = reading.read_outputs(self._servers, self._prefix)
        made = {one for step in steps for one in step["token"]["incarnations"]}
        deadline = time.monotonic() + JOINS_TIMEOUT_S
        for one in made:
            self._joins.wait_for(one, max(0.0, deadline - time.monotonic()))
        found = [
            *oracle.check([self._plain(step) for step in steps], inputs, outputs, complete=complete),
            *check_claims(steps, self._joins.joins),
        ]
        return [f"{self.name}: {violation}" for violation in found]

    def _plain(self, step: Boundary) -> Boundary:
        """With topics as the oracle knows them."""
        return json.loads(json.dumps(step).replace(f'"topic": "{self._prefix}', '"topic": "'))

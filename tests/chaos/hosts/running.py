"""A pipeline that agents run, as the harness sees it: what it is fed, what it commits, and by whom."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.chaos import oracle, reading
from tests.chaos.committing import Committing
from tests.chaos.hosts.claims import JoinFeed, check_claims
from tests.chaos.hosts.pipelines import prefix_of
from tests.chaos.producer import Feeder

JOINS_TIMEOUT_S = 30.0


class RunningPipeline(Committing):
    """One of them."""

    def __init__(self, name: str, servers: str, seed: int) -> None:
        super().__init__(name, servers, prefix_of(name))
        self._joins = JoinFeed(name, servers)
        self.feeder = Feeder(servers, seed, self._prefix)

    def close(self) -> None:
        self.feeder.stop()
        super().close()
        self._joins.close()

    def drained(self) -> Callable[[], bool]:
        """Whether all input that is there now is in committed steps."""
        ends = reading.ends_of(reading.read_inputs(self._servers, self._prefix))
        return lambda: self.has_read(ends)

    def violations(self, *, complete: bool) -> list[str]:
        """Of both oracles."""
        steps = self.steps()
        inputs = reading.read_inputs(self._servers, self._prefix)
        outputs = self.outputs()
        made = {one for step in steps for one in step["token"]["incarnations"]}
        deadline = time.monotonic() + JOINS_TIMEOUT_S
        for one in made:
            self._joins.wait_for(one, max(0.0, deadline - time.monotonic()))
        found = [
            *oracle.check(steps, inputs, outputs, complete=complete),
            *check_claims(steps, self._joins.joins),
        ]
        return [f"{self.name}: {violation}" for violation in found]

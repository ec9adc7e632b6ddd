"""Committed steps and begun attempts of a pipeline as they come, from `kcontrol steps` and `kcontrol log`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from examples.follower import Follower

Boundary = dict[str, Any]
"""One StepBoundary with the names of its schema, as the command line prints it."""


class StepFeed(Follower):
    """The committed steps; they only grow, in order, without a gap."""

    def __init__(self, pipeline: str, bootstrap_servers: str) -> None:
        self._pipeline = pipeline
        self._steps: list[Boundary] = []
        super().__init__(bootstrap_servers)

    @property
    def steps(self) -> list[Boundary]:
        """Those seen so far; element k is step k + 1."""
        with self._changed:
            return list(self._steps)

    @property
    def last(self) -> Boundary:
        """The newest one seen. Raises IndexError before the first."""
        with self._changed:
            return self._steps[-1]

    @property
    def committed(self) -> int:
        """The last committed step that was seen."""
        with self._changed:
            return len(self._steps)

    def wait_for(
        self, found: Callable[[list[Boundary]], bool], timeout_s: float, each_s: float = 1.0
    ) -> bool:
        """Wait until `found` holds of the steps; looks when one comes, and every
        `each_s`. Whether it held in time.

        Raises ValueError when the log's steps don't follow each other.
        """
        return self._wait_until(lambda: found(self._steps), timeout_s, each_s)

    def _arguments(self) -> list[str]:
        return ["steps", self._pipeline, "--from", str(len(self._steps) + 1)]

    def _hear(self, line: Boundary) -> None:
        if line["step"] != len(self._steps) + 1:
            raise ValueError(f"the log has step {line['step']} after step {len(self._steps)}")
        self._steps.append(line)


class AttemptFeed(Follower):
    """The attempts that coordinators commanded, committed or not."""

    def __init__(self, pipeline: str, bootstrap_servers: str) -> None:
        self._pipeline = pipeline
        self._tokens: set[str] = set()
        super().__init__(bootstrap_servers)

    @property
    def count(self) -> int:
        """Attempts seen so far."""
        with self._changed:
            return len(self._tokens)

    def wait_for_next(self, timeout_s: float) -> bool:
        """Wait until another attempt begins: on return it is under way. Whether one began in time."""
        before = self.count
        return self._wait_until(lambda: len(self._tokens) > before, timeout_s)

    def _arguments(self) -> list[str]:
        return ["log", self._pipeline]

    def _hear(self, line: dict[str, Any]) -> None:
        if line["record"] == "Command" and line["work"]:
            self._tokens.add(json.dumps(line["work"]["token"]))


def records_in(steps: list[Boundary]) -> int:
    """Input records of the steps."""
    return sum(piece["records"] for step in steps for piece in step["inputs"])


def records_out(steps: list[Boundary]) -> int:
    """Output records of the steps."""
    return sum(piece["records"] for step in steps for piece in step["outputs"])


def recovered_ms(steps: list[Boundary], since_ms: float) -> float | None:
    """Time from `since_ms` to the commit of the first step that was begun after it; None as long as there is
    none."""
    return next((step["committed_ms"] - since_ms for step in steps if step["opened_ms"] >= since_ms), None)

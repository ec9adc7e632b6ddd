"""The second oracle: of the processes that made the steps of a pipeline, one after the other was its node, and never two.

By the claims in the logs alone. Each step names in its token the incarnations that made it, each of which is the offset of
a join, and each join names the placement by which an agent has started it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from examples.follower import Follower
from tests.chaos.oracle import Boundary, Violation

Placement = tuple[int, int]
"""When the cluster of agents began, and the offset of the entry in its log."""


@dataclass(frozen=True, slots=True)
class Join:
    """Of one process. placement: None if no agent has started it."""

    node: int
    process_id: int
    placement: Placement | None


class JoinFeed(Follower):
    """Every join of a pipeline's nodes, by offset, as they come: compaction may forget those that count no more."""

    def __init__(self, pipeline: str, bootstrap_servers: str) -> None:
        self._pipeline = pipeline
        self._joins: dict[int, Join] = {}
        super().__init__(bootstrap_servers)

    @property
    def joins(self) -> dict[int, Join]:
        """Those seen so far."""
        with self._changed:
            return dict(self._joins)

    def wait_for(self, incarnation: int, timeout_s: float) -> bool:
        """Whether it was seen in time."""
        return self._wait_until(lambda: incarnation in self._joins, timeout_s)

    def _arguments(self) -> list[str]:
        return ["log", self._pipeline]

    def _hear(self, line: dict[str, Any]) -> None:
        if line["record"] == "NodeJoin":
            placed = line.get("placement")
            placement = None if placed is None else (placed["founded_ms"], placed["generation"])
            self._joins[line["offset"]] = Join(line["node"], line["process_id"], placement)


def check_claims(steps: Sequence[Boundary], joins: Mapping[int, Join]) -> list[Violation]:
    """All violations."""
    return [*_nodes(steps, joins), *_coordinators(steps)]


def _nodes(steps: Sequence[Boundary], joins: Mapping[int, Join]) -> Iterator[Violation]:
    """Each step was made by processes that agents have started, and no process made one after its successor had."""
    newest: dict[int, tuple[Placement, int]] = {}
    for boundary in steps:
        for node, incarnation in enumerate(boundary["token"]["incarnations"]):
            join = joins.get(incarnation)
            if join is None or join.node != node:
                yield Violation("nobody's step", boundary["step"], f"node {node}: no join at {incarnation}")
                continue
            if join.placement is None:
                yield Violation("not placed", boundary["step"], f"node {node}: process {join.process_id}")
                continue
            is_, was = (join.placement, incarnation), newest.get(node)
            if was is not None and is_ < was:
                yield Violation("two at once", boundary["step"], f"node {node}: made by {is_} after {was}")
            newest[node] = is_


def _coordinators(steps: Sequence[Boundary]) -> Iterator[Violation]:
    """No coordinator commits after one that has claimed the pipeline later."""
    newest = -1
    for boundary in steps:
        claim = boundary["token"]["claim_epoch"]
        if claim < newest:
            yield Violation("two coordinators", boundary["step"], f"claim {claim} after {newest}")
        newest = max(newest, claim)

"""What a replay hands on: the records of a step that was run again, and the places that take them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from kcontrol.core.model import StepBoundary

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class ReplayedRecord:
    """A record as a query made it again. `headers` are without kcontrol's own `step`."""

    output: str
    partition: int
    key: bytes | None
    value: bytes | None
    headers: Headers


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """What one node made of one step.

    boundary: what the log says of the step. records: output by output, in the order in which a partition gets
    them; may be gone through more than once, and is never held in memory as a whole. last_node: no other node
    brings more of this step.
    """

    boundary: StepBoundary
    records: Iterable[ReplayedRecord]
    last_node: bool


class Destination(Protocol):
    """Takes the steps of a replay: all steps of the first node, in order, then all of the next."""

    def deliver(self, step: ReplayedStep) -> int:
        """Take the records of one step; returns how many a limit left out."""
        ...

    def close(self) -> None:
        """Nothing more comes; what belongs to a step that was not completed is cleared away."""
        ...

"""Turns: how several writers share a partition within one transaction.

Sequence numbers belong to (producer id, epoch, partition) and must arrive one after the other, so only one
writer may send at a time. A turn hands over what the next batch must begin with. Whoever deals turns gives
each number out once, and a writer that fails in its turn fails the attempt: nobody else knows what it sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

UNKNOWN_END = -1


@dataclass(frozen=True, slots=True)
class WriteTurn:
    """Leave to send to one partition now. sequence: of the next record. end: up to which offset the partition
    has been written, UNKNOWN_END before the first turn."""

    partition: int
    sequence: int
    end: int


class Turns(Protocol):
    """The turns of one writer in one output's partitions. Called by one thread at a time."""

    def take(self, back: Sequence[WriteTurn], wanted: Sequence[int]) -> Sequence[WriteTurn]:
        """Give turns back, as they are now, and wait for one or more of those that are wanted; none if it takes
        long: ask again.

        Nobody may hold a turn and wait for another, so `back` must be all that is held. Raises StepFailedError.
        """
        ...

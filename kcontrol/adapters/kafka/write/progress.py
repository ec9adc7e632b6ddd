"""How far a writer is with one partition."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kcontrol.backoff import Deadline, Tries
from kcontrol.wire.batches import UNNUMBERED, SealedBatch, next_sequence

EARLY_GRACE_MS = 2_000
"""A step may be shown while its coordinator still adds the partitions, which takes milliseconds. Whom Kafka tells for
longer that a partition is not in the transaction, is too late, and not too early."""


@dataclass(slots=True)
class PartitionProgress:
    """One partition. `from_` and `end`: of what is acknowledged; before that, `end` is where the log ended
    when we came. `tries`: at its first waiting batch, once one has failed.

    Where writers take turns: `sequence` is the number of the next record, and `allowed` how many of the waiting
    batches may be sent in the turn that is held.
    """

    partition: int
    waiting: deque[SealedBatch] = field(default_factory=deque)
    from_: int = -1
    end: int = -1
    records: int = 0
    busy: bool = False
    tries: Tries | None = None
    sequence: int = 0
    allowed: int = 0
    early: Deadline | None = None
    """Since it was first told that the partition is not in the transaction."""

    @property
    def may_be_early(self) -> bool:
        """Whether a partition that is not in the transaction may come to be: nothing was written there yet."""
        self.early = self.early or Deadline(EARLY_GRACE_MS)
        return self.from_ < 0 and not self.early.passed

    def first(self) -> SealedBatch:
        """The batch to be sent, which gets its number if it has none: from then on it is the same bytes however
        often it is sent."""
        batch = self.waiting[0]
        if batch.base_sequence == UNNUMBERED:
            batch = self.waiting[0] = batch.numbered(self.sequence)
        return batch

    def acknowledged(self, base_offset: int) -> SealedBatch:
        """The first batch is there."""
        batch = self.waiting.popleft()
        if self.from_ < 0:
            self.from_ = base_offset
        self.end = base_offset + batch.records
        self.records += batch.records
        self.sequence = next_sequence(self.sequence, batch.records)
        self.allowed -= 1
        self.tries = None
        return batch

    def split(self, parts: list[SealedBatch]) -> int:
        """The first batch goes as several. By how many bytes that is more."""
        batch = self.waiting.popleft()
        self.waiting.extendleft(reversed(parts))
        self.allowed += len(parts) - 1
        return sum(len(part.data) for part in parts) - len(batch.data)

"""Kafka in memory, as far as kcontrol's processes can tell: the control log, the log of steps and one
transaction.

It behaves as Kafka was seen to behave: InitProducerId is last-caller-wins and aborts what was open; a write
counts only under the newest producer epoch and to a partition that was added; a commit makes what was written
visible together. The contract suite holds it against a real broker (tests/contract).

The control partition and the partition of steps are replicated, each with a leader of its own (replicas.py):
what is appended lies in one order, but a reader is told by a broker where it ends, and that may be behind.
Control records of transactions take offsets in the partition of steps as in Kafka: a marker for each
transaction that had it added, committed or aborted, and what was written before it is hidden from a
read_committed reader until that reader's broker knows the marker. InitProducerId is answered by one
transaction coordinator, when the marker of what was open is written.

Not modelled: that EndTxn is answered before the marker is written (readers that are told of boundaries late
show the same), the outputs' and the inputs' own replicas (nodes may only be told late how far an input
reaches), and more than one writer of the partition of steps, which is refused by rights, not by kcontrol.
"""

from __future__ import annotations

from kcontrol.core.log.keys import key_of
from kcontrol.core.model import ControlRecord, Logged, LoggedStep, StepRecord, Tombstone
from tests.simulation.replicas import BROKERS, Replicas

PRODUCER_ID = 7
STEPS = ("steps", 0)
"""The partition of steps, as a transaction names it."""
_MOST_BEHIND = 6


class Fenced(Exception):
    """The producer epoch is not the newest, or the partition is not in the transaction."""


class NotAdded(Fenced):
    """The producer epoch is the newest, and the partition is not in the transaction: not yet, or not any more."""


class NotTheEnd(Exception):
    """What ends a transaction came to lie elsewhere than at the end that its author has read to; it is not
    committed.

    log_end: what the acknowledgement says of where the log ends; 0 if there was none.
    """

    def __init__(self, found: str, log_end: int) -> None:
        super().__init__(found)
        self.log_end = log_end


class Broker:
    """The logs and the transaction of one pipeline."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.control: list[Logged | None] = []
        """By offset; None where compaction has removed the record."""
        self.newest: dict[str, int] = {}
        """By key, the offset of its newest record."""
        self.control_replicas = Replicas()
        self.steps: list[LoggedStep | None] = []
        """By offset; None for a control record, and where the record was aborted or removed by compaction."""
        self.stable = [0]
        """By high watermark, the last stable offset that goes with it."""
        self.steps_replicas = Replicas()
        self.epoch = 0
        self.tells_epochs = False
        """Every transaction has an epoch of its own, and the answer to a commit tells the next one (KIP-890)."""
        self.added: frozenset[tuple[str, int]] = frozenset()
        self.hidden: tuple[LoggedStep, ...] = ()
        """What the open transaction has written to the log of steps."""

    def copy_logs_of(self, other: Broker) -> None:
        """Have lists of one's own that are like those of the other."""
        self.control = list(other.control)
        self.newest = dict(other.newest)
        self.control_replicas = other.control_replicas.clone()
        self.steps = list(other.steps)
        self.stable = list(other.stable)
        self.steps_replicas = other.steps_replicas.clone()

    def move_leaders(self, moment: int) -> None:
        """Of both partitions, in an instant; the new ones know what was committed a little
        before, `moment` says how little."""
        for replicas, end in (
            (self.control_replicas, len(self.control)),
            (self.steps_replicas, len(self.steps)),
        ):
            behind = 1 + moment % _MOST_BEHIND
            replicas.elect((replicas.leader + 1) % BROKERS, end - behind, end, old_answers=False, hears=True)

    # --- the control log ------------------------------------------------------------------------------------

    def append(self, record: ControlRecord | Tombstone) -> int:
        """At the end of the control log; its offset."""
        offset = len(self.control)
        self.control.append(Logged(offset, self.now_ms, record))
        self.control_replicas.appended()
        self.newest[record.key if isinstance(record, Tombstone) else key_of(record)] = offset
        return offset

    def compact(self, keep_tombstones_after: int) -> None:
        """Keep of each key the newest record only, and no tombstone older than the given offset."""
        end = self.control_replicas.known_to_all(len(self.control))
        kept = set(self.newest.values())
        superseded = {key for key, offset in self.newest.items() if offset < end}
        for offset, logged in enumerate(self.control[:end]):
            if logged is None:
                continue
            record = logged.record
            old = isinstance(record, Tombstone) and offset < keep_tombstones_after
            key = record.key if isinstance(record, Tombstone) else key_of(record)
            if old or (offset not in kept and key in superseded):
                self.control[offset] = None

    def compact_steps(self, until: int, read_by_all: int) -> None:
        """Remove what a tombstone before `until` has made void, and the tombstone if everybody has read
        it."""
        until = min(until, self.steps_replicas.known_to_all(len(self.steps)))
        gone = {
            logged.record.key
            for logged in self.steps[:until]
            if logged and isinstance(logged.record, Tombstone)
        }
        for offset, logged in enumerate(self.steps):
            if logged is None:
                continue
            record = logged.record
            if offset < min(until, read_by_all) if isinstance(record, Tombstone) else key_of(record) in gone:
                self.steps[offset] = None

    # --- the transaction ------------------------------------------------------------------------------------

    def init_producer(self) -> tuple[int, int]:
        """Fences whoever had the transaction, and aborts it if it was open."""
        if self.added:
            self._end_transaction()
        self.epoch += 1
        return PRODUCER_ID, self.epoch

    def _end_transaction(self) -> None:
        """Its marker comes to lie behind what it has written to the log of steps."""
        if STEPS in self.added:
            self.steps.append(None)
            self.stable.append(len(self.steps))
            self.steps_replicas.appended()
        self.added, self.hidden = frozenset(), ()

    def add_partitions(self, epoch: int, partitions: tuple[tuple[str, int], ...]) -> None:
        """Opens the transaction, or makes it wider."""
        if epoch != self.epoch:
            raise Fenced
        self.added |= frozenset(partitions)

    def check_write(self, epoch: int, partition: tuple[str, int]) -> None:
        """Raises Fenced unless a batch of this epoch may be written there."""
        if epoch != self.epoch:
            raise Fenced
        if partition not in self.added:
            raise NotAdded

    def write_last(self, epoch: int, *records: StepRecord | Tombstone) -> int:
        """What ends a transaction, in one batch at the end of the log of steps; its base offset. Nobody sees
        it yet."""
        self.check_write(epoch, STEPS)
        begin = len(self.steps)
        self.hidden += tuple(LoggedStep(offset, record) for offset, record in enumerate(records, begin))
        for _ in records:
            self.steps.append(None)
            self.stable.append(self.hidden[0].offset)
        self.steps_replicas.appended()
        return begin

    def end(self, epoch: int) -> tuple[int, int] | None:
        """EndTxn(commit): everything that the transaction holds becomes visible. The producer of the next
        transaction, if the answer tells."""
        self.check_write(epoch, STEPS)
        for logged in self.hidden:
            self.steps[logged.offset] = logged
        self._end_transaction()
        if not self.tells_epochs:
            return None
        self.epoch += 1
        return PRODUCER_ID, self.epoch

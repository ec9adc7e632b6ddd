"""The world that the cores live in, in memory: two logs, a transaction coordinator, inputs and outputs, and one clock.

It behaves as Kafka was seen to behave: InitProducerId is last-caller-wins and aborts what was open; a write counts
only under the newest producer epoch and to a partition that was added; a commit makes boundary and outputs visible together.
Every change of what is committed is checked at once; see invariants.py.

The control partition and the partition of steps are replicated, each with a leader of its own (replicas.py): what is appended
lies in one order, but a reader is told by a broker where it ends, and that may be behind. Control records of transactions
take offsets in the partition of steps as in Kafka: a marker for each transaction that had it added, committed or aborted, and
what was written before it is hidden from a read_committed reader until that reader's broker knows the marker. InitProducerId
is answered by one transaction coordinator, when the marker of what was open is written.

Not modelled: that EndTxn is answered before the marker is written (readers that are told of boundaries late show the same),
the outputs' and the inputs' own replicas (nodes may only be told late how far an input reaches), and more than one writer of
the partition of steps, which is refused by rights, not by kcontrol.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.log.keys import key_of, numbered
from kcontrol.core.model import (
    Checkpoint,
    ControlRecord,
    Gap,
    InputDesired,
    Logged,
    LoggedStep,
    OutputSlice,
    PipelineSpec,
    SkipRequest,
    StepBoundary,
    StepRecord,
    Token,
    Tombstone,
)
from kcontrol.core.step.gaps import with_gap
from tests.simulation.invariants import Violation, check_checkpoint, check_commit, check_kept, check_once
from tests.simulation.replicas import BROKERS, Replicas
from tests.simulation.specs import holds_record

PRODUCER_ID = 7
_MOST_BEHIND = 6
_T = TypeVar("_T")


def twin_of(one: _T) -> _T:
    """Another object with the same attributes."""
    twin = object.__new__(type(one))
    twin.__dict__.update(one.__dict__)
    return twin


class Fenced(Exception):
    """The producer epoch is not the newest, or the partition is not in the transaction."""


class NotTheEnd(Exception):
    """What ends a transaction came to lie elsewhere than at the end that its author has read to; it is not committed.

    log_end: what the acknowledgement says of where the log ends; 0 if there was none.
    """

    def __init__(self, found: str, log_end: int) -> None:
        super().__init__(found)
        self.log_end = log_end


@dataclass(frozen=True, slots=True)
class Segment:
    """What one task wrote to one output partition."""

    output: int
    partition: int
    from_: int
    to: int
    step: int
    token: Token
    incarnation: int


@dataclass(frozen=True, slots=True)
class StoredPart:
    """What a manifest in the checkpoint location stands for."""

    node: int
    history: tuple[object, ...]
    """The signatures of all steps that made the state."""


class World:
    """All that survives the death of a process."""

    def __init__(self, spec: PipelineSpec) -> None:
        self.spec = spec
        self.sizes = frozenset({spec.nodes})
        """Every number of nodes that the pipeline ever had."""
        self.now_ms = 1_000_000
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
        self.replicated = False
        """Leaders move in this schedule."""
        self.boundaries: list[StepBoundary] = []
        """Of every step that was ever committed."""
        self.offsets: list[int] = []
        """Of the boundaries in the log."""
        self.first_step = 1
        """The oldest that was not dropped."""
        self.checkpoints: list[Checkpoint] = []
        """Those in the log that were not dropped."""
        self.store: dict[str, StoredPart] = {}
        """The checkpoint location, by manifest."""
        self.saved: set[int] = set()
        """Every step of which there ever was a checkpoint."""
        self.asked: dict[str, int] = {}
        """By request for a checkpoint, the step that was committed then."""
        self.reached: dict[int, int] = {}
        """By incarnation, the newest step that its engine has held."""
        self.input_ends = [list(item.start_offsets) for item in spec.inputs]
        self.input_earliest = [[0 for _ in item.start_offsets] for item in spec.inputs]
        self.hidden_until: dict[int, int] = {}
        """By node, before how many events its watchers are shown input late."""
        self.wishes: dict[str, tuple[tuple[int, bool], ...]] = {item.name: () for item in spec.inputs}
        """By input, every (offset, paused) that was ever asked for."""
        self.held: dict[str, int] = {}
        """By input, the offset of the newest pause that a coordinator has said it goes by."""
        self.skips: dict[str, SkipRequest] = {}
        """By request, all that were ever asked for."""
        self.epoch = 0
        self.added: frozenset[tuple[str, int]] = frozenset()
        self.open: list[Segment] = []
        self.output_ends = {(o, p): 0 for o, item in enumerate(spec.outputs) for p in range(item.partitions)}
        self.tokens: set[Token] = set()
        self.events = 0
        """How many events the cores have decided."""
        self.view = PipelineView.empty(spec.pipeline)
        """A fold of everything that was ever in the control log."""
        self.ruling_epoch = -1
        """The newest claim whose coordinator has fenced and read both logs: from then on no older one may commit."""

    def gaps(self, partition: int, end: int) -> tuple[Gap, ...]:
        """The offsets of a partition of any input that hold no record."""
        found: tuple[Gap, ...] = ()
        for offset in range(end):
            if not holds_record(self.spec, partition, offset):
                found = with_gap(found, Gap(offset, offset + 1, 1), end)
        return found

    def clone(self) -> World:
        """A world of its own that is like this one."""
        twin = twin_of(self)
        twin.control = list(self.control)
        twin.newest = dict(self.newest)
        twin.control_replicas = self.control_replicas.clone()
        twin.steps = list(self.steps)
        twin.stable = list(self.stable)
        twin.steps_replicas = self.steps_replicas.clone()
        twin.boundaries = list(self.boundaries)
        twin.offsets = list(self.offsets)
        twin.checkpoints = list(self.checkpoints)
        twin.store = dict(self.store)
        twin.saved = set(self.saved)
        twin.asked = dict(self.asked)
        twin.reached = dict(self.reached)
        twin.input_ends = [list(ends) for ends in self.input_ends]
        twin.input_earliest = [list(earliest) for earliest in self.input_earliest]
        twin.hidden_until = dict(self.hidden_until)
        twin.wishes = dict(self.wishes)
        twin.held = dict(self.held)
        twin.skips = dict(self.skips)
        twin.open = list(self.open)
        twin.output_ends = dict(self.output_ends)
        twin.tokens = set(self.tokens)
        return twin

    def move_leaders(self) -> None:
        """Of both partitions, in an instant; the new ones know what was committed a little before."""
        for replicas, end in ((self.control_replicas, len(self.control)), (self.steps_replicas, len(self.steps))):
            behind = 1 + self.events % _MOST_BEHIND
            replicas.elect((replicas.leader + 1) % BROKERS, end - behind, end, old_answers=False, hears=True)

    def submit(self, spec: PipelineSpec) -> None:
        """Another definition, of another number of nodes."""
        self.spec = spec
        self.sizes |= {spec.nodes}
        self.append(spec)

    # --- the control log ----------------------------------------------------------------------------------------------

    def append(self, record: ControlRecord | Tombstone) -> int:
        """At the end of the control log; its offset."""
        offset = len(self.control)
        logged = Logged(offset, self.now_ms, record)
        self.control.append(logged)
        self.control_replicas.appended()
        self.view = evolve(self.view, logged)
        self.newest[record.key if isinstance(record, Tombstone) else key_of(record)] = offset
        if isinstance(record, InputDesired):
            self.wishes[record.input] = (*self.wishes[record.input], (offset, record.paused))
        elif isinstance(record, SkipRequest):
            self.skips[record.request_id] = record
        return offset

    def committed(self, index: int, partition: int) -> int:
        """Where the log of steps ends in a partition of an input."""
        item = self.spec.inputs[index]
        pieces = self.boundaries[-1].inputs if self.boundaries else ()
        return next((one.to for one in pieces if (one.input, one.partition) == (item.name, partition)), 0)

    def is_paused(self, name: str) -> bool:
        """Whether the user wants nothing of an input."""
        return bool(self.wishes[name]) and self.wishes[name][-1][1]

    def has_grown(self, index: int) -> bool:
        """Whether an input has partitions that the spec does not know."""
        return len(self.input_ends[index]) > len(self.spec.inputs[index].start_offsets)

    @property
    def is_keyed_apart(self) -> bool:
        """Whether equal keys must stay on one of several nodes."""
        return self.spec.stateful and self.spec.nodes > 1

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
        """Remove what a tombstone before `until` has made void, and the tombstone if everybody has read it."""
        until = min(until, self.steps_replicas.known_to_all(len(self.steps)))
        gone = {logged.record.key for logged in self.steps[:until] if logged and isinstance(logged.record, Tombstone)}
        for offset, logged in enumerate(self.steps):
            if logged is None:
                continue
            record = logged.record
            if offset < min(until, read_by_all) if isinstance(record, Tombstone) else key_of(record) in gone:
                self.steps[offset] = None

    # --- the transaction ----------------------------------------------------------------------------------------------

    def init_producer(self) -> tuple[int, int]:
        """Fences whoever had the transaction, and aborts it if it was open."""
        if self.added:
            self._end_transaction()
        self.epoch += 1
        self.open = []
        return PRODUCER_ID, self.epoch

    def _end_transaction(self) -> None:
        """Its marker comes to lie behind what it has written to the log of steps."""
        self.steps.append(None)
        self.stable.append(len(self.steps))
        self.steps_replicas.appended()
        self.added = frozenset()

    def add_partitions(self, epoch: int, partitions: tuple[tuple[str, int], ...]) -> None:
        """Opens the transaction."""
        if epoch != self.epoch:
            raise Fenced
        self.added = frozenset(partitions)

    def write(self, output: int, partition: int, records: int, step: int, token: Token, incarnation: int) -> OutputSlice:
        """One writer's records to one partition. The broker can't tell two writers of one epoch apart, so that is checked."""
        item = self.spec.outputs[output]
        if token.producer_epoch != self.epoch or (item.topic, partition) not in self.added:
            raise Fenced
        for other in self.open:
            if (other.output, other.partition) == (output, partition):
                raise Violation("one writer a partition", f"{incarnation} writes {item.name}/{partition} after {other}")
        begin = self.output_ends[output, partition]
        self.output_ends[output, partition] = begin + records
        self.open.append(Segment(output, partition, begin, begin + records, step, token, incarnation))
        return OutputSlice(item.name, item.topic, partition, begin, begin + records, records, f"{records:032x}")

    def write_last(self, epoch: int, *records: StepRecord | Tombstone) -> int:
        """What ends a transaction, in one batch at the end of the log of steps; its base offset. Nobody sees it yet."""
        if epoch != self.epoch or not self.added:
            raise Fenced
        begin = len(self.steps)
        for _ in records:
            self.steps.append(None)
            self.stable.append(begin)
        self.steps_replicas.appended()
        return begin

    def commit(self, epoch: int, boundary: StepBoundary, expected_offset: int) -> None:
        """The boundary and everything that was written under the epoch become visible at once, if it lies where it should."""
        offset = self._written_where_expected(epoch, expected_offset, boundary)
        check_commit(self, boundary)
        check_once(self, boundary)
        self.offsets.append(offset)
        self._commit_from(offset, boundary)
        self.boundaries.append(boundary)
        self.tokens.add(boundary.token)
        self.open = []

    def commit_checkpoint(self, epoch: int, checkpoint: Checkpoint, forget: tuple[str, ...], expected_offset: int) -> None:
        """The checkpoint becomes visible, and what it makes needless is forgotten, at once, if it lies where it should."""
        gone = [Tombstone(key) for key in forget]
        offset = self._written_where_expected(epoch, expected_offset, checkpoint, *gone)
        check_checkpoint(self, checkpoint)
        self._commit_from(offset, checkpoint, *gone)
        self.checkpoints.append(checkpoint)
        self.saved.add(checkpoint.step)
        for key in forget:
            kind, step = numbered(key)
            if kind == "checkpoint":
                self.checkpoints = [one for one in self.checkpoints if one.step != step]
            else:
                self.first_step = max(self.first_step, step + 1)
        check_kept(self)

    def _written_where_expected(self, epoch: int, expected_offset: int, *records: StepRecord | Tombstone) -> int:
        offset = self.write_last(epoch, *records)
        if not lies_at_the_end(offset, expected_offset):
            raise NotTheEnd(f"written at {offset}, read to {expected_offset}", len(self.steps))
        return offset

    def _commit_from(self, begin: int, *records: StepRecord | Tombstone) -> None:
        for offset, record in enumerate(records, begin):
            self.steps[offset] = LoggedStep(offset, record)
        self._end_transaction()


def lies_at_the_end(offset: int, expected_offset: int) -> bool:
    """What the shell asks of the acknowledgement of a boundary, before it asks for the commit."""
    return offset == expected_offset

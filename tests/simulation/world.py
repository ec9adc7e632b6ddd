"""The world that the cores live in, in memory: two logs, a transaction coordinator, inputs and outputs, and one clock.

It behaves as Kafka was seen to behave (design 5): InitProducerId is last-caller-wins and aborts what was open; a write counts
only under the newest producer epoch and to a partition that was added; a commit makes boundary and outputs visible together.
Every change of what a reader could see is checked at once; see invariants.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from kcontrol.core.keys import key_of, numbered
from kcontrol.core.model import (
    Checkpoint,
    ControlRecord,
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
from kcontrol.core.pipeline_view import PipelineView, evolve
from tests.simulation.invariants import Violation, check_checkpoint, check_commit, check_kept

PRODUCER_ID = 7
_T = TypeVar("_T")


def twin_of(one: _T) -> _T:
    """Another object with the same attributes."""
    twin = object.__new__(type(one))
    twin.__dict__.update(one.__dict__)
    return twin


class Fenced(Exception):
    """The producer epoch is not the newest, or the partition is not in the transaction."""


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
        self.steps: list[LoggedStep | None] = []
        """The log of steps, by offset; None where compaction has removed the record."""
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

    def clone(self) -> World:
        """A world of its own that is like this one."""
        twin = twin_of(self)
        twin.control = list(self.control)
        twin.newest = dict(self.newest)
        twin.steps = list(self.steps)
        twin.boundaries = list(self.boundaries)
        twin.offsets = list(self.offsets)
        twin.checkpoints = list(self.checkpoints)
        twin.store = dict(self.store)
        twin.saved = set(self.saved)
        twin.asked = dict(self.asked)
        twin.reached = dict(self.reached)
        twin.input_ends = [list(ends) for ends in self.input_ends]
        twin.input_earliest = [list(earliest) for earliest in self.input_earliest]
        twin.wishes = dict(self.wishes)
        twin.held = dict(self.held)
        twin.skips = dict(self.skips)
        twin.open = list(self.open)
        twin.output_ends = dict(self.output_ends)
        twin.tokens = set(self.tokens)
        return twin

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
        kept = set(self.newest.values())
        for offset, logged in enumerate(self.control):
            if logged is None:
                continue
            old = isinstance(logged.record, Tombstone) and offset < keep_tombstones_after
            if old or offset not in kept:
                self.control[offset] = None

    def compact_steps(self, until: int, read_by_all: int) -> None:
        """Remove what a tombstone before `until` has made void, and the tombstone if everybody has read it."""
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
        self.epoch += 1
        self.added = frozenset()
        self.open = []
        return PRODUCER_ID, self.epoch

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

    def commit(self, epoch: int, boundary: StepBoundary) -> None:
        """The boundary and everything that was written under the epoch become visible at once."""
        if epoch != self.epoch or not self.added:
            raise Fenced
        check_commit(self, boundary)
        self.offsets.append(len(self.steps))
        self._log(boundary)
        self.boundaries.append(boundary)
        self.tokens.add(boundary.token)
        self.open = []
        self.added = frozenset()

    def commit_checkpoint(self, epoch: int, checkpoint: Checkpoint, forget: tuple[str, ...]) -> None:
        """The checkpoint becomes visible, and what it makes needless is forgotten, at once."""
        if epoch != self.epoch or not self.added:
            raise Fenced
        check_checkpoint(self, checkpoint)
        self._log(checkpoint)
        self.checkpoints.append(checkpoint)
        self.saved.add(checkpoint.step)
        for key in forget:
            self._log(Tombstone(key))
            kind, step = numbered(key)
            if kind == "checkpoint":
                self.checkpoints = [one for one in self.checkpoints if one.step != step]
            else:
                self.first_step = max(self.first_step, step + 1)
        check_kept(self)
        self.added = frozenset()

    def _log(self, record: StepRecord | Tombstone) -> None:
        self.steps.append(LoggedStep(len(self.steps), record))

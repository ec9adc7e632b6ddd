"""The world that the cores live in, in memory: two logs, a transaction coordinator,
inputs and outputs, and one clock.

What Kafka does is in broker.py. Every change of what is committed is checked at once; see invariants.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from kcontrol.core.events import Following
from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.log.keys import numbered
from kcontrol.core.model import (
    Assignment,
    Checkpoint,
    ControlRecord,
    ExchangeSlice,
    Gap,
    Hold,
    InputDesired,
    LayoutPhase,
    LayoutRequest,
    Logged,
    LoggedStep,
    OutputSlice,
    PipelineSpec,
    SkipRequest,
    Status,
    StepBoundary,
    StepRecord,
    StepWork,
    Token,
    Tombstone,
)
from kcontrol.core.step.gaps import with_gap
from tests.simulation.broker import STEPS, Broker, NotTheEnd
from tests.simulation.exchanged import ExchangeTopics, check_exchanged
from tests.simulation.holds import Holds, check_limits
from tests.simulation.invariants import Violation, check_commit, check_kept, check_once
from tests.simulation.rows import Row
from tests.simulation.specs import EXCHANGES, holds_record
from tests.simulation.states import check_assignment, check_checkpoint, check_reset

_T = TypeVar("_T")


def twin_of(one: _T) -> _T:
    """Another object with the same attributes."""
    twin = object.__new__(type(one))
    twin.__dict__.update(one.__dict__)
    return twin


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
    step: int
    history: tuple[object, ...]
    """The signatures of all steps that made the state."""
    shards: int = 0
    """Into how many it is cut."""
    incarnation: int = 0


class World(Broker):
    """All that survives the death of a process."""

    def __init__(self, spec: PipelineSpec) -> None:
        super().__init__(1_000_000)
        self.spec = spec
        self.sizes = frozenset({spec.nodes})
        """Every number of nodes that the pipeline ever had."""
        self.specs = {spec.nodes: spec}
        """The newest definition of each of these."""
        self.exchanged = ExchangeTopics()
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
        self.assignments: list[Assignment] = []
        """Every change of the layout."""
        self.layouts: dict[str, LayoutRequest] = {}
        """By request, every other layout that was ever asked for while the pipeline ran."""
        self.given_up: set[str] = set()
        """Of these, those that whoever was in charge has said to be refused or given up."""
        self.saves_no_last_step = False
        """Nothing can be saved as long as people are told that a change of the layout is being made."""
        self.saved: set[int] = set()
        """Every step of which there ever was a checkpoint."""
        self.asked: dict[str, int] = {}
        """By request for a checkpoint, the step that was committed then."""
        self.begun: dict[tuple[int, int], Token] = {}
        """By producer id and epoch, the attempt that nodes have begun."""
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
        self.holds = Holds()
        self.open: list[Segment] = []
        self.output_ends = {(o, p): 0 for o, item in enumerate(spec.outputs) for p in range(item.partitions)}
        self.tokens: set[Token] = set()
        self.events = 0
        """How many events the cores have decided."""
        self.view = PipelineView.empty(spec.pipeline)
        """A fold of everything that was ever in the control log."""
        self.ruling_epoch = -1
        """The newest claim whose coordinator has fenced and read both logs: from then on no older one may
        commit."""

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
        twin.copy_logs_of(self)
        twin.specs, twin.exchanged = dict(self.specs), self.exchanged.clone()
        twin.boundaries = list(self.boundaries)
        twin.offsets = list(self.offsets)
        twin.checkpoints = list(self.checkpoints)
        twin.store = dict(self.store)
        twin.saved = set(self.saved)
        twin.assignments = list(self.assignments)
        twin.layouts = dict(self.layouts)
        twin.given_up = set(self.given_up)
        twin.asked = dict(self.asked)
        twin.begun, twin.reached = dict(self.begun), dict(self.reached)
        twin.input_ends = [list(ends) for ends in self.input_ends]
        twin.input_earliest = [list(earliest) for earliest in self.input_earliest]
        twin.hidden_until = dict(self.hidden_until)
        twin.wishes = dict(self.wishes)
        twin.held = dict(self.held)
        twin.skips = dict(self.skips)
        twin.holds = self.holds.clone()
        twin.open = list(self.open)
        twin.output_ends = dict(self.output_ends)
        twin.tokens = set(self.tokens)
        return twin

    def submit(self, spec: PipelineSpec) -> None:
        """Another definition, of another number of nodes."""
        self.spec = spec
        self.sizes |= {spec.nodes}
        self.specs[spec.nodes] = spec
        self.append(spec)

    # --- the control log ------------------------------------------------------------------------------------

    def append(self, record: ControlRecord | Tombstone) -> int:
        """As in Broker; what users ask for is remembered."""
        offset = super().append(record)
        self.view = evolve(self.view, Logged(offset, self.now_ms, record))
        if isinstance(record, InputDesired):
            self.wishes[record.input] = (*self.wishes[record.input], (offset, record.paused))
        elif isinstance(record, SkipRequest):
            self.skips[record.request_id] = record
        elif isinstance(record, Hold):
            self.holds.add(record, self.now_ms)
        elif isinstance(record, LayoutRequest):
            self.layouts[record.request_id] = record
        elif isinstance(record, Status) and record.claim_epoch == self.view.epoch:
            told = record.layout
            if told is not None and told.phase in (LayoutPhase.GIVEN_UP, LayoutPhase.REFUSED):
                self.given_up.add(told.request_id)
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
        return self.spec.stateful and self.spec.nodes > 1 and not self.spec.exchanges

    # --- the transaction ------------------------------------------------------------------------------------

    def init_producer(self) -> tuple[int, int]:
        """As in Broker: what was written in vain is forgotten."""
        producer = super().init_producer()
        self.open = []
        self.exchanged.transaction_ended()
        return producer

    def send(
        self, exchange: int, slot: int, rows: Sequence[tuple[int, tuple[Row, ...]]], token: Token
    ) -> ExchangeSlice:
        """One writer's rows to one partition of an exchange, by the node that they are for."""
        item = EXCHANGES[exchange]
        self.check_write(token.producer_epoch, (item.topic, slot))
        return self.exchanged.send(item.name, slot, token, rows)

    def write_late(self, place: tuple[int, int], work: StepWork, incarnation: int) -> None:
        """What the executors of a node that is dead have still to write; see `SimulatedEngine.to_write`."""
        output, partition = place
        if output >= 0:
            self.write(output, partition, 1, work.step, work.token, incarnation)
        else:
            self.send(-1 - output, partition, [(0, (("late", 0, work.step),))], work.token)

    def write(
        self, output: int, partition: int, records: int, step: int, token: Token, incarnation: int
    ) -> OutputSlice:
        """One writer's records to one partition. The broker can't tell two writers of one
        epoch apart, so that is checked."""
        item = self.spec.outputs[output]
        self.check_write(token.producer_epoch, (item.topic, partition))
        for other in self.open:
            if (other.output, other.partition) == (output, partition):
                raise Violation(
                    "one writer a partition", f"{incarnation} writes {item.name}/{partition} after {other}"
                )
        begin = self.output_ends[output, partition]
        self.output_ends[output, partition] = begin + records
        self.open.append(Segment(output, partition, begin, begin + records, step, token, incarnation))
        return OutputSlice(
            item.name, item.topic, partition, begin, begin + records, records, f"{records:032x}"
        )

    def commit(self, epoch: int, boundary: StepBoundary, expected_offset: int) -> Following | None:
        """The boundary and everything that was written under the epoch become visible at
        once, if it lies where it should."""
        offset = self._write_where_expected(epoch, expected_offset, boundary)
        producer = self.end(epoch)
        return None if producer is None else Following(*producer, LoggedStep(offset, boundary), offset + 2)

    def commit_checkpoint(
        self,
        epoch: int,
        checkpoint: Checkpoint | None,
        forget: tuple[str, ...],
        expected_offset: int,
        assignment: Assignment | None = None,
    ) -> None:
        """The checkpoint and the change of the layout become visible, and what the first makes needless is forgotten, at
        once, if it lies where it should."""
        records = [each for each in (checkpoint, assignment) if each is not None]
        self._write_where_expected(epoch, expected_offset, *records, *map(Tombstone, forget))
        self.end(epoch)

    def end(self, epoch: int) -> tuple[int, int] | None:
        """As in Broker, if whoever reads the log may see what was written."""
        self.check_write(epoch, STEPS)
        producer = None
        made, forgotten = self.hidden[0], [logged.record for logged in self.hidden[1:]]
        if isinstance(made.record, StepBoundary) and made.record.reset is not None:
            check_reset(self, made.record, [gone.key for gone in forgotten if isinstance(gone, Tombstone)])
            producer = super().end(epoch)
            self.offsets.append(made.offset)
            self.boundaries.append(made.record)
            self.checkpoints = [one for one in self.checkpoints if one.step <= made.record.reset.to_step]
        elif isinstance(made.record, StepBoundary):
            check_commit(self, made.record)
            check_limits(self, made.record)
            check_once(self, made.record)
            last = self.boundaries[-1] if self.boundaries else None
            check_exchanged(self.exchanged, self.specs[made.record.nodes], last, made.record)
            producer = super().end(epoch)
            self.exchanged.transaction_ended()
            self.offsets.append(made.offset)
            self.boundaries.append(made.record)
            self.tokens.add(made.record.token)
            self.open = []
        elif isinstance(made.record, Checkpoint):
            check_checkpoint(self, made.record)
            producer = super().end(epoch)
            self._saved(made.record, [gone.key for gone in forgotten if isinstance(gone, Tombstone)])
            for more in forgotten:
                if isinstance(more, Assignment):
                    self._assigned(more)
        elif isinstance(made.record, Assignment):
            producer = super().end(epoch)
            self._assigned(made.record)
        return producer

    def _assigned(self, assignment: Assignment) -> None:
        check_assignment(self, assignment)
        self.assignments.append(assignment)
        self.checkpoints = [_as_cut(one, assignment) for one in self.checkpoints]

    def _saved(self, checkpoint: Checkpoint, forgotten: list[str]) -> None:
        self.checkpoints.append(checkpoint)
        self.saved.add(checkpoint.step)
        for key in forgotten:
            kind, step = numbered(key)
            if kind == "checkpoint":
                self.checkpoints = [one for one in self.checkpoints if one.step != step]
            else:
                self.first_step = max(self.first_step, step + 1)
        self.exchanged.delete_before(self.boundaries[self.first_step - 1 :])
        check_kept(self)

    def _write_where_expected(
        self, epoch: int, expected_offset: int, *records: StepRecord | Tombstone
    ) -> int:
        offset = self.write_last(epoch, *records)
        if not lies_at_the_end(offset, expected_offset):
            raise NotTheEnd(f"written at {offset}, read to {expected_offset}", len(self.steps))
        return offset


def _as_cut(checkpoint: Checkpoint, assignment: Assignment) -> Checkpoint:
    if not assignment.parts or checkpoint.step != assignment.step:
        return checkpoint
    return replace(checkpoint, parts=assignment.parts, assignment=assignment)


def lies_at_the_end(offset: int, expected_offset: int) -> bool:
    """What the shell asks of the acknowledgement of a boundary, before it asks for the commit."""
    return offset == expected_offset

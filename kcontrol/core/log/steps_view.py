"""What the log of steps says: how far the pipeline is committed and where the next step begins.

Only committed records are ever folded. Boundaries are contiguous by construction, so a gap means that the log
was damaged or belongs to something else; going on would lose or repeat input, so it is an error and never
repaired here. The oldest steps may be gone: they are dropped in order, beginning with the oldest, and only
together with a checkpoint that makes up for them.

A step that is recorded again, as earlier versions could do where leaders moved, does not end its readers: the
newest record of a key counts, as it will when the topic is compacted, and as it does for the nodes' state,
which the newest attempt has made. It is remembered as a `Double` until a person has accepted it, and until
then no step is made.

A step may be a reset: those before it, back to one that it names, are void (`resets`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from kcontrol.core.log.keys import accepted_offset, numbered
from kcontrol.core.log.resets import Resets, made_by, reset_after, void_by, with_reset
from kcontrol.core.model import Assignment, Checkpoint, LoggedStep, StepBoundary, Tombstone
from kcontrol.errors import DamagedRecordError


@dataclass(frozen=True, slots=True)
class Double:
    """A step or a checkpoint that was in the log already when it was recorded at `offset`.

    kind: 'step' or 'checkpoint'. With a step all that followed its first record is void, up to `last`.
    """

    kind: str
    step: int
    last: int
    offset: int


@dataclass(frozen=True, slots=True)
class StepsView:
    """A fold of the steps topic. A boundary names every partition of every input, so the last one says it
    all.

    last: the newest committed boundary; None before step 1.
    """

    pipeline: str
    last: StepBoundary | None = None
    next_from: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By (input, partition): one past the last offset that is in a committed step."""
    first: int = 1
    """The oldest step that was not dropped; one more than `step` if there is none."""
    last_offset: int = -1
    """Of `last` in the log."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """Those that were not dropped, oldest first."""
    resized: int = 0
    """The newest step that was not dropped and that the step after it was not made by as
    many nodes as, or not by the same assignment; 0 if there is none. A reset that lies before the oldest checkpoint counts
    like that: nobody has to begin before it, and who reads from there does not know of it."""
    doubles: tuple[Double, ...] = ()
    """What was recorded again, and not accepted by a person since; oldest first."""
    assignments: tuple[Assignment, ...] = ()
    """The changes of the layout that were read, oldest first: of a reader that began at a checkpoint those that were not
    replaced by then."""
    resets: Resets = ()
    """What was made void, as far as a node can come to begin there."""
    begun: bool = False
    """Reading has begun, at a checkpoint, and no step was read yet: what is left out is known from
    `begun_at`."""

    @staticmethod
    def begun_at(pipeline: str, newest: Checkpoint) -> StepsView:
        """For a reader that begins at the `begin_offset` of the newest checkpoint in the log, which it has
        looked up.

        What it has read to the end is then what a reader from the beginning has, whose time grows with the
        log.
        """
        known = () if newest.assignment is None else (newest.assignment,)
        return StepsView(
            pipeline,
            first=newest.first_step,
            resized=newest.resized_step,
            assignments=known,
            begun=True,
        )

    @property
    def step(self) -> int:
        """The last committed step; 0 before the first."""
        return 0 if self.last is None else self.last.step

    @property
    def now_ms(self) -> int:
        """The time of the last committed step; 0 before the first."""
        return 0 if self.last is None else self.last.now_ms

    @property
    def is_reset(self) -> bool:
        """Whether the last committed step is a reset."""
        return self.last is not None and self.last.reset is not None

    @property
    def checkpoint(self) -> int:
        """The step of the newest checkpoint; 0 if there is none."""
        return self.checkpoints[-1].step if self.checkpoints else 0

    @property
    def assignment(self) -> Assignment | None:
        """By which the next step is made; None while the layout was never changed."""
        return self.assignments[-1] if self.assignments else None

    def assignment_of(self, step: int) -> Assignment | None:
        """By which a step was made or will be, as far as that was read."""
        return next((one for one in reversed(self.assignments) if one.step < step), None)

    def can_replay_after(self, step: int) -> bool:
        """Whether every step from the next one on is still in the log, for a node that holds `step`."""
        return self.first - 1 <= step <= self.step

    def can_begin_at(self, step: int, nodes: int) -> bool:
        """Whether one of so many nodes that holds `step` can go on from there.

        Steps that were made by another number of nodes, or before the layout was changed, can't be run again by these:
        partitions were divided otherwise.
        """
        if self.last is None or step == self.step:
            return step == self.step
        made_so = self.last.nodes == nodes and step >= self.resized
        return made_so and self.can_replay_after(step) and self.void_by(step) is None

    def void_by(self, step: int) -> int | None:
        """The reset that has made a step void; None if it is not, or is so old that nobody begins there."""
        return void_by(self.resets, step)

    def reset_after(self, step: int) -> int | None:
        """The reset that went back to a step, and so is what follows it; None if the next number does."""
        return reset_after(self.resets, step)

    def made_by(self, step: int) -> int:
        """The step whose state and positions a step has: its own, or that which a reset went back to."""
        return made_by(self.resets, step)

    def checkpoint_of(self, step: int) -> Checkpoint | None:
        """The checkpoint of a step, if there is one."""
        return next((one for one in self.checkpoints if one.step == step), None)

    @property
    def saved(self) -> tuple[Checkpoint, ...]:
        """The checkpoints that state can be had from, oldest first: one that was made while the pipeline had none says only
        where the log may be read from."""
        return tuple(one for one in self.checkpoints if one.parts)

    def saved_of(self, step: int) -> Checkpoint | None:
        """The checkpoint that state as of a step can be had from, if there is one."""
        found = self.checkpoint_of(step)
        return found if found is not None and found.parts else None


def evolve(view: StepsView, logged: LoggedStep) -> StepsView:
    """The view after one more record of the steps topic, in offset order.

    Raises DamagedRecordError when a boundary leaves out a step, goes back in time, or starts an input
    elsewhere than the step before ended it or a range that it says was skipped ends, and when a checkpoint is
    not newer than the last one or is of a step that is not there. The first boundary that is still in the log
    may have any number: older ones may be tombstoned.
    """
    record = logged.record
    if isinstance(record, Tombstone):
        return _without(view, record.key)
    if isinstance(record, Checkpoint):
        return _with_checkpoint(view, record, logged.offset)
    if isinstance(record, Assignment):
        return _with_assignment(view, record, logged.offset)
    if view.last is not None and record.step <= view.step:
        return _again(view, record, logged.offset)
    if view.last is not None:
        _check_follows(view, view.last, record, logged.offset)
    next_from = {(piece.input, piece.partition): piece.to for piece in record.inputs}
    first = record.step if view.last is None and not view.begun else view.first
    resized = view.resized if view.last is None or view.last.nodes == record.nodes else view.step
    following = StepsView(
        view.pipeline,
        record,
        next_from,
        first,
        logged.offset,
        view.checkpoints,
        resized,
        view.doubles,
        view.assignments,
        view.resets,
    )
    return following if record.reset is None else _gone_back(following, record.reset.to_step)


def _gone_back(view: StepsView, to_step: int) -> StepsView:
    """What was made of void steps is void as well."""
    return replace(
        view,
        checkpoints=tuple(one for one in view.checkpoints if one.step <= to_step),
        resets=with_reset(view.resets, to_step, view.step),
    )


def _without_old_resets(view: StepsView) -> StepsView:
    """Nobody has to begin before the oldest checkpoint, and who begins to read there does not know what lies before."""
    oldest = view.checkpoints[0].step if view.checkpoints else 0
    old = [each.reset for each in view.resets if each.reset <= max(oldest, view.first - 1)]
    if not old:
        return view
    resized = max(view.resized, *old)
    return replace(
        view,
        resets=tuple(each for each in view.resets if each.reset not in old),
        resized=resized if resized >= view.first else 0,
    )


def _again(view: StepsView, record: StepBoundary, offset: int) -> StepsView:
    """A step that was there already: what followed its first record never was."""
    return replace(
        view,
        last=record,
        next_from={(piece.input, piece.partition): piece.to for piece in record.inputs},
        first=min(view.first, record.step),
        last_offset=offset,
        checkpoints=tuple(one for one in view.checkpoints if one.step < record.step),
        resized=view.resized if view.resized < record.step else 0,
        assignments=tuple(one for one in view.assignments if one.step < record.step),
        resets=tuple(one for one in view.resets if one.reset < record.step),
        doubles=(*view.doubles, Double("step", record.step, view.step, offset)),
    )


def _without(view: StepsView, key: str) -> StepsView:
    accepted = accepted_offset(key)
    if accepted is not None:
        return replace(view, doubles=tuple(one for one in view.doubles if one.offset > accepted))
    kind, step = numbered(key)
    if kind == "step" and view.last is not None:
        first = max(view.first, step + 1)
        resized = view.resized if view.resized >= first else 0
        return _without_old_resets(replace(view, first=first, resized=resized))
    if kind == "checkpoint":
        kept = tuple(one for one in view.checkpoints if one.step != step)
        return _without_old_resets(replace(view, checkpoints=kept))
    return view


def _with_checkpoint(view: StepsView, checkpoint: Checkpoint, offset: int) -> StepsView:
    if view.checkpoint == checkpoint.step:
        again = Double("checkpoint", checkpoint.step, checkpoint.step, offset)
        return replace(view, checkpoints=(*view.checkpoints[:-1], checkpoint), doubles=(*view.doubles, again))
    if not view.checkpoint < checkpoint.step <= view.step:
        raise DamagedRecordError(
            f"pipeline {view.pipeline}: the steps log at offset {offset} holds a checkpoint of step "
            f"{checkpoint.step} after step {view.step} and the checkpoint of step {view.checkpoint}; the "
            "log was changed from outside"
        )
    if view.void_by(checkpoint.step) is not None:
        raise DamagedRecordError(
            f"pipeline {view.pipeline}: the steps log at offset {offset} holds a checkpoint of step {checkpoint.step}, which "
            f"is void since step {view.void_by(checkpoint.step)}; the log was changed from outside"
        )
    return _without_old_resets(replace(view, checkpoints=(*view.checkpoints, checkpoint)))


def _with_assignment(view: StepsView, assignment: Assignment, offset: int) -> StepsView:
    view = _cut_anew(view, assignment)
    if view.assignment is not None and assignment.number <= view.assignment.number:
        return view  # It was known from the checkpoint that reading began at.
    if view.last is None:
        # All steps that were made before it are gone.
        return replace(view, assignments=(*view.assignments, assignment))
    if assignment.step != view.step:
        raise DamagedRecordError(
            f"pipeline {view.pipeline}: the steps log at offset {offset} holds assignment {assignment.number}, made for "
            f"what follows step {assignment.step}, after step {view.step}; the log was changed from outside"
        )
    return replace(view, assignments=(*view.assignments, assignment), resized=view.step)


def _cut_anew(view: StepsView, assignment: Assignment) -> StepsView:
    """With the parts of the checkpoint that the layout was changed over as they are since, if its shards are others."""
    if not assignment.parts:
        return view
    checkpoints = tuple(
        replace(one, parts=assignment.parts, assignment=assignment) if one.step == assignment.step else one
        for one in view.checkpoints
    )
    return replace(view, checkpoints=checkpoints)


def _check_follows(view: StepsView, last: StepBoundary, boundary: StepBoundary, offset: int) -> None:
    where = f"pipeline {view.pipeline}: the steps log at offset {offset}"
    if boundary.step != last.step + 1:
        raise DamagedRecordError(
            f"{where} holds step {boundary.step} after step {last.step}; the log was changed from outside"
        )
    # A reader that began at a checkpoint knows the newest one before it reads the steps of those before.
    assignment = view.assignment_of(boundary.step)
    if assignment is not None and boundary.nodes != assignment.nodes:
        raise DamagedRecordError(
            f"{where}: step {boundary.step} was made by {boundary.nodes} nodes, but by assignment "
            f"{assignment.number} there are {assignment.nodes}; the log was changed from outside"
        )
    if boundary.now_ms <= last.now_ms:
        raise DamagedRecordError(
            f"{where}: step {boundary.step} has time {boundary.now_ms}, not later than {last.now_ms} before"
        )
    if boundary.reset is not None:
        _check_goes_back(view, boundary, boundary.reset.to_step, where)
        return
    skips = {(skip.input, skip.partition, skip.from_): skip.to for skip in boundary.skipped_ranges}
    for piece in boundary.inputs:
        expected = view.next_from.get((piece.input, piece.partition), piece.from_)
        expected = skips.get((piece.input, piece.partition, expected), expected)
        if piece.from_ != expected:
            raise DamagedRecordError(
                f"{where}: step {boundary.step} reads input {piece.input} partition {piece.partition} from "
                f"offset {piece.from_}, but the step before ended at {expected}"
            )


def _check_goes_back(view: StepsView, boundary: StepBoundary, to_step: int, where: str) -> None:
    changed = max((one.step for one in view.assignments), default=0)
    reads = [piece for piece in boundary.inputs if piece.from_ != piece.to]
    there = changed < to_step < boundary.step and view.void_by(to_step) is None
    if not there or reads:
        raise DamagedRecordError(
            f"{where}: step {boundary.step} goes back to step {to_step}, which can't be: that is void itself, lies before a "
            "change of the layout, or something was read on the way; the log was changed from outside"
        )


class Boundaries:
    """The boundaries of contiguous steps that a node may still have to replay, as a
    value that is cheap to extend.

    Values share one growing list and each remembers how much of it is its own; a value that is extended twice
    gets a list of its own the second time. A log of a million steps is so read in linear time.
    """

    __slots__ = ("_begin", "_end", "_items")

    def __init__(self, items: list[StepBoundary] | None = None, begin: int = 0, end: int = 0) -> None:
        self._items = [] if items is None else items
        self._begin = begin
        self._end = end

    @property
    def first(self) -> int:
        """The first step that is held; 0 if none is."""
        return self._items[self._begin].step if self._begin < self._end else 0

    def get(self, step: int) -> StepBoundary | None:
        """The boundary of a step, if it is held."""
        if self._begin == self._end:
            return None
        index = self._begin + step - self._items[self._begin].step
        return self._items[index] if self._begin <= index < self._end else None

    def extended(self, boundary: StepBoundary) -> Boundaries:
        """With the next step at the end; what is held of a step that comes again, and of those after it,
        goes."""
        items = self._items
        if self._begin < self._end and boundary.step <= items[self._end - 1].step:
            kept = [one for one in items[self._begin : self._end] if one.step < boundary.step]
            return Boundaries([*kept, boundary], 0, len(kept) + 1)
        if len(items) != self._end:
            items = items[self._begin : self._end]
            items.append(boundary)
            return Boundaries(items, 0, len(items))
        items.append(boundary)
        return Boundaries(items, self._begin, self._end + 1)

    def without(self, step: int) -> Boundaries:
        """Without all steps up to and including this one."""
        if self._begin == self._end or step < self.first:
            return self
        begin = min(self._end, self._begin + step - self.first + 1)
        if begin * 2 < len(self._items):
            return Boundaries(self._items, begin, self._end)
        return Boundaries(self._items[begin : self._end], 0, self._end - begin)

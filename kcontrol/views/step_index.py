"""Which step read an input offset, which step wrote an output offset, and where each boundary is in its log.

Three numbers of eight bytes for each slice that is not empty, in sorted arrays: that much can be kept of
every step of a long log. Boundaries themselves are read again from the log when somebody wants to see them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from enum import Enum

from kcontrol.core.model import StepBoundary
from kcontrol.views.void_steps import SeenResets, VoidSince


class _Slices:
    """The slices of one partition, in the order of steps and so of offsets."""

    __slots__ = ("begins", "ends", "steps")

    def __init__(self) -> None:
        self.steps, self.begins, self.ends = array("q"), array("q"), array("q")

    def add(self, step: int, from_: int, to: int) -> None:
        if to > from_:
            self.steps.append(step)
            self.begins.append(from_)
            self.ends.append(to)

    def find(self, offset: int) -> int | None:
        at = bisect_right(self.ends, offset)
        return self.steps[at] if at < len(self.ends) and self.begins[at] <= offset else None

    def first_after(self, step: int) -> int | None:
        at = bisect_right(self.steps, step)
        return self.begins[at] if at < len(self.begins) else None

    def forget_before(self, step: int) -> None:
        gone = bisect_left(self.steps, step)
        del self.steps[:gone], self.begins[:gone], self.ends[:gone]

    def forget_from(self, step: int) -> None:
        kept = bisect_left(self.steps, step)
        del self.steps[kept:], self.begins[kept:], self.ends[kept:]


class OffsetPlace(Enum):
    """Of an input offset, as one boundary sees it."""

    EARLIER = "earlier"
    HERE = "here"
    LATER = "later"


def place_of(boundary: StepBoundary, input_name: str, partition: int, offset: int) -> OffsetPlace:
    """Whether a step, an earlier or a later one has read an offset or passed over it at a user's request."""
    for piece in boundary.inputs:
        if (piece.input, piece.partition) == (input_name, partition):
            skipped = (
                one.from_
                for one in boundary.skipped_ranges
                if (one.input, one.partition) == (input_name, partition)
            )
            begin = min((piece.from_, *skipped))
            return (
                OffsetPlace.EARLIER
                if offset < begin
                else OffsetPlace.HERE
                if offset < piece.to
                else OffsetPlace.LATER
            )
    # The partition was added later.
    return OffsetPlace.LATER


def skips(boundary: StepBoundary, input_name: str, partition: int, offset: int) -> bool:
    """Whether a step has passed over an offset at a user's request."""
    ranges = (one for one in boundary.skipped_ranges if (one.input, one.partition) == (input_name, partition))
    return any(one.from_ <= offset < one.to for one in ranges)


class StepIndex:
    """Of the steps that are in the log, and of no others."""

    def __init__(self) -> None:
        self._inputs: dict[tuple[str, int], _Slices] = defaultdict(_Slices)
        self._outputs: dict[tuple[str, int], _Slices] = defaultdict(_Slices)
        self._skipped: dict[tuple[str, int], _Slices] = defaultdict(_Slices)
        self._skips: dict[str, int] = {}
        self._void = SeenResets()
        self._offsets = array("q")
        self._first = 1

    def add(self, boundary: StepBoundary, offset: int) -> None:
        """The next step; `offset` is where its boundary is in the steps topic. One that comes again takes the
        place of itself and of all that followed it."""
        self._forget_from(boundary.step)
        if not self._offsets:
            self._first = boundary.step
        self._offsets.append(offset)
        self._void.see(boundary)
        if boundary.reset is not None:
            self._forget_read_after(boundary.reset.to_step)
        for piece in boundary.inputs:
            self._inputs[piece.input, piece.partition].add(boundary.step, piece.from_, piece.to)
        for out in boundary.outputs:
            self._outputs[out.topic, out.partition].add(boundary.step, out.from_, out.to)
        for skip in boundary.skipped_ranges:
            self._skipped[skip.input, skip.partition].add(boundary.step, skip.from_, skip.to)
            self._skips[skip.request_id] = boundary.step

    def forget_before(self, step: int) -> None:
        """Steps before this one were dropped from the log."""
        gone = min(max(0, step - self._first), len(self._offsets))
        if gone:
            del self._offsets[:gone]
            self._first += gone
            self._void.forget_before(step)
            for slices in (*self._inputs.values(), *self._outputs.values(), *self._skipped.values()):
                slices.forget_before(step)
            self._skips = {request: made for request, made in self._skips.items() if made >= step}

    def _forget_from(self, step: int) -> None:
        kept = step - self._first
        if self._offsets and kept < len(self._offsets):
            del self._offsets[max(0, kept) :]
            self._void.forget_from(step)
            for slices in (*self._inputs.values(), *self._outputs.values(), *self._skipped.values()):
                slices.forget_from(step)
            self._skips = {request: made for request, made in self._skips.items() if made < step}

    def _forget_read_after(self, step: int) -> None:
        """Steps after this one are void: what they read is read again by others. What they wrote is still there."""
        for slices in (*self._inputs.values(), *self._skipped.values()):
            slices.forget_from(step + 1)
        self._skips = {request: made for request, made in self._skips.items() if made <= step}

    def offset_of(self, step: int) -> int | None:
        """Of a step's boundary in the steps topic; None for a step that is not there."""
        at = step - self._first
        return self._offsets[at] if 0 <= at < len(self._offsets) else None

    def void_since(self, step: int) -> VoidSince | None:
        """What has made a step void; None if it counts, or the reset is not in the log."""
        return self._void.since(step)

    def reader_of(self, input_name: str, partition: int, offset: int) -> int | None:
        """The step whose slice of this input holds the offset."""
        slices = self._inputs.get((input_name, partition))
        return None if slices is None else slices.find(offset)

    def first_read_after(self, step: int, input_name: str, partition: int) -> int | None:
        """The first offset that steps after this one have read of a partition; None if they have read
        none."""
        slices = self._inputs.get((input_name, partition))
        return None if slices is None else slices.first_after(step)

    def skipper_of(self, input_name: str, partition: int, offset: int) -> int | None:
        """The step that passed over the offset at a user's request."""
        slices = self._skipped.get((input_name, partition))
        return None if slices is None else slices.find(offset)

    def step_of_skip(self, request_id: str) -> int | None:
        """The step that went by a request to skip."""
        return self._skips.get(request_id)

    def writer_of(self, topic: str, partition: int, offset: int) -> int | None:
        """The step that wrote the offset of an output topic."""
        slices = self._outputs.get((topic, partition))
        return None if slices is None else slices.find(offset)

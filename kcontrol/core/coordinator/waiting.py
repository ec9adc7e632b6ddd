"""Since when input waits: by partition, when the coordinator heard how far it reaches, by its own monotonic clock.

A record's arrival is when its node's report of it was read, whatever the coordinator was doing then: a step's delay counts
from there, also when the record came while the step before was made. Offsets that hold no record do not arrive. A coordinator
that takes over knows nothing of what its predecessor heard, and counts from when it reads the reports itself; input that was
paused counts from when it is read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.model import Gap, InputRange, Received
from kcontrol.core.step.gaps import Seen, gaps_of, records_between
from kcontrol.core.step.offsets import is_paused, next_offset, node_of

_MAX_MARKS = 64
"""Of one partition. With more, pairs are merged under the earlier time: input then waits too short rather than too long."""

Marks = tuple[tuple[int, int], ...]
"""(when, offset after the last one that was there then), oldest first."""


def hear_received(state: CoordinatorState, received: Received) -> None:
    """A node's report was read."""
    spec, view = state.view.spec(), state.view
    item = None if spec is None else next((one for one in spec.inputs if one.name == received.input), None)
    if spec is None or item is None or is_paused(view, item) or view.incarnation(received.node) != received.incarnation:
        return
    for seen in received.partitions:
        if seen.topic_id == item.topic_id and node_of(item, spec.nodes, seen.partition) == received.node:
            _mark(state, (item.name, seen.partition), next_offset(state.steps, item, seen.partition), seen.to, seen.gaps)


def note_waiting(state: CoordinatorState, ranges: Iterable[InputRange], seen: Seen) -> None:
    """What waits now and was not heard as it came, because nobody knew yet that it counts, waits from now on."""
    for one in ranges:
        if one.from_ < one.to:
            _mark(state, (one.input, one.partition), one.from_, one.to, gaps_of(seen, one))


def forget_done(state: CoordinatorState) -> None:
    """A step was committed, and what it holds waits no more."""
    kept = {place: _after(marks, state.steps.next_from.get(place, -1)) for place, marks in state.arrivals.items()}
    state.arrivals = {place: marks for place, marks in kept.items() if marks}
    state.only_gaps_ms = None


def forget_inputs(state: CoordinatorState, names: Iterable[str]) -> None:
    """These inputs are paused."""
    gone = set(names)
    state.arrivals = {place: marks for place, marks in state.arrivals.items() if place[0] not in gone}


def arrived_ms(arrivals: Mapping[tuple[str, int], Marks], ranges: Iterable[InputRange]) -> int | None:
    """When the first offset of the ranges arrived; None if they are empty."""
    firsts = (_after(arrivals.get((one.input, one.partition), ()), one.from_)[:1] for one in ranges if one.from_ < one.to)
    return min((mark[0] for first in firsts for mark in first), default=None)


def _mark(state: CoordinatorState, place: tuple[str, int], begin: int, to: int, gaps: Iterable[Gap]) -> None:
    marks = state.arrivals.get(place, ())
    if records_between(gaps, max(begin, marks[-1][1]) if marks else begin, to):
        marks = (*marks, (state.now_ms, to))
        state.arrivals = {**state.arrivals, place: _merged(marks) if len(marks) > _MAX_MARKS else marks}


def _after(marks: Marks, offset: int) -> Marks:
    first = next((index for index, (_, to) in enumerate(marks) if to > offset), len(marks))
    return marks[first:]


def _merged(marks: Marks) -> Marks:
    return tuple((marks[at][0], marks[min(at + 1, len(marks) - 1)][1]) for at in range(0, len(marks), 2))

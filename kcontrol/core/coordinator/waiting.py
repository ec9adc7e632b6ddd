"""What input waits: how far nodes say that it reaches, and since when that is known (parts/arrivals.py).

A record's arrival is when its node's report of it was read, whatever the coordinator was doing then: a step's
delay counts from there, also when the record came while the step before was made. Offsets that hold no record
do not arrive. A coordinator that takes over knows nothing of what its predecessor heard, and counts from when
it reads the reports itself; input that was paused counts from when it is read again.
"""

from __future__ import annotations

from collections.abc import Iterable

from kcontrol.core.coordinator.holding import limits_of
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.model import InputRange, PipelineSpec, Received
from kcontrol.core.step.gaps import Seen, gaps_of
from kcontrol.core.step.offsets import is_paused, next_offset, node_of, paused_inputs, requests_offset
from kcontrol.core.step.skips import skips_due


def hear_received(state: CoordinatorState, received: Received) -> None:
    """A node's report was read."""
    spec, view, arrivals = state.view.spec(), state.view, state.arrivals
    item = None if spec is None else next((one for one in spec.inputs if one.name == received.input), None)
    if (
        spec is None
        or item is None
        or is_paused(view, item)
        or view.incarnation(received.node) != received.incarnation
    ):
        return
    for seen in received.partitions:
        if seen.topic_id == item.topic_id and node_of(item, spec.nodes, seen.partition) == received.node:
            begin = next_offset(state.steps, item, seen.partition)
            arrivals = arrivals.marked((item.name, seen.partition), begin, seen.to, seen.gaps, state.now_ms)
    state.arrivals = arrivals


def note_waiting(state: CoordinatorState, ranges: Iterable[InputRange], seen: Seen) -> None:
    """What waits now and was not heard as it came, because nobody knew yet that it counts, waits from now
    on."""
    arrivals = state.arrivals
    for one in ranges:
        if one.from_ < one.to:
            arrivals = arrivals.marked(
                (one.input, one.partition), one.from_, one.to, gaps_of(seen, one), state.now_ms
            )
    state.arrivals = arrivals


def take_note_of_inputs(state: CoordinatorState, spec: PipelineSpec) -> None:
    """Every step from here on goes by what users want of inputs now. A plan that was made
    by something else is given up.

    No attempt at it is under way, and none can begin before every node has rolled back from the last one; so
    it is as if it had never been made, as it is after a takeover.
    """
    paused = paused_inputs(spec, state.view)
    plan = state.current.plan
    goes_by = paused, skips_due(spec, state.steps, state.view), limits_of(state)
    if plan is not None and (plan.paused, plan.skips, plan.limits) != goes_by:
        state.current = state.current.planned(None)
    if paused != state.asked.paused:
        state.arrivals = state.arrivals.without(paused)
    state.asked = state.asked.of_inputs(paused, requests_offset(spec, state.view))

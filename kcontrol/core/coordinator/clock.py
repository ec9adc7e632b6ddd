"""The clock of steps: it follows the coordinator's wall clock as far as another clock bears
that out, and never goes back.

Deadlines count the monotonic clock of the process. The time of a step can't: it is what queries see as now,
on every host and in every replay. So it is a monotonic clock too, set by wall clocks (docs/design.md,
"Time"):

- it runs as the monotonic clock does, whatever happens to the wall clock meanwhile, and never
  behind the last committed step;
- the wall clock may push it forward, but not further than `clock_tolerance` beyond the *witness*: the time at
  which the log says that nodes have spoken last. That is the broker's clock where the control topic has
  LogAppendTime, as kcontrol makes it, else the nodes' own, of which the middle one counts.
"""

from __future__ import annotations

from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.model import PipelineSpec


def follow_clock(state: CoordinatorState, spec: PipelineSpec) -> None:
    """Set the clock of steps anew. All nodes are in place, so each has spoken since this coordinator's
    claim."""
    tolerance_ms = spec.limits.clock_tolerance_ms
    witness_ms = _witness(state, spec.nodes)
    ahead_ms = (
        state.wall_ahead_ms if witness_ms is None else min(state.wall_ahead_ms, witness_ms + tolerance_ms)
    )
    floor_ms = state.steps.now_ms - state.now_ms
    before_ms = state.step_clock.ahead_ms
    ahead_ms = max(ahead_ms, floor_ms, ahead_ms if before_ms is None else before_ms)
    difference_ms = state.wall_ahead_ms - ahead_ms
    if witness_ms is not None and difference_ms <= 0:
        difference_ms = min(difference_ms, state.wall_ahead_ms - witness_ms)
    state.step_clock = state.step_clock.set(ahead_ms, difference_ms, tolerance_ms)


def step_time(state: CoordinatorState) -> int:
    """What a step that is decided now has for its `now_ms`: later than the last committed step's."""
    ahead_ms = state.wall_ahead_ms if state.step_clock.ahead_ms is None else state.step_clock.ahead_ms
    return max(state.now_ms + ahead_ms, state.steps.now_ms + 1)


def difference_text(difference_ms: int) -> str:
    """A sentence for people about `clock_difference_ms`, which is not 0."""
    wrong = "ahead of" if difference_ms > 0 else "behind"
    return (
        f"the coordinator's wall clock is {abs(difference_ms) / 1000:,.1f} s {wrong} the time that steps go "
        "by, which the timestamps of the log and the last step bear out: correct the clock of its host, or "
        "of the others"
    )


def _witness(state: CoordinatorState, nodes: int) -> int | None:
    """What the middle one of the nodes' timestamps is ahead of the monotonic clock: of two,
    the earlier; None without any.

    What was read late seems early, so this may be too little, and never too much.
    """
    found = sorted(state.hearing.witnesses[node] for node in range(nodes) if node in state.hearing.witnesses)
    return found[(len(found) - 1) // 2] if found else None

"""When a step is due, and if none is, when to look again."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model import Reason, StepPolicySpec


@dataclass(frozen=True, slots=True)
class Due:
    """The reason for a step now, or when there will be one if nothing else happens; both None: only events
    help."""

    reason: Reason | None
    wake_ms: int | None = None


def due(
    policy: StepPolicySpec,
    *,
    waiting: int,
    arrived_ms: int | None,
    only_gaps_ms: int | None = None,
    last_now_ms: int,
    watermark_moved: bool,
    skips: bool = False,
    hurries: bool = False,
    settles: bool = False,
    now_ms: int,
    step_now_ms: int,
) -> Due:
    """Whether a step is due at `now_ms`, by the monotonic clock; `step_now_ms` is the
    same moment by the clock of steps.

    waiting: records received beyond the last committed step over all nodes, none of paused inputs.
    arrived_ms: when the first of them arrived, by the monotonic clock; None if there are none.
    only_gaps_ms: since when nothing waits but offsets that hold no record; None if there
    are none, or records beside them.
    last_now_ms, watermark_moved: of the last committed step; 0 and False before the first.
    skips: offsets are to be passed over, which a step has to record, so that who waits for them sees them
    done with.
    hurries, settles: the pipeline is held, and what it still waits for to read is there already; or it has read
    all that it may, and only what was read is still to be finished (step/limits.py).

    The policy's clock ticks at multiples of its period, by the clock of steps, so that a late step does not
    shift the ones after it.
    """
    if waiting >= max(1, policy.min_records):
        return Due(Reason.RECORDS)
    if watermark_moved:
        return Due(Reason.WATERMARK)
    if skips:
        return Due(Reason.SKIP)
    if settles:
        return Due(None)
    if hurries:
        return Due(Reason.DELAY)
    wakes = []
    record_over_ms = arrived_ms + policy.max_delay_ms if waiting > 0 and arrived_ms is not None else None
    for delay_over_ms in (record_over_ms, gaps_over_ms(policy, only_gaps_ms)):
        if delay_over_ms is not None:
            if now_ms >= delay_over_ms:
                return Due(Reason.DELAY)
            wakes.append(delay_over_ms)
    if policy.clock_ms > 0:
        tick_ms = (last_now_ms // policy.clock_ms + 1) * policy.clock_ms
        if step_now_ms >= tick_ms:
            return Due(Reason.CLOCK)
        wakes.append(now_ms + tick_ms - step_now_ms)
    return Due(None, min(wakes, default=None))


def gaps_over_ms(policy: StepPolicySpec, only_gaps_ms: int | None) -> int | None:
    """When offsets that hold no record have waited long enough for another step, by the monotonic clock.

    The next step passes them over. When there is none for so long, one of their own does: else they would
    expire some day, and nobody who looks then could tell them from records that were lost.
    """
    return None if only_gaps_ms is None else only_gaps_ms + max(policy.gaps_delay_ms, policy.max_delay_ms)

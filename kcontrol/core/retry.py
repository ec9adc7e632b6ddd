"""How often something that failed is tried again, how long to wait before, and when to give up.

Only failures that would come again count towards a halt: the query's own, and losses of what runs it; each
kind in a row, with a bound of its own. Fencing and broker faults pass by themselves and only wait longer each
time. A wrong digest or lost input is never retried: another try could only hide it. Nor is what Kafka does
not allow, or input that is refused: somebody has to do something about it first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from kcontrol.core.model import FailureKind, LimitsSpec

DEFAULT_LIMITS = LimitsSpec(
    max_attempts=3,
    max_lost=10,
    backoff_ms=200,
    max_backoff_ms=10_000,
    heartbeat_timeout_ms=10_000,
    open_timeout_ms=120_000,
    step_timeout_ms=50_000,
    replay_timeout_ms=120_000,
    transaction_timeout_ms=60_000,
    pin_timeout_ms=10_000,
    save_timeout_ms=600_000,
    max_forgotten=10_000,
)
"""What holds while no specification has been read."""

NEVER_RETRIED = (FailureKind.DIGEST, FailureKind.INPUT_GONE, FailureKind.DENIED, FailureKind.REFUSED)


@dataclass(frozen=True, slots=True)
class Retry:
    """Failures since the last success, by kind, and the time before which nothing is tried again."""

    query: int = 0
    lost: int = 0
    passing: int = 0
    """Broker faults and fencings."""
    not_before_ms: int = 0


def after_failure(retry: Retry, kind: FailureKind, limits: LimitsSpec, now_ms: int) -> Retry:
    """Counts one more failure and puts the next try off: `backoff_ms`, doubling with each
    failure, up to `max_backoff_ms`."""
    match kind:
        case FailureKind.QUERY:
            retry = replace(retry, query=retry.query + 1)
        case FailureKind.LOST:
            retry = replace(retry, lost=retry.lost + 1)
        case FailureKind.FENCED | FailureKind.BROKER:
            retry = replace(retry, passing=retry.passing + 1)
        case FailureKind.DIGEST | FailureKind.INPUT_GONE | FailureKind.DENIED | FailureKind.REFUSED:
            return retry
        case _:
            assert_never(kind)
    failures = retry.query + retry.lost + retry.passing
    wait_ms = min(limits.backoff_ms << min(failures - 1, 30), limits.max_backoff_ms)
    return replace(retry, not_before_ms=now_ms + wait_ms)


def must_halt(retry: Retry, kind: FailureKind, limits: LimitsSpec) -> bool:
    """Whether a failure of this kind, already counted, is one too many."""
    if kind in NEVER_RETRIED:
        return True
    if kind is FailureKind.QUERY:
        return retry.query >= limits.max_attempts
    return kind is FailureKind.LOST and retry.lost >= limits.max_lost

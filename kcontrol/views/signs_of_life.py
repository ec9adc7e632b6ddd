"""When a pipeline's coordinator and nodes were last heard of, as far as a reader can tell
who trusts nobody else's clock.

The coordinator speaks every two seconds while it is in charge, a node every second. A reader who follows the
log counts from when it heard them itself. Of what was in the log before, only the time in the record is
known: it is believed while it is neither old nor in the future; what is doubtful is settled by listening for
longer than anybody who lives is silent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from kcontrol.core.coordinator.status import STATUS_BEAT_MS
from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.model import (
    CheckpointPart,
    Claim,
    Command,
    Logged,
    NodeJoin,
    NodeState,
    Received,
    Replaying,
    Status,
    Tombstone,
    Written,
)

COORDINATOR = -1
"""Who is heard of: this, or the number of a node."""
LISTEN_MS = STATUS_BEAT_MS + 1_000
"""Nobody who lives is silent for so long, as long as Kafka answers."""
FEW_BEATS = 3
"""A coordinator that has left out so many is taken for gone."""

_FUTURE_MS = 1_000
"""A record's time may be so far ahead of this machine's clock, and still be believed."""


@dataclass(frozen=True, slots=True)
class _Sign:
    """at_ms: the time in the record. heard_ms: when it was heard, by this process's monotonic clock; None if
    it was in the log before anybody listened."""

    at_ms: int
    heard_ms: int | None


def _monotonic_ms() -> int:
    return time.monotonic_ns() // 1_000_000


class SignsOfLife:
    """Of one pipeline."""

    def __init__(self, monotonic_ms: Callable[[], int] = _monotonic_ms) -> None:
        self._monotonic_ms = monotonic_ms
        self._signs: dict[int, _Sign] = {}
        self._began_ms: int | None = None

    def listen(self) -> None:
        """The log has been read to its end: what comes from now on is heard as it is said."""
        if self._began_ms is None:
            self._began_ms = self._monotonic_ms()

    def see(self, view: PipelineView, logged: Logged) -> None:
        """A record of the pipeline; `view` has it already. What was written by those who
        were replaced is no sign of life."""
        who = _author(view, logged)
        if who is not None:
            self._signs[who] = _Sign(
                logged.timestamp_ms, None if self._began_ms is None else self._monotonic_ms()
            )

    def silent_ms(self, who: int, now_ms: int) -> int | None:
        """For how long nothing was heard; None if nothing ever was. now_ms: by the wall clock of this
        machine."""
        sign = self._signs.get(who)
        if sign is None:
            return None
        if sign.heard_ms is not None:
            return self._monotonic_ms() - sign.heard_ms
        return max(now_ms - sign.at_ms, self._listened_ms(), 0)

    def is_silent(self, who: int, now_ms: int, limit_ms: int) -> bool:
        """Whether nothing was heard for longer than `limit_ms`, or nothing ever."""
        sign = self._signs.get(who)
        if sign is None:
            return True
        told_ms = now_ms - sign.at_ms
        if sign.heard_ms is None and told_ms < -_FUTURE_MS:
            return self._listened_ms() >= LISTEN_MS
        return (self.silent_ms(who, now_ms) or 0) > limit_ms

    def is_doubtful(self, who: int, now_ms: int, limit_ms: int) -> bool:
        """Whether listening may give another answer than the times of records that were in the log before."""
        sign = self._signs.get(who)
        if sign is None or sign.heard_ms is not None or self._listened_ms() >= LISTEN_MS:
            return False
        return not -_FUTURE_MS <= now_ms - sign.at_ms <= limit_ms

    def _listened_ms(self) -> int:
        return 0 if self._began_ms is None else self._monotonic_ms() - self._began_ms


def _author(view: PipelineView, logged: Logged) -> int | None:
    record = logged.record
    if isinstance(record, Tombstone) or record.pipeline != view.pipeline:
        return None
    match record:
        case Claim():
            return COORDINATOR if logged.offset == view.epoch else None
        case Status() | Command():
            return COORDINATOR if record.claim_epoch == view.epoch else None
        case NodeJoin():
            return record.node if logged.offset == view.incarnation(record.node) else None
        case NodeState() | Received() | Replaying() | Written() | CheckpointPart():
            return record.node if record.incarnation == view.incarnation(record.node) else None
        case _:
            return None

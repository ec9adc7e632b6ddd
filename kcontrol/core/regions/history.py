"""How long drains and resets of a region took, by the changes that its log still has."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcontrol.core.regions.model import RegionState
from kcontrol.core.regions.records import RegionChange

AVERAGED = 10
"""So many of the newest, as the original does."""


@dataclass(frozen=True, slots=True)
class RegionHistory:
    """drain_ms, reset_ms: of the newest that came to their end, the oldest first, if their beginning is still in the log.
    Times are of the controllers' wall clocks; 0: never. last_drain_seq_id: of the newest that began. last_reset_seq_id: of
    the cut that was reset to."""

    drain_ms: tuple[int, ...] = ()
    reset_ms: tuple[int, ...] = ()
    last_consistent_ms: int = 0
    last_reset_ms: int = 0
    last_drain_seq_id: int = 0
    last_reset_seq_id: int = 0


def history_of(changes: Iterable[RegionChange]) -> RegionHistory:
    """changes: by number."""
    drains, resets = list[int](), list[int]()
    consistent_ms = reset_ms = drain_id = reset_id = began_ms = 0
    before: RegionChange | None = None
    for now in changes:
        was = None if before is None else before.state
        if (
            was is not None
            and now.state is not was
            and now.state in (RegionState.DRAINING, RegionState.RESETTING)
        ):
            began_ms = now.at_ms
        if now.state is RegionState.DRAINING:
            drain_id = now.current_seq_id
        if before is not None and now.last_completed_seq_id > before.last_completed_seq_id:
            consistent_ms = now.at_ms
            drains += [max(0, now.at_ms - began_ms)] if began_ms else []
        if was is RegionState.RESETTING and now.state is RegionState.PROCESSING:
            reset_ms, reset_id = now.at_ms, now.last_completed_seq_id
            resets += [max(0, now.at_ms - began_ms)] if began_ms else []
        before = now
    return RegionHistory(
        tuple(drains[-AVERAGED:]), tuple(resets[-AVERAGED:]), consistent_ms, reset_ms, drain_id, reset_id
    )

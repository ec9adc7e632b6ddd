"""How long drains and resets of a region took: each change in its log has it, folded from all before it, so that nothing of it
goes with the changes that the log forgets. A drain of many members is many changes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from kcontrol.core.regions.model import RegionState
from kcontrol.core.regions.records import RegionChange, RegionHistory

AVERAGED = 10
"""So many of the newest, as the original does."""


def history_of(changes: Iterable[RegionChange]) -> RegionHistory:
    """changes: by number, without a gap. Those that an older version has written have no history: it is folded."""
    history, before = RegionHistory(), None
    for now in changes:
        history = folded(history, before, now) if now.history is None else now.history
        before = now
    return history


def folded(history: RegionHistory, before: RegionChange | None, now: RegionChange) -> RegionHistory:
    """Up to and with a change. history: up to and with the one before it, if there is one."""
    if now.state is RegionState.DRAINING:
        history = replace(history, last_drain_seq_id=now.current_seq_id)
    if before is None:
        return history
    begins = now.state in (RegionState.DRAINING, RegionState.RESETTING)
    if begins and now.state is not before.state:
        history = replace(history, began_ms=now.at_ms)
    took = (max(0, now.at_ms - history.began_ms),) if history.began_ms else ()
    if now.last_completed_seq_id > before.last_completed_seq_id:
        drain_ms = (*history.drain_ms, *took)[-AVERAGED:]
        history = replace(history, drain_ms=drain_ms, last_consistent_ms=now.at_ms)
    if before.state is RegionState.RESETTING and now.state is RegionState.PROCESSING:
        history = replace(
            history,
            reset_ms=(*history.reset_ms, *took)[-AVERAGED:],
            last_reset_ms=now.at_ms,
            last_reset_seq_id=now.last_completed_seq_id,
        )
    return history

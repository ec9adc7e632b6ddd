"""`apply(replica, offset, entry)`: what one more entry of the log makes of the value.

What does not fit is rejected, with a word why, and changes nothing: no entry can stop a replica. After what
an entry says itself, joiners that wait are given members that are free, and units are placed if members,
slots or jobs have changed. So nobody volunteers for anything: all agents compute the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcontrol.core.cluster import failures, fitting, jobs, joining, resizing, standbys, upkeep
from kcontrol.core.cluster.change import Change, EntryRejectedError
from kcontrol.core.cluster.entries import (
    Abort,
    Accept,
    ClusterEntry,
    CompleteTask,
    Configure,
    ConfirmSnapshot,
    Drain,
    DrainAgent,
    FitJob,
    JobResized,
    KillJob,
    Leave,
    Notify,
    PeerGc,
    Prepare,
    ProposeSnapshot,
    RaiseLevel,
    ResizeJob,
    SetBounds,
    SetPolicy,
    SetStandbys,
    SubmitJob,
    TaskFailed,
)
from kcontrol.core.cluster.model import LATEST_LEVEL, Replica
from kcontrol.core.cluster.schedule.board import Board, known_board, remembered
from kcontrol.core.cluster.schedule.schedule import schedule
from kcontrol.core.cluster.schedule.settle import settle

HANDLERS: dict[type, Callable[[Change, Any], None]] = {
    Prepare: joining.on_prepare,
    Notify: joining.on_notify,
    Accept: joining.on_accept,
    Abort: joining.on_abort,
    Leave: joining.on_leave,
    PeerGc: joining.on_peer_gc,
    SubmitJob: jobs.on_submit,
    KillJob: jobs.on_kill,
    ResizeJob: resizing.on_resize,
    JobResized: resizing.on_resized,
    SetStandbys: standbys.on_set_standbys,
    SetBounds: fitting.on_set_bounds,
    FitJob: fitting.on_fit,
    CompleteTask: jobs.on_complete,
    TaskFailed: failures.on_task_failed,
    Drain: upkeep.on_drain,
    Configure: upkeep.on_configure,
    DrainAgent: upkeep.on_drain_agent,
    SetPolicy: upkeep.on_set_policy,
    RaiseLevel: upkeep.on_raise_level,
    ProposeSnapshot: upkeep.on_propose_snapshot,
    ConfirmSnapshot: upkeep.on_confirm_snapshot,
}


def apply(
    replica: Replica, offset: int, entry: ClusterEntry, code_level: int = LATEST_LEVEL
) -> tuple[Replica, str]:
    """The replica after the entry at `offset`, and why that was rejected; '' if it was not.

    code_level: the newest level that the code knows. A replica of a newer one must not be given to it: an
    agent ends instead.
    """
    change = Change(replica, offset, min(replica.level, code_level))
    board = known_board(replica)
    try:
        HANDLERS[type(entry)](change, entry)
        joining.match_waiting(change)
        if change.reschedule:
            board = _reschedule(change, board)
    except EntryRejectedError as why:
        return replica.but(offset=offset), str(why)
    return change.replica.but(offset=offset, settled=remembered(board, change.replica)), ""


def _reschedule(change: Change, board: Board | None) -> Board | None:
    """By what has changed if that can be, or whole. The board of what is placed now."""
    found = None
    if board is not None:
        found = settle(board, change.replica, change.offset, change.agents, change.jobs)
    if found is None:
        found = schedule(change.replica, change.offset)
    change.set(allocations=found.allocations, coordinators=found.coordinators)
    return found.board

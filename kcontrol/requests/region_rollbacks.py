"""All pipelines of a region taken back to a cut: what is asked, and what it would do. The port to whoever can plan it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.records import RegionRollback
from kcontrol.requests.record import NotNowError


@dataclass(frozen=True, slots=True)
class RollbackOrder:
    """as_of: the newest change of the region that whoever asks knows of; refused if there is another one; None: whichever it
    is. only_plan: look at everything, and change nothing. request_id: by which the region's answers name it; '': by one that
    nobody has used before."""

    region: str
    to_cut: int
    why: str = ""
    by: str = ""
    leave_behind: tuple[str, ...] = ()
    as_of: int | None = None
    only_plan: bool = False
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class AbandonOrder:
    """The rollback under way is given up: the one that whoever asks has seen. to_cut: the cut that it goes back to. as_of: a
    change of the region at which it was under way; None: none is known. request_id: as in `RollbackOrder`."""

    region: str
    to_cut: int
    why: str = ""
    by: str = ""
    as_of: int | None = None
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class BackFacts:
    """One pipeline of a rollback. void_to: its last step; `to_step` where it was never beyond. void_records: by topic.
    left_behind: who has read, or may have read, what is void. unseen: of inputs that could not be looked at, which and why."""

    pipeline: str
    to_step: int
    void_to: int
    void_records: Mapping[str, int]
    rerun_steps: int
    left_behind: tuple[str, ...]
    unseen: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RollbackFacts:
    """request_id: by which the region's answers name it; '': it was only planned. pipelines: () of one that is given up: who is
    back is in its answer."""

    region: str
    to_cut: int
    as_of: int
    request_id: str
    pipelines: tuple[BackFacts, ...]


Rollbacks = Callable[[RollbackOrder | AbandonOrder], Awaitable[RollbackFacts]]
"""Raises what `plan_region_rollback` does, and NotNowError."""


async def no_rollbacks(order: RollbackOrder | AbandonOrder) -> RollbackFacts:
    """Of a server that takes nothing back."""
    how = " --abandon" if isinstance(order, AbandonOrder) else ""
    raise NotNowError(
        f"this process takes no region back, and gives up no rollback: start it with --allow-resets, or use kcontrol region "
        f"rollback {order.region}{how}"
    )


def rollback_meant(
    region: str, view: RegionLogView, to_cut: int | None = None, as_of: int | None = None
) -> RegionRollback:
    """The rollback under way, which is the one that whoever gives it up has seen: to_cut, as_of: as in `AbandonOrder`; None: it
    is not said. Raises NotNowError."""
    rollback = None if view.newest is None else view.newest.rollback
    if rollback is None:
        raise NotNowError(f"region {region!r}: no rollback of it is under way. Nothing was given up")
    known = f"the rollback under way is to cut {rollback.to_cut}, asked for by {rollback.by}"
    if to_cut not in (None, rollback.to_cut):
        raise NotNowError(f"region {region!r}: {known}, and not to cut {to_cut}. Nothing was given up")
    seen = None if as_of is None else view.changes.get(as_of)
    if as_of is not None and (
        seen is None or seen.rollback is None or seen.rollback.request_id != rollback.request_id
    ):
        raise NotNowError(
            f"region {region!r}: {known}, and was not under way at its change {as_of}. Nothing was given up"
        )
    return rollback

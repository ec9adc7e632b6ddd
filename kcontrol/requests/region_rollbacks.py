"""All pipelines of a region taken back to a cut: what is asked, and what it would do. The port to whoever can plan it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

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
    """request_id: by which the region's answers name it; '': it was only planned."""

    region: str
    to_cut: int
    as_of: int
    request_id: str
    pipelines: tuple[BackFacts, ...]


Rollbacks = Callable[[RollbackOrder], Awaitable[RollbackFacts]]
"""Raises what `plan_region_rollback` does, and NotNowError."""


async def no_rollbacks(order: RollbackOrder) -> RollbackFacts:
    """Of a server that takes nothing back."""
    raise NotNowError(
        f"this process takes no region back: start it with --allow-resets, or use kcontrol region rollback {order.region}"
    )

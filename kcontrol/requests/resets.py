"""A pipeline taken back to one of its steps: what is asked, and what became of it. The port to whoever can do it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from kcontrol.requests.record import NotNowError


@dataclass(frozen=True, slots=True)
class ResetOrder:
    """last_step: the newest step that whoever asks knows of; refused if there is another one; None: whichever it is. only_plan:
    look at everything, and change nothing."""

    pipeline: str
    to_step: int
    why: str = ""
    by: str = ""
    leave_behind: tuple[str, ...] = ()
    last_step: int | None = None
    only_plan: bool = False


@dataclass(frozen=True, slots=True)
class ResetFacts:
    """reset: whether it was made. step: the step that says so. void_records: by topic. rerun_after, rerun_steps: the steps that
    a node runs again that has not kept `to_step`. left_behind: who has read, or may have read, what is void. unseen: of
    inputs that could not be looked at, which and why."""

    pipeline: str
    reset: bool
    to_step: int
    step: int
    void_from: int
    void_to: int
    void_records: Mapping[str, int]
    rerun_after: int
    rerun_steps: int
    left_behind: tuple[str, ...]
    unseen: tuple[str, ...] = ()


Resets = Callable[[ResetOrder], Awaitable[ResetFacts]]
"""Raises what `plan_reset` and `reset_pipeline` do."""


async def no_resets(order: ResetOrder) -> ResetFacts:
    """Of a server that makes none."""
    raise NotNowError(
        f"this server does not reset pipelines: start it with --allow-resets, or use kcontrol reset {order.pipeline}"
    )

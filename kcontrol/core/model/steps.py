"""The log of steps."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model.assignment import Assignment
from kcontrol.core.model.checkpoints import Checkpoint
from kcontrol.core.model.environment import Environment
from kcontrol.core.model.exchanges import ExchangeSlice, Watermark
from kcontrol.core.model.times import StepEnd, WorkTimes
from kcontrol.core.model.values import InputSlice, LateRows, Layout, OutputSlice, Skipped, SkippedRange, Token
from kcontrol.core.model.words import Reason


@dataclass(frozen=True, slots=True)
class Reset:
    """Of a step that takes back others: which one the pipeline goes on from."""

    to_step: int
    """The steps after it, up to this one, are void."""
    why: str
    """What whoever asked for it gave as the reason."""
    by: str
    """User and host of whoever asked for it."""
    request_id: str
    left_behind: tuple[str, ...]
    """Pipelines that may have read what void steps wrote, and were left as they are."""


@dataclass(frozen=True, slots=True)
class StepBoundary:
    """`step/S` in the steps topic: the record that ends a committed step, written in the step's own
    transaction."""

    pipeline: str
    step: int
    token: Token
    now_ms: int
    reason: Reason
    fingerprint: str
    nodes: int
    inputs: tuple[InputSlice, ...]
    outputs: tuple[OutputSlice, ...]
    layout: Layout
    paused_inputs: tuple[str, ...]
    opened_ms: int
    committed_ms: int
    """The coordinator's clock just before it asked for the commit."""
    skipped: tuple[Skipped, ...]
    watermark_moved: bool
    """The next step is then due for the reason `watermark`; recorded so that a takeover knows it too."""
    skipped_ranges: tuple[SkippedRange, ...] = ()
    """What users have had passed over between the step before and this one; each ends
    where this step's slice begins."""
    received_ms: int = 0
    """The coordinator's clock when it first knew of input for the step."""
    work: tuple[WorkTimes, ...] = ()
    """By node number."""
    before: StepEnd | None = None
    """How the step before ended; None if nothing is known of that, as for step 1."""
    late_rows: tuple[LateRows, ...] = ()
    """Of each query with state and a watermark, and each node, 0 too. One that is not named was not
    counted."""
    environments: tuple[Environment, ...] = ()
    """What its nodes computed with: one for all, or one by node number if they differ; () if it is not known
    of all."""
    exchanges: tuple[ExchangeSlice, ...] = ()
    """What nodes sent each other in it, by exchange and partition."""
    watermarks: tuple[Watermark, ...] = ()
    """After it, of each query with a watermark, where nodes share one."""
    reset: Reset | None = None
    """Of a step that takes back others: it read and wrote nothing, and all else that it says is what the step said that it
    goes back to."""


StepRecord = StepBoundary | Checkpoint | Assignment
"""What the log of steps holds, besides tombstones."""

"""The step that is to be made next: its plan, and the attempts at it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from kcontrol.core.model import (
    Command,
    InputRange,
    Layout,
    PipelineSpec,
    ReadLimit,
    Reason,
    SkippedRange,
    StepWork,
    Token,
)


@dataclass(frozen=True, slots=True)
class Plan:
    """What a step holds. Made once for a step and kept for all attempts of one claim, whatever arrives
    meanwhile."""

    step: int
    spec: PipelineSpec
    reason: Reason
    now_ms: int
    division: tuple[InputRange, ...]
    layout: Layout
    paused: tuple[str, ...] = ()
    """Inputs that it reads nothing of because they are paused."""
    skips: tuple[SkippedRange, ...] = ()
    """What it passes over."""
    limits: tuple[ReadLimit, ...] | None = None
    """How far it may read; None: as far as there is input."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at the plan, from its `step` commands on."""

    token: Token
    works: tuple[StepWork, ...]
    """By node."""
    opened_ms: int
    """When its transaction was opened, by the monotonic clock."""
    told_ms: int
    """When nodes were told of it, by the same."""
    stood_ms: int = 0
    """For so long the coordinator stood still since. Kafka's own limit for the transaction ran on."""


@dataclass(frozen=True, slots=True)
class ToldStep:
    """A step that nodes were told while the one before it was being committed. It is made as it was told, or under another
    epoch: whatever a node may still write of it must not get into another attempt."""

    plan: Plan
    works: tuple[StepWork, ...]
    """By node."""
    told_ms: int
    """When they were told, by the monotonic clock."""
    before: Mapping[int, Command]
    """By node, what it was told before."""


@dataclass(frozen=True, slots=True)
class CurrentStep:
    """The plan, the attempt under way, and what is kept of the step before."""

    plan: Plan | None = None
    attempt: Attempt | None = None
    attempts: int = 0
    """Tries at the step under this claim."""
    answered: tuple[int, int] = (0, 0)
    """(step, when Kafka said so, by the wall clock) of the last step that this coordinator has committed."""
    took_ms: int = -1
    """How long the last attempt took that all nodes have written; -1: there was none."""
    told: ToldStep | None = None
    """The step after the one that is being committed, if nodes were told of it."""

    def planned(self, plan: Plan | None) -> CurrentStep:
        """By this plan, or by none."""
        return replace(self, plan=plan)

    def tried(self, attempt: Attempt) -> CurrentStep:
        """Once more."""
        return replace(self, attempt=attempt, attempts=self.attempts + 1)

    def waiting_later(self, gap_ms: int) -> CurrentStep:
        """For so long nobody listened."""
        if self.attempt is None:
            return self
        return replace(self, attempt=replace(self.attempt, stood_ms=self.attempt.stood_ms + gap_ms))

    def written(self, now_ms: int) -> CurrentStep:
        """All nodes have written the attempt."""
        return self if self.attempt is None else replace(self, took_ms=now_ms - self.attempt.opened_ms)

    def telling(self, told: ToldStep) -> CurrentStep:
        """Nodes are told what comes next."""
        return replace(self, told=told)

    def aborted(self) -> CurrentStep:
        """No attempt is under way; the plan stays for the next."""
        return replace(self, attempt=None, told=None)

    def given_up(self) -> CurrentStep:
        """Somebody else makes it."""
        return replace(self, plan=None, attempt=None, told=None)

    def over(self) -> CurrentStep:
        """It is in the log, or another tenure begins: the next one has no plan and was never tried."""
        return replace(self, plan=None, attempts=0)

    def committed(self) -> CurrentStep:
        """The attempt is over; what was told is to be done."""
        return replace(self, attempt=None)

    def begun_as_told(self, now_ms: int) -> CurrentStep:
        """What was told is under way. Raises LookupError: nothing was."""
        told = self.told
        if told is None:
            raise LookupError("nothing was told")
        begun = replace(self, plan=told.plan, told=None)
        return begun.tried(Attempt(told.works[0].token, told.works, now_ms, told.told_ms))

    def acknowledged(self, step: int, wall_ms: int) -> CurrentStep:
        """Kafka says that it is committed."""
        return replace(self, answered=(step, wall_ms))

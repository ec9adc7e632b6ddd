"""The checkpoint under way, and what became of the last one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kcontrol.core.model import CheckpointSpec, Command


@dataclass(frozen=True, slots=True)
class Saving:
    """A checkpoint under way: from the commands to the nodes until it is in the log, or given up."""

    step: int
    boundary_offset: int
    """Of the step's boundary in the log of steps."""
    policy: CheckpointSpec
    commands: tuple[Command, ...]
    """By node: each one's part answers exactly this command."""
    begun_ms: int
    request_id: str
    """The request that it answers; '' for none."""
    pinned: bool = False
    """All nodes hold fast what the step needs, so that later steps can't take it away."""
    stood_ms: int = 0
    """For so long the coordinator stood still meanwhile."""

    @property
    def waits_from_ms(self) -> int:
        """What its limits count from: when it was begun, and later by what is no part of them."""
        return self.begun_ms + self.stood_ms


@dataclass(frozen=True, slots=True)
class Checkpointing:
    """At most one is under way."""

    saving: Saving | None = None
    turned_ms: int = 0
    """When one was last begun or given up, by this coordinator's clock: steps get their turn in between."""
    failure: str = ""
    """Why the last one was given up; '' if it is in the log."""

    def counting_from(self, turned_ms: int) -> Checkpointing:
        """The interval began then."""
        return replace(self, turned_ms=turned_ms)

    def begun(self, saving: Saving) -> Checkpointing:
        """All nodes were told."""
        return replace(self, saving=saving, turned_ms=saving.begun_ms)

    def pinned(self) -> Checkpointing:
        """All nodes have pinned it."""
        return self if self.saving is None else replace(self, saving=replace(self.saving, pinned=True))

    def waiting_later(self, gap_ms: int) -> Checkpointing:
        """For so long nobody listened."""
        if self.saving is None:
            return self
        return replace(self, saving=replace(self.saving, stood_ms=self.saving.stood_ms + gap_ms))

    def given_up(self, now_ms: int, why: str) -> Checkpointing:
        """It came to nothing."""
        return Checkpointing(None, now_ms, why)

    def dropped(self) -> Checkpointing:
        """It is not waited for any more; nothing is said about it."""
        return replace(self, saving=None) if self.saving is not None else self

    def recorded(self, step: int) -> Checkpointing:
        """One is in the log, whoever made it: what is under way is needless unless it is of a later step."""
        needless = self.saving is not None and self.saving.step <= step
        return replace(self, saving=None if needless else self.saving, failure="")

    def inherited(self, failure: str) -> Checkpointing:
        """What the predecessors have said of their last one."""
        return replace(self, failure=failure)

"""Which committed steps are void, and how the others follow each other.

A reset is a step of its own, with a number of its own: `reset` says "back to step `after`", and the steps between are void.
Numbers are never used again, so the log reads 41, 42, [43, 44 void], 45 (back to 42), 46: what follows 42 is 45, which holds
what 42 holds, and nothing else. Only to a step that is not void can be gone back, so two stretches of void steps lie apart,
or one takes in the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kcontrol.core.model import StepBoundary


@dataclass(frozen=True, slots=True)
class VoidSteps:
    """What one reset has made void. after: the step that was gone back to. reset: the number of the reset."""

    after: int
    reset: int

    @property
    def steps(self) -> range:
        """The void ones."""
        return range(self.after + 1, self.reset)


Resets = tuple[VoidSteps, ...]
"""Oldest first, none within another."""


def with_reset(resets: Resets, to_step: int, reset: int) -> Resets:
    """After one more; those within what it makes void are part of that."""
    return (*(each for each in resets if each.reset <= to_step), VoidSteps(to_step, reset))


def is_known(resets: Resets, reset: int) -> bool:
    """Whether a reset is among these, or was made void itself by one of them."""
    return any(each.reset == reset for each in resets) or void_by(resets, reset) is not None


def void_by(resets: Resets, step: int) -> int | None:
    """The reset that has made a step void; None if it is not."""
    return next((each.reset for each in resets if step in each.steps), None)


def reset_after(resets: Resets, step: int) -> int | None:
    """The reset that went back to a step; None where the next one follows, if there is one."""
    return next((each.reset for each in resets if each.after == step), None)


def next_after(resets: Resets, step: int) -> int:
    """The number of the first step after one, void or not, that can be other than void or a reset."""
    following = step + 1
    for each in resets:
        if each.after < following <= each.reset:
            following = each.reset + 1
    return following


def made_by(resets: Resets, step: int) -> int:
    """The step whose state and positions a step has: its own, or that which a reset went back to."""
    for each in reversed(resets):
        step = each.after if each.reset == step else step
    return step


def resets_in(boundaries: Iterable[StepBoundary]) -> Resets:
    """Those among steps, which are in order."""
    resets: Resets = ()
    for boundary in boundaries:
        if boundary.reset is not None:
            resets = with_reset(resets, boundary.reset.to_step, boundary.step)
    return resets


def kept(boundaries: Iterable[StepBoundary]) -> list[StepBoundary]:
    """Of steps in order those that were run and are not void by the last of them."""
    found: list[StepBoundary] = []
    for boundary in boundaries:
        back = boundary.reset
        if back is None:
            found.append(boundary)
        else:
            found = [one for one in found if one.step <= back.to_step]
    return found

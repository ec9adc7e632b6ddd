"""Which steps a state was made by, where some have gone back to earlier ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcontrol.core.model import StepBoundary

if TYPE_CHECKING:
    from tests.simulation.world import World


def chain(world: World, step: int) -> list[StepBoundary]:
    """The steps that have made the state after a step: none that was void by then, and no reset."""
    found = []
    while step > 0:
        boundary = world.boundaries[step - 1]
        if boundary.reset is None:
            found.append(boundary)
        step = step - 1 if boundary.reset is None else boundary.reset.to_step
    return found[::-1]


def made_by(world: World, step: int) -> int:
    """The step whose state a step has; 0 before the first."""
    made = chain(world, step)
    return made[-1].step if made else 0

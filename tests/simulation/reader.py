"""Where a process is in both logs, and what keeps it from reading on."""

from __future__ import annotations

from kcontrol.core.events import ControlSeen, StepSeen
from kcontrol.core.model import Checkpoint
from tests.simulation.world import World, twin_of


class Reader:
    """Positions of one process in both logs."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.control_at = 0
        self.steps_at = 0
        self.deaf_until = 0
        """Its control consumer gets nothing before this many events."""
        self.blind_until = 0
        """Nor does its consumer of the steps."""

    def clone(self, world: World) -> Reader:
        """The same in another world."""
        twin = twin_of(self)
        twin.world = world
        return twin

    def begin_at_checkpoint(self) -> Checkpoint | None:
        """As a reader of the real log does that has read no step yet."""
        world = self.world
        made = (each.record for each in reversed(world.steps) if each is not None)
        newest = next((one for one in made if isinstance(one, Checkpoint)), None)
        if self.steps_at == 0 and newest is not None and newest.begin_offset >= 0 and world.spec.checkpoint.location:
            self.steps_at = newest.begin_offset
            return newest
        return None

    def next_event(self, now_ms: int, prefer_steps: bool) -> ControlSeen | StepSeen | None:
        """The next record of one of the logs."""
        world = self.world
        self._pass_over_gone_steps()
        boundary = self.steps_at < len(world.steps) and self.blind_until <= world.events
        if boundary and (prefer_steps or self.control_at >= len(world.control)):
            return self._next_step(now_ms)
        while self.control_at < len(world.control) and self.deaf_until <= world.events:
            logged = world.control[self.control_at]
            self.control_at += 1
            if logged is not None:
                return ControlSeen(logged, now_ms)
        return self._next_step(now_ms) if boundary else None

    def _next_step(self, now_ms: int) -> StepSeen:
        logged = self.world.steps[self.steps_at]
        assert logged is not None
        self.steps_at += 1
        self._pass_over_gone_steps()
        return StepSeen(logged, now_ms)

    def _pass_over_gone_steps(self) -> None:
        steps = self.world.steps
        while self.steps_at < len(steps) and steps[self.steps_at] is None:
            self.steps_at += 1

    def reached(self, target: tuple[int, int]) -> bool:
        """Whether both logs were read up to there."""
        return self.control_at >= target[0] and self.steps_at >= target[1]

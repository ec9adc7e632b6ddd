"""Where a process is in both logs, and what keeps it from reading on."""

from __future__ import annotations

from kcontrol.core.events import ControlSeen, StepSeen
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Checkpoint
from tests.simulation.replicas import Route
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
        self.control = Route(world.control_replicas.epoch)
        """Of whoever follows the control partition."""
        self.prompt = Route(world.control_replicas.epoch)
        """Of a reader of its own that a coordinator looks for the end with."""
        self.steps = Route(world.steps_replicas.epoch)
        self.shown = 0
        """Where that reader was told that the control partition ends, or behind a record that
        the process knows to be there."""

    def clone(self, world: World) -> Reader:
        """The same in another world."""
        twin = twin_of(self)
        twin.world = world
        twin.control, twin.prompt, twin.steps = (
            Route(self.control.epoch),
            Route(self.prompt.epoch),
            Route(self.steps.epoch),
        )
        return twin

    def control_end(self) -> int:
        """Where the control partition ends for whoever follows it."""
        log = self.world.control
        return max(self.world.control_replicas.high_watermark(self.control, len(log)), self.shown)

    def steps_end(self) -> int:
        """Where the partition of steps ends for a read_committed reader: its last stable offset."""
        world = self.world
        return max(
            self.steps_at, world.stable[world.steps_replicas.high_watermark(self.steps, len(world.steps))]
        )

    def look_for_ends(self) -> tuple[int, int]:
        """What a coordinator that reads to the ends is told they are."""
        self.shown = max(
            self.shown, self.world.control_replicas.high_watermark(self.prompt, len(self.world.control))
        )
        return self.shown, self.steps_end()

    @property
    def has_read_all(self) -> bool:
        """Whether nothing is committed that it has not read."""
        return self.reached((len(self.world.control), len(self.world.steps)))

    def begin_at_checkpoint(self) -> Checkpoint | None:
        """As a reader of the real log does that has read no step yet."""
        world = self.world
        made = (each.record for each in reversed(world.steps[: self.steps_end()]) if each is not None)
        newest = next((one for one in made if isinstance(one, Checkpoint)), None)
        if (
            self.steps_at == 0
            and newest is not None
            and newest.begin_offset >= 0
            and world.spec.checkpoint.location
        ):
            self.steps_at = newest.begin_offset
            return newest
        return None

    def was_left_behind(self, view: StepsView) -> bool:
        """Whether steps that it has not read were dropped, and compaction has removed them before it came
        there.

        Such a process ends, or begins a new session, and reads what is left.
        """
        return view.step + 1 < self.world.first_step

    def next_event(
        self, now_ms: int, prefer_steps: bool, steps: bool = True
    ) -> ControlSeen | StepSeen | None:
        """The next record of one of the logs; not of the steps, if they are not to be looked at."""
        world = self.world
        steps_end, control_end = self.steps_end(), self.control_end()
        self._pass_over_gone_steps(steps_end)
        boundary = steps and self.steps_at < steps_end and self.blind_until <= world.events
        if boundary and (prefer_steps or self.control_at >= control_end):
            return self._next_step(now_ms)
        while self.control_at < control_end and self.deaf_until <= world.events:
            logged = world.control[self.control_at]
            self.control_at += 1
            if logged is not None:
                return ControlSeen(logged, now_ms)
        return self._next_step(now_ms) if boundary else None

    def _next_step(self, now_ms: int) -> StepSeen:
        logged = self.world.steps[self.steps_at]
        assert logged is not None
        self.steps_at += 1
        self._pass_over_gone_steps(self.steps_end())
        return StepSeen(logged, now_ms)

    def _pass_over_gone_steps(self, end: int) -> None:
        steps = self.world.steps
        while self.steps_at < end and steps[self.steps_at] is None:
            self.steps_at += 1

    def pass_over(self, offset: int) -> None:
        """Read the log of steps from there on: what lies between is known."""
        self.steps_at = max(self.steps_at, offset)

    def reached(self, target: tuple[int, int]) -> bool:
        """Whether both logs were read up to there."""
        return self.control_at >= target[0] and self.steps_at >= target[1]

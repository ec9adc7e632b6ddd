"""Pipelines that are held for a while: who holds them, and what must then hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcontrol.core.model import Hold, HoldPhase, Status, StepBoundary
from tests.simulation.invariants import require

if TYPE_CHECKING:
    from tests.simulation.world import World

BEYOND = "nothing beyond the limits of a hold is in a step after the one at which it was noted"
STANDS = "a pipeline that is held has come to all of its limits, and owes no step of what it has read"
STILL = "a pipeline that is held reads nothing"


@dataclass
class Holds:
    """Every hold that was ever written, by its request, and what coordinators have said of it."""

    written: dict[str, tuple[Hold, int]] = field(default_factory=dict)
    """With when that was, by the broker's clock."""
    newest: str = ""
    noted: dict[str, int] = field(default_factory=dict)
    """The step after which it counts, by the first status that said so."""
    held: dict[str, int] = field(default_factory=dict)
    """The step at which the pipeline stands, by the first status that said so."""

    def clone(self) -> Holds:
        """Another one like this."""
        return Holds(dict(self.written), self.newest, dict(self.noted), dict(self.held))

    def add(self, hold: Hold, now_ms: int) -> None:
        """It was written."""
        self.written[hold.request_id] = hold, now_ms
        self.newest = hold.request_id


def check_said(world: World, status: Status) -> None:
    """A coordinator tells how far it is with a hold."""
    said = status.hold
    if said is None or said.phase not in (HoldPhase.NOTED, HoldPhase.HELD):
        return
    world.holds.noted.setdefault(said.request_id, status.step)
    if said.phase is HoldPhase.HELD:
        hold, _ = world.holds.written[said.request_id]
        _check_stands(world, hold, said.step)
        world.holds.held.setdefault(said.request_id, said.step)


def _check_stands(world: World, hold: Hold, step: int) -> None:
    boundary = world.boundaries[step - 1] if step else None
    reached = {} if boundary is None else {(one.topic, one.partition): one.to for one in boundary.inputs}
    topics = {item.topic for item in world.spec.inputs}
    missing = [
        one
        for one in hold.limits
        if one.topic in topics and reached.get((one.topic, one.partition), 0) < one.to
    ]
    owes = boundary is not None and boundary.watermark_moved
    require(not missing and not owes, STANDS, (missing, owes, step))


def check_limits(world: World, boundary: StepBoundary) -> None:
    """What is about to be committed, while the newest hold can't have been given up by anybody."""
    holds = world.holds
    hold, written_ms = holds.written.get(holds.newest, (None, 0))
    if hold is None or hold.released or world.now_ms >= written_ms + hold.timeout_ms:
        return
    read = [one for one in boundary.inputs if one.to > one.from_]
    if boundary.step > holds.held.get(hold.request_id, boundary.step):
        require(not read, STILL, (hold, boundary.step, read))
    if boundary.step > holds.noted.get(hold.request_id, boundary.step):
        ends = {(one.topic, one.partition): one.to for one in hold.limits}
        topics = {one.topic for one in hold.limits}
        beyond = [
            one
            for one in read
            if not topics or (one.topic in topics and one.to > ends.get((one.topic, one.partition), 0))
        ]
        require(not beyond, BEYOND, (hold, boundary.step, beyond))

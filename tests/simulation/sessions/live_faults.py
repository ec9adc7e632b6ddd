"""Another layout asked for while the real sessions are at work, at any moment; and processes that make ready, or say so and
have not, or die at it."""

from __future__ import annotations

from kcontrol.core.model import LayoutPhase, LayoutRequest
from tests.simulation.live_layout import SIZES, TIMEOUT_MS, asked, make_ready, some_of
from tests.simulation.sessions.faults import kill
from tests.simulation.sessions.fleet import SessionsFleet
from tests.simulation.specs import PIPELINE


def live_layout_asked(fleet: SessionsFleet) -> bool:
    """By its number; sometimes by one that is over, or still to come; sometimes what was asked for is withdrawn."""
    world, random = fleet.world, fleet.random
    if not world.spec.stateful or not world.spec.exchanges:
        return False
    number = len(world.assignments) + 1
    if random.random() < 0.1:
        number += random.choice((-1, 1))
    nodes, replaced = random.choice(SIZES), ()
    if nodes == world.spec.nodes:
        replaced = some_of(nodes, random.random())
    if asked(world) is not None and random.random() < 0.3:
        nodes, replaced = 0, ()
    fleet.requests += 1
    world.append(LayoutRequest(PIPELINE, f"r{fleet.requests}", number, nodes, TIMEOUT_MS, replaced))
    fleet.network.notify()
    return True


def live_made_ready(fleet: SessionsFleet) -> bool:
    """All who are to be nodes say so, whatever they have copied; one may say that it can't be one."""
    world, random = fleet.world, fleet.random
    request = asked(world)
    if request is None or not request.nodes:
        return False
    lies, fails = random.random() < 0.3, random.random() < 0.05
    for node in range(request.nodes):
        if random.random() < 0.95:
            make_ready(world, node, 1_000 if lies else None, "no" if fails and not node else "")
    fleet.counts["ready without having copied"] += lies
    fleet.network.notify()
    return True


def node_killed_at_the_switch(fleet: SessionsFleet) -> bool:
    """While the last step is being saved, or when the change is in the log and not everybody goes on by it."""
    if not is_switching(fleet):
        return False
    return kill(fleet, fleet.nodes[fleet.pick_node()])


def coordinator_killed_at_the_switch(fleet: SessionsFleet) -> bool:
    if not is_switching(fleet):
        return False
    fleet.kill(fleet.coordinators[-1])
    return True


def is_switching(fleet: SessionsFleet) -> bool:
    world, status = fleet.world, fleet.world.view.status()
    made = world.assignments[-1] if world.assignments else None
    if made is not None and made.live and len(world.boundaries) == made.step:
        return True
    told = None if status is None else status.layout
    return told is not None and told.phase is LayoutPhase.SWITCHING


LIVE = (
    live_layout_asked,
    live_made_ready,
    live_made_ready,
    node_killed_at_the_switch,
    coordinator_killed_at_the_switch,
)

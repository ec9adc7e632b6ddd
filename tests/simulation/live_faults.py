"""What may go wrong with a change of the layout that is made while the pipeline runs."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import LayoutRequest, PipelineSpec
from kcontrol.definition.succession import check_resize
from kcontrol.errors import SpecChangedError
from tests.simulation.fleet import Fleet
from tests.simulation.live_layout import (
    ENDLESS_MS,
    SIZES,
    TIMEOUT_MS,
    asked,
    make_ready,
    some_of,
    submitted,
    to_follow,
)
from tests.simulation.specs import PIPELINE, REBALANCE


def can_be_changed(spec: PipelineSpec) -> bool:
    """Whether its layout can be another: not where state lies beside the partitions that a node reads."""
    return not spec.stateful or bool(spec.exchanges)


def live_layout_asked(fleet: Fleet, counts: Counter[str]) -> bool:
    """By its number; sometimes by one that is over, or still to come; sometimes what was asked for is withdrawn."""
    world, random = fleet.world, fleet.random
    if not can_be_changed(world.spec):
        return False
    number = len(world.assignments) + 1
    if random.random() < 0.1:
        number += random.choice((-1, 1))
    nodes, replaced, without = random.choice(SIZES), (), -1
    if nodes == world.spec.nodes:
        replaced = some_of(nodes, random.random())
    elif nodes == world.spec.nodes - 1 and random.random() < 0.75:
        without = int(random.random() * nodes)
        replaced = (without,)
    if asked(world) is not None and random.random() < 0.3:
        nodes, replaced, without = 0, (), -1
    fleet.requests += 1
    request = LayoutRequest(PIPELINE, f"r{fleet.requests}", number, nodes, TIMEOUT_MS, replaced, without)
    world.append(request)
    counts["a node in the middle left out"] += without >= 0
    counts["several replaced at once"] += len(replaced) > 1
    return True


def started_with_another_number(fleet: Fleet, counts: Counter[str]) -> bool:
    """A pipeline without state, whose layout was changed: by somebody who gives its definition other nodes, as before that."""
    world, spec = fleet.world, fleet.world.spec
    if spec.stateful or not world.assignments or to_follow(world) is not None:
        return False
    nodes = fleet.random.choice([each for each in (1, *SIZES) if each != spec.nodes])
    steps = StepsView(PIPELINE, world.boundaries[-1], assignments=tuple(world.assignments))
    try:
        check_resize(replace(spec, nodes=nodes), spec, steps)
    except SpecChangedError:
        counts["another number refused"] += 1
        return False
    fleet.resize(submitted(spec, world.assignments[-1], nodes), True)
    return True


def nobody_comes(fleet: Fleet, counts: Counter[str]) -> bool:
    """More nodes are asked for, and no process is started for the last of them."""
    world = fleet.world
    if not can_be_changed(world.spec) or world.spec.nodes == SIZES[-1]:
        return False
    fleet.requests += 1
    number, nodes = len(world.assignments) + 1, world.spec.nodes + 1
    world.append(LayoutRequest(PIPELINE, f"r{fleet.requests}", number, nodes, ENDLESS_MS))
    return True


def last_step_is_not_saved(fleet: Fleet, counts: Counter[str]) -> bool:
    """From now on nothing can be saved while a change of the layout is being made."""
    if fleet.world.saves_no_last_step:
        return False
    fleet.world.saves_no_last_step = True
    return True


def rebalancing_switched(fleet: Fleet, counts: Counter[str]) -> bool:
    """On, mostly: the coordinator has state divided anew by itself."""
    world = fleet.world
    if not world.spec.stateful or not world.spec.exchanges:
        return False
    wanted = REBALANCE if fleet.random.random() < 0.8 else None
    if wanted == world.spec.rebalance:
        return False
    world.submit(replace(world.spec, rebalance=wanted))
    counts["rebalancing on"] += wanted is not None
    return True


def live_made_ready(fleet: Fleet, counts: Counter[str]) -> bool:
    """All who are to be nodes say so, whatever they have copied; one may say that it can't be one."""
    world, random = fleet.world, fleet.random
    request = asked(world)
    if request is None or not request.nodes:
        return False
    lies, fails = random.random() < 0.3, random.random() < 0.05
    for node in range(request.nodes):
        if random.random() < 0.95:
            make_ready(world, node, 1_000 if lies else None, "no" if fails and not node else "")
    counts["ready without having copied"] += lies
    return True

"""Resets: what `kcontrol reset` does, in a world where nothing is as it should be."""

from __future__ import annotations

from collections import Counter
from random import Random

from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import DesiredMode, PipelineSpec, Reset, Tombstone
from kcontrol.core.step.resetting import (
    begins_at,
    going_back,
    refused_exchanges,
    refused_standing,
    refused_step,
    void_checkpoints,
)
from tests.simulation.broker import STEPS
from tests.simulation.chains import chain, made_by
from tests.simulation.fleet import Fleet
from tests.simulation.invariants import require
from tests.simulation.layout_faults import fenced, stop
from tests.simulation.world import World


def pipeline_reset(fleet: Fleet, counts: Counter[str]) -> bool:
    """After a stop; or by somebody who has not stopped anything, which the command refuses as long as it hears of it."""
    world, random = fleet.world, fleet.random
    if not world.boundaries:
        return False
    if random.random() < 0.6:
        stop(fleet)
    if random.random() < 0.7:
        for node in range(len(fleet.nodes)):
            fleet.kill_node(node)
    done = write_reset(world, random, counts)
    for number, node in enumerate(fleet.nodes):
        if node is None:
            fleet.start_node(number)
    fleet.want(DesiredMode.RUNNING)
    return done


def write_reset(world: World, random: Random, counts: Counter[str], to_step: int = 0) -> bool:
    """Whoever made steps is fenced. to_step: where it goes back to; 0: any step that can be come to."""
    steps = fenced(world)
    places = [step for step in range(1, steps.step + 1) if may_go_back(world.spec, steps, step)]
    if not places:
        return False
    to_step = to_step or places[int(random.random() * len(places))]
    back, last = world.boundaries[made_by(world, to_step) - 1], world.boundaries[-1]
    if world.spec.stateful:
        again = [one for one in chain(world, to_step) if one.step > (begins_at(steps, to_step) or 0)]
        refused = refused_exchanges(world.spec, again)
        require(not refused, "nodes of one layout send each other rows by the same exchanges", refused)
        counts["steps run again that rows crossed in"] += sum(bool(one.exchanges) for one in again)
    asked = Reset(to_step, "", "user", f"reset-{last.step}", ())
    boundary = going_back(last, back, asked, (1, world.epoch), -1, world.now_ms)
    world.add_partitions(world.epoch, (STEPS,))
    world.write_last(world.epoch, boundary, *(Tombstone(key) for key in void_checkpoints(steps, to_step)))
    if random.random() < 0.2:
        # Whoever does it dies before the commit was asked for: nothing was reset.
        counts["reset not committed"] += 1
        world.init_producer()
    else:
        world.end(world.epoch)
        counts["steps made void"] += last.step - to_step
    return True


def may_go_back(spec: PipelineSpec, steps: StepsView, to_step: int) -> bool:
    """What the command finds in the log of steps."""
    return not (refused_step(spec, steps, to_step) or refused_standing(spec, steps, to_step))

"""Changes of the layout: what `kcontrol layout` does, in a world where nothing is as it should be."""

from __future__ import annotations

from collections import Counter
from functools import reduce
from random import Random

from kcontrol.core.events import DropParts
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import Assignment, DesiredMode, PipelineSpec, SavedPart
from kcontrol.core.step.layout_change import changed
from tests.simulation.broker import STEPS
from tests.simulation.chains import chain
from tests.simulation.coordinator_actor import CoordinatorActor
from tests.simulation.fleet import Fleet, Process
from tests.simulation.live_layout import submitted
from tests.simulation.node_actor import NodeActor
from tests.simulation.states import handed_over
from tests.simulation.stored import drop
from tests.simulation.world import StoredPart, World

_SIZES = (2, 3)
_SHARDS = (2, 4, 8, 16)
_ROUNDS, _ROUND_MS, _EVENTS = 10, 200, 400


def layout_changed(fleet: Fleet, counts: Counter[str]) -> bool:
    """After a stop that saved the last step; or by somebody who has not stopped anything, which the command refuses as long as
    it hears of it. Whoever made steps is fenced, and the definition comes a while later, or before long."""
    world, random = fleet.world, fleet.random
    spec = world.spec
    if not spec.stateful or not spec.exchanges:
        return False
    if not world.boundaries:
        return False
    stop(fleet)
    steps = fenced(world)
    if not may_change(steps):
        return False
    nodes, number = spec.nodes, 1 if steps.assignment is None else steps.assignment.number + 1
    parts: tuple[SavedPart, ...] = ()
    if steps.checkpoint_of(steps.step) is not None and random.random() < 0.5:
        while True:
            change = changed(spec, nodes, shards=_other_shards(spec, random))
            parts = _cut(fleet, steps, len(change.owners), number)
            if random.random() < 0.7:
                break
            counts["cutting given up"] += 1
            if random.random() < 0.5:
                fleet.want(DesiredMode.RUNNING)
                return True
        counts["shards changed"] += 1
    else:
        nodes = next(size for size in _SIZES if size != spec.nodes)
        without = int(random.random() * spec.nodes) if nodes < spec.nodes and random.random() < 0.5 else None
        change = changed(spec, nodes, without)
    assignment = Assignment(
        *(spec.pipeline, number, steps.step, nodes, change.owners, change.inputs, change.outputs),
        *(len(change.moves), 0, f"layout-{number}", world.now_ms, named(parts)),
    )
    stopped = random.random() < 0.7
    if stopped:
        for node in range(len(fleet.nodes)):
            fleet.kill_node(node)
    world.add_partitions(world.epoch, (STEPS,))
    world.write_last(world.epoch, assignment)
    world.end(world.epoch)
    if random.random() < 0.3:
        _drop_late(world, steps)
    fleet.resize(submitted(spec, assignment), stopped)
    fleet.want(DesiredMode.RUNNING)
    return True


def _other_shards(spec: PipelineSpec, random: Random) -> int:
    now = spec.layout.shuffle_partitions
    return random.choice([each for each in _SHARDS if each != now and each >= spec.nodes])


def _cut(fleet: Fleet, steps: StepsView, shards: int, number: int) -> tuple[SavedPart, ...]:
    """The parts of the checkpoint of the last step, made anew by whoever changes the layout, who may die before the record.
    What is there already is left as it is."""
    world, checkpoint = fleet.world, steps.checkpoint_of(steps.step)
    assert checkpoint is not None
    made = []
    history = tuple(handed_over(number, one.step) for one in chain(world, steps.step))
    for part in checkpoint.parts:
        incarnation = life_after(world)
        manifest = part_name(steps.step, part.node, incarnation, fleet.random)
        world.store.setdefault(manifest, StoredPart(part.node, steps.step, history, shards, incarnation))
        made.append(SavedPart(part.node, incarnation, manifest, 1, 1))
    return tuple(made)


def part_name(step: int, node: int, incarnation: int, random: Random) -> str:
    """One that was never used."""
    return f"{step}/{node}/{incarnation}/anew-{random.getrandbits(62)}"


def life_after(world: World) -> int:
    """One that no node has had that may still be there."""
    return len(world.control)


def _drop_late(world: World, steps: StepsView) -> None:
    """Lives that hung since before the change do what they were about to: delete what is not of the checkpoints they know."""
    for part in steps.checkpoints[-1].parts if steps.checkpoints else ():
        drop(world, part.node, part.incarnation, DropParts(steps.checkpoints))


def named(parts: tuple[SavedPart, ...]) -> tuple[SavedPart, ...]:
    """What the record says of the parts."""
    return parts


def stop(fleet: Fleet) -> None:
    """As far as all come to it within a while; what was in its way before still is."""
    fleet.want(DesiredMode.STOPPED)
    rests = fleet.random.random() < 0.5
    for _ in range(_ROUNDS):
        if _is_saved(fleet.world):
            if rests:
                _work_off(fleet)
            return
        for number, node in enumerate(fleet.nodes):
            if node is None or node.exited:
                fleet.start_node(number)
        _work_off(fleet)
        fleet.world.now_ms += _ROUND_MS
        for actor in fleet.alive():
            actor.tick()


def _work_off(fleet: Fleet) -> None:
    """Until nobody has anything to do at once, or for a while."""
    for _ in range(_EVENTS):
        did = [_does_anything(actor) for actor in fleet.alive()]
        if not any(did):
            return


def _is_saved(world: World) -> bool:
    return world.boundaries[-1].step in {one.step for one in world.checkpoints}


def _does_anything(actor: Process) -> bool:
    if isinstance(actor, NodeActor) and actor.exited:
        return False
    if isinstance(actor, CoordinatorActor) and (actor.doomed or actor.overtaken):
        return False
    return actor.run_effect() or actor.read_one(True) or actor.take_answer() or actor.work()


def may_change(steps: StepsView) -> bool:
    """H2, cold: there is a checkpoint of the last step."""
    return steps.step > 0 and steps.checkpoint_of(steps.step) is not None


def fenced(world: World) -> StepsView:
    """What is committed, once nobody can commit anything any more."""
    world.init_producer()
    return reduce(evolve, [one for one in world.steps if one is not None], StepsView(world.spec.pipeline))

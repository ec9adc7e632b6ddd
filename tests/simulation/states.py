"""What must hold of the state of nodes, and of who owns which part of it, each by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcontrol.core.model import Assignment, Checkpoint, PipelineSpec, StepBoundary, StepWork, Watermark
from kcontrol.core.step.assignment import Owners, dealt, resharded
from tests.simulation.chains import chain, made_by
from tests.simulation.invariants import ZOMBIE, require, valid
from tests.simulation.rows import Row, rows_for
from tests.simulation.specs import REBALANCE, WEIGHTS

if TYPE_CHECKING:
    from tests.simulation.world import World

BEGINS = "a node begins with exactly the shards that it owns"
PARTS = "a checkpoint in the log has the parts of all nodes for exactly that step and boundary, or none without state"
NOT_WITHOUT = "an assignment without its checkpoint is never in the log"
CUT = "with other shards come parts that are cut so, and only then"
AS_ASKED = "a change of the layout is the one that was asked for, by its number"
BALANCED = "a layout is balanced, and little moves"
GOES_ON = "a change of the layout that is made while it runs ends no process for good that has a place in it"
NO_TRACE = "a given-up change of the layout leaves no trace"
MEANWHILE = "steps go on while a change of the layout is prepared"
PAUSE_ENDS = "the pause of a change of the layout ends"
NEEDED = "state is divided anew by itself only where a node has too much, and not twice in a row"
ONE_LAYOUT = "each shard is run by one node in each step"
VOID = "nobody's state, and no checkpoint, has anything of a void step"
DROPPED = "checkpoints of void steps are dropped with them"
REACHABLE = "a pipeline goes back only to where its state can be had"
CROSSED = "what nodes have sent each other in steps that a reset has run again is there"
STATE = "every shard's state is the fold of its rows"


def signature(work: StepWork, rows: tuple[Row, ...], watermarks: tuple[Watermark, ...]) -> tuple[object, ...]:
    """What an engine's state depends on. rows: those that were exchanged to it."""
    division = tuple((part.input, part.partition, part.from_, part.to) for part in work.division)
    return work.step, work.now_ms, division, rows, watermarks


def signature_of(world: World, boundary: StepBoundary, node: int) -> tuple[object, ...]:
    """The same, of a committed step and one of its nodes."""
    owners = owners_at(world, boundary)
    return (
        boundary.step,
        boundary.now_ms,
        tuple((p.input, p.partition, p.from_, p.to) for p in boundary.inputs),
        rows_for(world.spec, boundary, node, owners),
        boundary.watermarks,
    )


def owners_at(world: World, boundary: StepBoundary) -> Owners:
    """The table by which a step was made."""
    newest = next((one for one in reversed(world.assignments) if one.step < boundary.step), None)
    return dealt(boundary.layout.shuffle_partitions, boundary.nodes) if newest is None else newest.owners


def handed_over(number: int, step: int) -> tuple[object, ...]:
    """What a state has of a step that was made before the newest change of the layout: a part of what all nodes saved."""
    return ("handed over", number, step)


def state_of(world: World, step: int, node: int) -> tuple[tuple[object, ...], ...]:
    """What made the state of a node that goes by the newest layout, after a step."""
    newest = world.assignments[-1] if world.assignments else None
    return tuple(
        handed_over(newest.number, boundary.step)
        if newest is not None and boundary.step <= newest.step
        else signature_of(world, boundary, node)
        for boundary in chain(world, step)
    )


def check_checkpoint(world: World, checkpoint: Checkpoint) -> None:
    """What a reader would see if this checkpoint were committed now."""
    step, newest = checkpoint.step, max((one.step for one in world.checkpoints), default=0)
    once = not world.replicated or step not in world.saved
    require(once, "no two checkpoint records for a step", (step, world.saved))
    require(
        newest < step <= len(world.boundaries), "checkpoint monotone", (newest, step, len(world.boundaries))
    )
    require(step in {one.step for one in valid(world)}, VOID, (step, [one.step for one in valid(world)]))
    # A coordinator that has saved a checkpoint, and is told of nothing newer by a broker that is behind, may
    # record it although it was replaced: parts need no node's answer under the newest claim, as steps do. It
    # is right all the same, or it would not lie at the end that its author has read to.
    may_be_old = world.replicated
    require(
        may_be_old or checkpoint.claim_epoch >= world.ruling_epoch, ZOMBIE, (checkpoint, world.ruling_epoch)
    )
    found = [world.store.get(part.manifest) for part in checkpoint.parts]
    expected = [state_of(world, step, node) for node in range(len(found))]
    require(
        checkpoint.boundary_offset == world.offsets[step - 1]
        and [part and part.node for part in found] == list(range(len(found)))
        and len(found) in (world.sizes if world.spec.stateful else (0,))
        and bool(checkpoint.location) == bool(found)
        and all(part and part.history == state for part, state in zip(found, expected, strict=True)),
        PARTS,
        (checkpoint, [part and (part.node, len(part.history)) for part in found]),
    )


def check_assignment(world: World, assignment: Assignment) -> None:
    """The layout would be changed now."""
    step, last = len(world.boundaries), world.assignments[-1] if world.assignments else None
    saved = {one.step for one in world.checkpoints}
    is_kept = step in saved or not world.spec.stateful
    require(assignment.step == step and is_kept, NOT_WITHOUT, (assignment, step, saved))
    require(
        assignment.number == (1 if last is None else last.number + 1),
        "layouts are numbered in turn",
        assignment,
    )
    require(assignment.request_id not in world.given_up, NO_TRACE, (assignment, world.given_up))
    if assignment.live:
        asked = world.layouts.get(assignment.request_id)
        require(
            asked is not None
            and (asked.number, asked.nodes, asked.replaced, asked.owners or assignment.owners)
            == (assignment.number, assignment.nodes, assignment.replaced, assignment.owners),
            AS_ASKED,
            (assignment, asked),
        )
    boundary, parts = world.boundaries[-1], [world.store.get(part.manifest) for part in assignment.parts]
    before = dealt(boundary.layout.shuffle_partitions, boundary.nodes) if last is None else last.owners
    cut = len(before) != len(assignment.owners)
    told = [part and (part.node, part.shards, part.step) for part in parts]
    wanted = [(node, len(assignment.owners), step) for node in range(assignment.nodes)] if cut else []
    require(told == wanted, CUT, (assignment, told, wanted))
    before = resharded(before, len(assignment.owners))
    by_itself = world.layouts.get(assignment.request_id)
    if by_itself is not None and by_itself.why:
        _check_needed(world, before, assignment, last)
        return
    counts = [assignment.owners.count(node) for node in range(assignment.nodes)]
    least = sum(
        max(0, before.count(node) - -(-len(before) // assignment.nodes)) for node in range(assignment.nodes)
    )
    least += sum(node >= assignment.nodes for node in before)
    require(max(counts) - min(counts) <= 1, BALANCED, (assignment, counts))
    moved = sum(was != now for was, now in zip(before, assignment.owners, strict=True))
    require(least <= moved <= least + assignment.nodes, BALANCED, (before, assignment, moved, least))


def _check_needed(world: World, before: Owners, assignment: Assignment, last: Assignment | None) -> None:
    """What each shard weighs never changes here."""
    nodes = range(assignment.nodes)
    had, has = (
        [sum(weight for weight, owner in zip(WEIGHTS, table, strict=True) if owner == node) for node in nodes]
        for table in (before, assignment.owners)
    )
    mean = sum(WEIGHTS) / assignment.nodes
    before_last = None if last is None else world.layouts.get(last.request_id)
    require(
        max(had) * 100 > mean * REBALANCE.when_percent
        and max(had) - max(has) >= mean / 10
        and (before_last is None or not before_last.why),
        NEEDED,
        (before, assignment, last),
    )


def check_reset(world: World, boundary: StepBoundary, dropped: list[str]) -> None:
    """The pipeline would go back now. What it goes back to is found without the core."""
    reset, last = boundary.reset, len(world.boundaries)
    assert reset is not None
    require(boundary.step == last + 1, "a reset has a number of its own", (boundary, last))
    left = valid(world)
    back = next((one for one in left if one.step == made_by(world, reset.to_step)), None)
    require(
        back is not None
        and 0 < reset.to_step <= last
        and made_by(world, reset.to_step) in {one.step for one in left},
        "only to a step that is not void can be gone back",
        (reset, [one.step for one in left]),
    )
    assert back is not None
    positions = [(piece.input, piece.partition, piece.to, piece.to) for piece in back.inputs]
    require(
        [(p.input, p.partition, p.from_, p.to) for p in boundary.inputs] == positions
        and not boundary.outputs
        and (boundary.watermarks, boundary.watermark_moved) == (back.watermarks, back.watermark_moved)
        and boundary.now_ms > world.boundaries[-1].now_ms,
        "a reset has the positions and the watermark of what it goes back to, and nothing else",
        (boundary, back),
    )
    void = [f"checkpoint/{one.step}" for one in world.checkpoints if one.step > reset.to_step]
    require(dropped == void, DROPPED, (dropped, void))
    oldest = min((one.step for one in world.checkpoints), default=0)
    begins = oldest <= reset.to_step if oldest else world.first_step == 1
    require(begins or not world.spec.stateful, REACHABLE, (reset, oldest, world.first_step))
    _check_crossed(world, reset.to_step)


def _check_crossed(world: World, to_step: int) -> None:
    """Any node may have lost its disk, and then has what others have sent it from there alone."""
    begin = max((one.step for one in world.checkpoints if one.step <= to_step), default=0)
    for boundary in chain(world, to_step) if world.spec.stateful else ():
        if boundary.step > begin:
            require(not world.exchanged.is_gone(boundary.exchanges), CROSSED, (to_step, begin, boundary.step))


def check_opened(world: World, spec: PipelineSpec, step: int, node: int, held: tuple[object, ...]) -> None:
    """An engine by this definition has opened a step."""
    newest = 0 if not world.assignments else world.assignments[-1].number
    if spec.stateful and spec.assignment == newest > 0:
        right = state_of(world, step, node)
        require(held == right, BEGINS, (step, node, held, right))


def check_not_void(world: World, step: int, node: int, held: tuple[object, ...]) -> None:
    """An engine that holds a step, or what it goes back to, is about to run the next one."""
    if any(boundary.reset is not None for boundary in world.boundaries):
        right = state_of(world, step, node)
        require(held == right, VOID, (step, node, held, right))


def check_layout(world: World, spec: PipelineSpec, step: int) -> None:
    """An engine by this definition is about to run a step, whose boundary may be in the log already."""
    newest = next((one for one in reversed(world.assignments) if one.step < step), None)
    require(
        spec.assignment == (0 if newest is None else newest.number),
        ONE_LAYOUT,
        (spec.assignment, step, newest),
    )


def check_finish(world: World, work: StepWork, step: int, made: tuple[object, ...], node: int) -> None:
    """An engine is about to keep a step for good."""
    require(step <= len(world.boundaries), "a node is never ahead of the log", (step, len(world.boundaries)))
    boundary = world.boundaries[step - 1]
    require(
        work.token == boundary.token,
        "a node keeps only the attempt that the boundary names",
        (work.token, boundary.token),
    )
    right = signature_of(world, boundary, node)
    require(made[:3] == right[:3], "one division per committed step", (work, boundary))
    require(made[3:] == right[3:], STATE, (made, right))

"""What must hold in every world at every moment, each by name. A schedule that breaks one is a bug in the
core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcontrol.core.model import (
    InputSlice,
    PipelinePhase,
    Reason,
    Status,
    StepBoundary,
    StepWork,
)
from tests.simulation.chains import made_by
from tests.simulation.specs import holds_record

if TYPE_CHECKING:
    from kcontrol.core.log.control_view import PipelineView
    from kcontrol.core.log.steps_view import StepsView
    from tests.simulation.world import World


class Violation(AssertionError):
    """An invariant does not hold: its name, and what was found."""

    def __init__(self, name: str, found: str) -> None:
        super().__init__(f"{name}: {found}")
        self.name = name


ZOMBIE = "a zombie coordinator's or node's message never changes a committed thing"
"""Of a coordinator: once its successor has fenced and read, nothing of it is committed. Of a node: nothing
that an incarnation which is not in the boundary has written is committed."""


ONE_CLOCK = "no wall clock moves the time of a step further than is tolerated"
"""Steps that are made within one millisecond take the next ones."""

ENOUGH = "a step that is due by records holds as many as its policy waits for"


CALLED = "nobody is called because of what an old end of the log says"
_BY_THE_LOG = (
    "can't be opened",
    "has expired: the next step needs",
    "has changed: its log was made by",
    "keeps state, and its log was made by",
    "partitions, the pipeline was made with",
    "does not have: start it again",
)
"""What halts a pipeline because of what was read of the log of steps."""


def require(holds: bool, name: str, found: object) -> None:
    """Raise Violation unless it holds."""
    if not holds:
        raise Violation(name, str(found))


def check_commit(world: World, boundary: StepBoundary) -> None:
    """What a reader would see if this boundary were committed now."""
    last = world.boundaries[-1] if world.boundaries else None
    step = 0 if last is None else last.step
    require(boundary.token.claim_epoch >= world.ruling_epoch, ZOMBIE, (boundary.token, world.ruling_epoch))
    require(boundary.step > step, "no two committed attempts", (step, boundary.step))
    require(boundary.step == step + 1, "steps are contiguous", (step, boundary.step))
    require(boundary.token not in world.tokens, "a token is committed once", boundary.token)
    require(last is None or boundary.now_ms > last.now_ms, "time strictly grows", boundary.now_ms)
    latest_ms = world.now_ms + world.spec.limits.clock_tolerance_ms + boundary.step
    require(boundary.now_ms <= latest_ms, ONE_CLOCK, (boundary.now_ms, world.now_ms))
    require(
        boundary.nodes == len(boundary.token.incarnations) and boundary.nodes in world.sizes,
        "a step is made by as many nodes as its boundary says",
        (boundary.nodes, boundary.token, world.sizes),
    )
    _check_inputs(world, last, boundary)
    _check_outputs(world, boundary)


def check_once(world: World, boundary: StepBoundary) -> None:
    """The same in the words of who reads the log, whatever steps may be: of everything that was ever
    committed, without looking at what a step should be."""
    left = valid(world)
    for piece in boundary.inputs:
        reached = max((b.to for a in left for b in a.inputs if _place(b) == _place(piece)), default=0)
        require(
            piece.from_ >= reached or piece.from_ == piece.to,
            "no input record is in two committed steps that are not void",
            (piece, reached),
        )
    step = world.boundaries[-1].step if world.boundaries else 0
    require(
        boundary.step == step + 1, "boundaries in the log are strictly consecutive", (step, boundary.step)
    )


def valid(world: World) -> list[StepBoundary]:
    """Every step that is not void, and no reset."""
    found: list[StepBoundary] = []
    for boundary in world.boundaries:
        back = boundary.reset
        found = [*found, boundary] if back is None else [one for one in found if one.step <= back.to_step]
    return found


def _place(piece: InputSlice) -> tuple[str, int]:
    return piece.input, piece.partition


def _check_inputs(world: World, last: StepBoundary | None, boundary: StepBoundary) -> None:
    _check_skips(world, boundary)
    expected = {
        (item.name, p): begin for item in world.spec.inputs for p, begin in enumerate(item.start_offsets)
    }
    if last is not None:
        expected = {(piece.input, piece.partition): piece.to for piece in last.inputs}
    begins = {(piece.input, piece.partition): piece.from_ for piece in boundary.inputs}
    _check_partitions(world, set(expected), set(begins))
    found = {**begins, **{(one.input, one.partition): one.from_ for one in boundary.skipped_ranges}}
    expected = {place: expected.get(place, 0) for place in found}
    skipped = {(one.input, one.partition): one.to for one in boundary.skipped_ranges}
    joined = all(begins.get(place) == to for place, to in skipped.items())
    require(
        found == expected and joined,
        "every input record is in exactly one committed step or in a recorded skip",
        (expected, begins, boundary.skipped_ranges),
    )
    ends = {item.name: ends for item, ends in zip(world.spec.inputs, world.input_ends, strict=True)}
    for piece in boundary.inputs:
        end = ends[piece.input][piece.partition]
        require(piece.from_ <= piece.to <= end, "only input that exists is in a step", (piece, end))
    _check_paused(world, boundary)
    _check_enough(world, boundary)


def _check_enough(world: World, boundary: StepBoundary) -> None:
    """Unless more offsets wait than it may hold: then some of the records that wait are left for the next
    one."""
    policy = world.spec.policy
    offsets = [
        (piece.partition, offset) for piece in boundary.inputs for offset in range(piece.from_, piece.to)
    ]
    records = sum(holds_record(world.spec, *where) for where in offsets)
    if boundary.reason is Reason.RECORDS and len(offsets) < policy.max_records:
        require(records >= policy.min_records, ENOUGH, (records, boundary.inputs))


def _check_skips(world: World, boundary: StepBoundary) -> None:
    ends = {item.name: ends for item, ends in zip(world.spec.inputs, world.input_ends, strict=True)}
    for one in boundary.skipped_ranges:
        asked = world.skips.get(one.request_id)
        require(
            asked is not None
            and (asked.input, asked.partition, asked.from_, asked.to)
            == (one.input, one.partition, one.from_, one.to)
            and one.from_ < one.to <= ends[one.input][one.partition],
            "what is skipped is what a user asked for: forward, and no further than there are offsets",
            (one, asked),
        )


def _check_partitions(world: World, before: set[tuple[str, int]], now: set[tuple[str, int]]) -> None:
    there = {
        (item.name, p)
        for item, ends in zip(world.spec.inputs, world.input_ends, strict=True)
        for p in range(len(ends))
    }
    require(
        before <= now <= there,
        "a division names every partition that one before it named",
        (before, now, there),
    )
    require(
        not world.is_keyed_apart or now == before,
        "partitions of keyed inputs are not taken up on several nodes",
        (before, now),
    )


def _check_paused(world: World, boundary: StepBoundary) -> None:
    for name, offset in world.held.items():
        if all(paused for at, paused in world.wishes[name] if at > offset):
            read = [piece for piece in boundary.inputs if piece.input == name and piece.to > piece.from_]
            require(
                not read and name in boundary.paused_inputs,
                "nothing of a paused input is in a step after the boundary at which it took effect",
                (name, offset, read, boundary.paused_inputs),
            )
    for name in boundary.paused_inputs:
        require(any(paused for _, paused in world.wishes[name]), "an input is paused only by a user", name)


def _check_outputs(world: World, boundary: StepBoundary) -> None:
    names = [item.name for item in world.spec.outputs]
    said = {
        (piece.output, piece.partition): (piece.from_, piece.to)
        for piece in boundary.outputs
        if piece.records
    }
    written = {}
    for segment in world.open:
        require(
            segment.token == boundary.token and segment.step == boundary.step,
            "committed output was written by exactly the token in the boundary",
            (segment, boundary.token),
        )
        require(
            segment.incarnation in boundary.token.incarnations,
            ZOMBIE,
            (segment, boundary.token),
        )
        if segment.to > segment.from_:
            written[names[segment.output], segment.partition] = (segment.from_, segment.to)
    require(said == written, "a step is whole: what was written is what its boundary says", (said, written))


def check_kept(world: World) -> None:
    """What is left when a checkpoint has been committed."""
    steps = [one.step for one in world.checkpoints]
    policy = world.spec.checkpoint
    require(
        len(steps) == len(set(steps)) <= policy.keep,
        "no more checkpoints are kept than were asked for",
        steps,
    )
    require(
        0 < world.first_step <= min(steps, default=0),
        "retained steps cover the oldest checkpoint",
        (world.first_step, steps),
    )
    asked = len(world.boundaries) - policy.keep_steps + 1 if policy.keep_steps >= 0 else 1
    require(
        world.first_step <= max(1, asked),
        "no step is dropped that retention asks for",
        (world.first_step, asked),
    )


def check_answers(world: World, status: Status) -> None:
    """A coordinator tells users what became of their requests."""
    for answer in status.answers:
        asked = world.asked[answer.request_id]
        require(
            bool(answer.error) or (answer.step in world.saved and answer.step >= asked),
            "what was committed when a checkpoint was asked for is saved when the request is answered",
            (answer, asked, world.saved),
        )


def check_halt(world: World, claim_epoch: int, steps: StepsView, why: str) -> None:
    """A coordinator calls a person."""
    if claim_epoch == world.ruling_epoch and any(sign in why for sign in _BY_THE_LOG):
        known = (steps.step, steps.checkpoint, 0 if steps.assignment is None else steps.assignment.number)
        saved = max((one.step for one in world.checkpoints), default=0)
        number = world.assignments[-1].number if world.assignments else 0
        committed = (len(world.boundaries), saved, number)
        require(known == committed, CALLED, (known, committed, why))


def check_stopped(world: World, status: Status) -> None:
    """A coordinator tells users that the pipeline is stopped, and either that the last
    step is saved or why it is not."""
    saves = world.spec.stateful and world.spec.checkpoint.location
    if saves and status.phase is PipelinePhase.STOPPED and not status.reason:
        require(
            status.step in (0, *world.saved) or world.boundaries[status.step - 1].reset is not None,
            "a stop saves the last step, or says why not",
            (status, world.saved),
        )


def check_noted(world: World, status: Status) -> None:
    """A coordinator tells users which of their requests about inputs it goes by."""
    for name, wishes in world.wishes.items():
        noted = [wish for wish in wishes if wish[0] <= status.inputs_offset]
        if noted and noted[-1][1]:
            world.held[name] = max(noted[-1][0], world.held.get(name, -1))


def check_begun(world: World, work: StepWork) -> None:
    """An engine is about to make an attempt that may be committed.

    Where commits tell epochs it may be asked of a node that has written the last committed step, and has not read
    the boundary.
    """
    held = [world.reached.get(incarnation, 0) for incarnation in work.token.incarnations]
    last = world.boundaries[-1] if world.boundaries and world.tells_epochs else None
    if last is not None:
        made = last.token.incarnations
        held = [
            last.step if one in made else reached
            for one, reached in zip(work.token.incarnations, held, strict=True)
        ]
    before = world.boundaries[work.step - 2].reset if 1 < work.step <= len(world.boundaries) + 1 else None
    if before is not None:
        # Whoever holds what was gone back to holds the reset, and that may have been one, too.
        back = made_by(world, before.to_step)
        held = [work.step - 1 if one >= back else one for one in held]
    require(min(held) >= work.step - 1, "nobody beyond the slowest by more than one step", (work.step, held))


def check_created(world: World, step: int, stateful: bool) -> None:
    """An engine is about to begin with an empty state."""
    require(step == 0 or not stateful, "state is never left out", step)
    require(step <= len(world.boundaries), "a node is never ahead of the log", (step, len(world.boundaries)))


OPENABLE = "a node can always be opened, for its checkpoints are there"


def check_rerun(expected: StepBoundary, nodes: int) -> None:
    """An engine of one of so many nodes is about to run a step again."""
    require(
        expected.nodes == nodes,
        "a step is run again only by as many nodes as made it",
        (expected.step, nodes),
    )


def check_fold(world: World, view: PipelineView) -> None:
    """A reader that began with whatever compaction has left has read to the end.

    One that was away for longer than tombstones are kept may still hold what they forgot; that
    is superseded and means nothing.
    """
    found, expected = _what_counts(view), _what_counts(world.view)
    differing = [pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1]]
    require(not differing, "folding a compacted log gives what the full log gives", differing)


def check_steps(world: World, steps: StepsView) -> None:
    """A reader that began at a checkpoint has read to the end of the log of steps."""
    newest = world.boundaries[-1] if world.boundaries else None
    found = (steps.last, steps.first, [one.step for one in steps.checkpoints])
    expected = (newest, world.first_step, [one.step for one in world.checkpoints])
    require(found == expected, "whoever begins at a checkpoint knows all that counts", (found, expected))


def _what_counts(view: PipelineView) -> list[object]:
    counts: list[object] = [
        view.epoch,
        view.incarnations,
        view.claim(),
        view.spec(),
        view.desired(),
        view.resume(),
        view.status(),
    ]
    counts += [view.hold()]
    counts += [view.checkpoint_request(), view.skips, *(view.input_desired(name) for name in ("in", "side"))]
    counts += [view.skip(*place) for place in sorted(view.skips)]
    for node in range(3):
        counts += [
            view.node_state(node),
            view.written(node),
            *(view.early(node, view.incarnations.get(node, -1), stage) for stage in (0, 1)),
            view.checkpoint_part(node),
            view.replaying(node),
            view.received(node, "in"),
            view.received(node, "side"),
            view.command(node),
        ]
    return counts


AWAKE = "nobody waits for a moment that has passed"
"""A machine that asks to be woken at once, and then again, does nothing else."""
PROGRESS = "without faults the pipeline makes progress"
STAGES_END = "stages end or the attempt does"

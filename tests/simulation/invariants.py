"""What must hold in every world at every moment, each by name. A schedule that breaks one is a bug in the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcontrol.core.model import InputRange, StepBoundary, StepWork

if TYPE_CHECKING:
    from kcontrol.core.pipeline_view import PipelineView
    from tests.simulation.world import World


class Violation(AssertionError):
    """An invariant does not hold: its name, and what was found."""

    def __init__(self, name: str, found: str) -> None:
        super().__init__(f"{name}: {found}")
        self.name = name


def require(holds: bool, name: str, found: object) -> None:
    """Raise Violation unless it holds."""
    if not holds:
        raise Violation(name, str(found))


def check_commit(world: World, boundary: StepBoundary) -> None:
    """What a reader would see if this boundary were committed now."""
    last = world.steps[-1].record if world.steps else None
    assert last is None or isinstance(last, StepBoundary)
    step = 0 if last is None else last.step
    require(boundary.step == step + 1, "steps are contiguous and committed once", (step, boundary.step))
    require(boundary.token not in world.tokens, "a token is committed once", boundary.token)
    require(last is None or boundary.now_ms > last.now_ms, "time strictly grows", boundary.now_ms)
    require(
        boundary.token.claim_epoch >= world.ruling_epoch,
        "a zombie commits nothing after its successor has fenced and read",
        (boundary.token, world.ruling_epoch),
    )
    _check_inputs(world, last, boundary)
    _check_outputs(world, boundary)


def _check_inputs(world: World, last: StepBoundary | None, boundary: StepBoundary) -> None:
    expected: dict[tuple[str, int], int] = {}
    ends: dict[tuple[str, int], int] = {}
    for item, input_ends in zip(world.spec.inputs, world.input_ends, strict=True):
        for partition, begin in enumerate(item.start_offsets):
            expected[item.name, partition] = begin
            ends[item.name, partition] = input_ends[partition]
    if last is not None:
        expected = {(piece.input, piece.partition): piece.to for piece in last.inputs}
    found = {(piece.input, piece.partition): piece.from_ for piece in boundary.inputs}
    require(found == expected, "every input record is in exactly one committed step", (expected, found))
    for piece in boundary.inputs:
        end = ends[piece.input, piece.partition]
        require(piece.from_ <= piece.to <= end, "only input that exists is in a step", (piece, end))


def _check_outputs(world: World, boundary: StepBoundary) -> None:
    names = [item.name for item in world.spec.outputs]
    said = {(piece.output, piece.partition): (piece.from_, piece.to) for piece in boundary.outputs if piece.records}
    written = {}
    for segment in world.open:
        require(
            segment.token == boundary.token and segment.step == boundary.step,
            "committed output was written by exactly the token in the boundary",
            (segment, boundary.token),
        )
        require(
            segment.incarnation in boundary.token.incarnations,
            "committed output was written by the incarnations in the boundary",
            (segment, boundary.token),
        )
        if segment.to > segment.from_:
            written[names[segment.output], segment.partition] = (segment.from_, segment.to)
    require(said == written, "a step is whole: what was written is what its boundary says", (said, written))


def check_fold(world: World, view: PipelineView) -> None:
    """A reader that began with whatever compaction has left has read to the end.

    One that was away for longer than tombstones are kept may still hold what they forgot; that is superseded and means nothing.
    """
    found, expected = _what_counts(view), _what_counts(world.view)
    differing = [pair for pair in zip(found, expected, strict=True) if pair[0] != pair[1]]
    require(not differing, "folding a compacted log gives what the full log gives", differing)


def _what_counts(view: PipelineView) -> list[object]:
    counts: list[object] = [view.epoch, view.lives, view.claim(), view.spec(), view.desired(), view.resume(), view.status()]
    for node in range(2):
        counts += [
            view.node_state(node),
            view.written(node),
            view.replaying(node),
            view.received(node, "in"),
            view.command(node),
        ]
    return counts


def signature(step: int, now_ms: int, division: tuple[InputRange, ...]) -> tuple[object, ...]:
    """What an engine's state depends on."""
    return step, now_ms, tuple((part.input, part.partition, part.from_, part.to) for part in division)


def signature_of(boundary: StepBoundary) -> tuple[object, ...]:
    """The same, of a committed step."""
    return boundary.step, boundary.now_ms, tuple((p.input, p.partition, p.from_, p.to) for p in boundary.inputs)


def check_finish(world: World, work: StepWork, step: int) -> None:
    """An engine is about to keep a step for good."""
    require(step <= len(world.steps), "a node is never ahead of the log", (step, len(world.steps)))
    boundary = world.steps[step - 1].record
    assert isinstance(boundary, StepBoundary)
    require(
        work.token == boundary.token,
        "a node keeps only the attempt that the boundary names",
        (work.token, boundary.token),
    )
    require(
        signature(work.step, work.now_ms, work.division) == signature_of(boundary),
        "one division per committed step",
        (work, boundary),
    )

"""Runs the recorded divisions again from nothing and compares what comes out with the log.

It proves, or disproves, that the log alone explains the output: same input, same code, same digests. Nothing is written. All
steps from the first on are run, because state builds up; only those that were asked for are compared, and handed on by a
replay.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kcontrol.core.inputs import node_of
from kcontrol.core.layout import writers_of
from kcontrol.core.model import EMPTY_DIGEST, InputSlice, OutputSlice, PipelineSpec, StepBoundary, StepResult
from kcontrol.core.node import work_of
from kcontrol.errors import NotFoundError
from kcontrol.runtime.ports import Engine

Content = tuple[int, str]
"""Records and their digest."""

_NOTHING: Content = (0, EMPTY_DIGEST)

_BEGINNING = 0
"""The step whose state a run begins with: none yet."""


@dataclass(frozen=True)
class Mismatch:
    """One partition in which a step that was run again differs from the log. `what` is 'input' or 'output'."""

    step: int
    what: str
    name: str
    partition: int
    expected: Content
    found: Content

    def __str__(self) -> str:
        return (
            f"step {self.step}: {self.what} {self.name!r} partition {self.partition} differs: the log has {self.expected[0]} "
            f"records with digest {self.expected[1]}, this run has {self.found[0]} with {self.found[1]}"
        )


def mismatches(spec: PipelineSpec, node: int, boundary: StepBoundary, found: StepResult) -> list[Mismatch]:
    """Every partition that `node` reads or writes in which `found` differs from the log."""
    inputs = {input_.name: input_ for input_ in spec.inputs}
    own = {output.name: set(mine) for output, mine in zip(spec.outputs, writers_of(spec, node), strict=True)}
    expected_inputs = [piece for piece in boundary.inputs if node_of(inputs[piece.input], spec.nodes, piece.partition) == node]
    expected_outputs = [piece for piece in boundary.outputs if piece.partition in own[piece.output]]
    return [
        *_differences(boundary.step, "input", _inputs(expected_inputs), _inputs(found.inputs)),
        *_differences(boundary.step, "output", _outputs(expected_outputs), _outputs(found.outputs)),
    ]


async def verify_steps(
    spec: PipelineSpec, node: int, boundaries: Sequence[StepBoundary], engine: Engine, first: int, last: int
) -> AsyncIterator[tuple[int, list[Mismatch]]]:
    """Run steps 1 to `last` in an empty engine; yields (step, mismatches) for those from `first` on.

    boundaries: of all steps up to `last`, in order. Raises NotFoundError when step 1 is no longer in the log, or `last` not
    yet; StepFailedError when a step can't be run at all.
    """
    steps = {boundary.step: boundary for boundary in boundaries}
    start = _BEGINNING  # where a run begins is decided here and nowhere else
    missing = next((step for step in range(start + 1, last + 1) if step not in steps), None)
    if missing is not None:
        raise NotFoundError(
            f"pipeline {spec.pipeline!r}: step {missing} is not in the log, so steps up to {last} can't be run again"
        )
    await engine.open(start, create=start == _BEGINNING)
    for step in range(start + 1, last + 1):
        boundary = steps[step]
        found = await engine.run_step(work_of(boundary, writers_of(spec, node)), boundary)
        await engine.finish_step(step)
        if step >= first:
            yield step, mismatches(spec, node, boundary, found)


def _inputs(pieces: Iterable[InputSlice]) -> dict[tuple[str, int], Content]:
    return {(piece.input, piece.partition): (piece.records, piece.digest) for piece in pieces}


def _outputs(pieces: Iterable[OutputSlice]) -> dict[tuple[str, int], Content]:
    return {(piece.output, piece.partition): (piece.records, piece.digest) for piece in pieces}


def _differences(
    step: int, what: str, expected: Mapping[tuple[str, int], Content], found: Mapping[tuple[str, int], Content]
) -> Iterator[Mismatch]:
    for name, partition in sorted(expected.keys() | found.keys()):
        before, now = expected.get((name, partition), _NOTHING), found.get((name, partition), _NOTHING)
        if before != now:
            yield Mismatch(step, what, name, partition, before, now)

"""Runs the recorded divisions again and compares what comes out with the log.

It proves, or disproves, that the log alone explains the output: same input, same code, same digests. Nothing
is written. State builds up, so steps are run from where state is known: the nearest checkpoint, or nothing at
all. Only those that were asked for are compared, and handed on by a replay. Without state, nothing but these
is run.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from kcontrol.core.log.resets import kept
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Checkpoint, PipelineSpec, StepBoundary
from kcontrol.core.node.replay import work_of
from kcontrol.core.step.differences import Difference, differences, part_of
from kcontrol.errors import NotFoundError
from kcontrol.sessions.ports import Engine


@dataclass(frozen=True)
class Beginning:
    """The step whose state a run begins with: that of its checkpoint, or none."""

    step: int
    checkpoint: Checkpoint | None = None


def beginning(
    spec: PipelineSpec, steps: StepsView, first: int | None, readable: Callable[[Checkpoint], bool]
) -> tuple[int, Beginning]:
    """The first step to compare (`first`, or the oldest that can be), and where to begin to run for it.

    steps: with the oldest step that is left and all checkpoints. readable: whether all parts of one can be
    read; asked only of those that would do. Raises NotFoundError when what is needed is no longer there.
    """
    if not spec.stateful:
        found = steps.first if first is None else first
        if found < steps.first:
            raise NotFoundError(
                f"pipeline {spec.pipeline!r}: step {found} is no longer in the log, which begins with step "
                f"{steps.first}: give --from {steps.first} or later"
            )
        return found, Beginning(found - 1)
    if first is None and steps.first == 1:
        return 1, Beginning(0)
    there = [one for one in steps.saved if steps.can_replay_after(one.step)]
    nearest = there if first is None else [one for one in reversed(there) if one.step < first]
    chosen = next((one for one in nearest if readable(one)), None)
    if chosen is not None:
        return chosen.step + 1 if first is None else first, Beginning(chosen.step, chosen)
    if steps.first == 1 and first is not None:
        return first, Beginning(0)
    raise NotFoundError(_why_not(spec, steps, first, there))


def _why_not(spec: PipelineSpec, steps: StepsView, first: int | None, there: Sequence[Checkpoint]) -> str:
    what = "no step can" if first is None else f"step {first} can't"
    later = [one.step + 1 for one in there if first is not None and one.step >= first]
    advice = (
        f"give --from {later[0]} or later"
        if later
        else "give this machine access to the files of a checkpoint"
    )
    saved = ", ".join(str(one.step) for one in there) or "none"
    return (
        f"pipeline {spec.pipeline!r}: {what} be run again: the pipeline keeps state, the log holds steps "
        f"{steps.first} to {steps.step}, and no checkpoint before that can be read here (there are those of "
        f"steps: {saved}): {advice}"
    )


async def verify_steps(
    spec: PipelineSpec,
    node: int,
    boundaries: Sequence[StepBoundary],
    engine: Engine,
    first: int,
    last: int,
    begin: Beginning,
) -> AsyncIterator[tuple[int, list[Difference]]]:
    """Run the steps after that of `begin` up to `last`; yields (step, differences) for those from `first` on.

    An earlier step is yielded too if what went into it differs. With state nothing is run after such a step:
    no later one could be compared with anything.

    boundaries: of all steps that are run, in order; what is void by the last of them is left out.
    Raises NotFoundError when one is not in the log;
    StepFailedError when a step can't be run at all; CheckpointError when the checkpoint can't be read.
    """
    steps = {boundary.step: boundary for boundary in boundaries}
    start = begin.step
    missing = next((step for step in range(start + 1, last + 1) if step not in steps), None)
    if missing is not None:
        raise NotFoundError(
            f"pipeline {spec.pipeline!r}: step {missing} is not in the log, so steps up to {last} can't "
            "be run again"
        )
    await engine.open(start, create=begin.checkpoint is None, checkpoint=begin.checkpoint)
    for boundary in kept(steps[step] for step in range(start + 1, last + 1)):
        step = boundary.step
        work = work_of(boundary, spec, node)
        result = await engine.run_step(work, boundary)
        found = differences(boundary, part_of(boundary, spec, node), work, result)
        await engine.finish_step(step, boundary.watermarks)
        other_input = any(each.of_input for each in found)
        if step >= first or other_input:
            yield step, found
        if other_input and spec.stateful:
            return

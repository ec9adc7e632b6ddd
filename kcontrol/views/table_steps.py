"""As of which steps a pipeline's tables can be asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from kcontrol.core.log.resets import is_known
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Checkpoint, PipelineSpec
from kcontrol.errors import NotFoundError


def askable_steps(spec: PipelineSpec, steps: StepsView) -> Sequence[int]:
    """Those, in order. With state the steps of the checkpoints, since nothing else holds the state of all nodes at one
    step; without, all that are in the log and not void."""
    if spec.stateful:
        return [one.step for one in steps.saved]
    there = range(steps.first, steps.step + 1)
    return [step for step in there if not is_known(steps.resets, step)] if steps.resets else there


def chosen_step(spec: PipelineSpec, steps: StepsView, asked: int | None) -> tuple[int, Checkpoint | None]:
    """The step that is asked, the newest if `asked` is None, and the checkpoint that holds its state.

    Raises NotFoundError, which names the steps that can be asked.
    """
    there = askable_steps(spec, steps)
    if not there:
        raise NotFoundError(_why_none(spec, steps))
    step = there[-1] if asked is None else asked
    if step not in there:
        raise NotFoundError(
            f"pipeline {spec.pipeline!r} can't be asked as of step {step}: "
            + (
                f"its state is kept as of step {steps_text(there)}; `kcontrol checkpoint {spec.pipeline}` adds "
                "the step of then"
                if spec.stateful
                else f"its log holds step {steps_text(there)}"
            )
        )
    return step, steps.saved_of(step) if spec.stateful else None


def steps_text(steps: Sequence[int]) -> str:
    """`3`, `3, 9 and 12` or, if they follow each other, `3 to 12`."""
    if len(steps) > 2 and all(after == before + 1 for before, after in pairwise(steps)):
        return f"{steps[0]} to {steps[-1]}"
    first = ", ".join(map(str, steps[:-1]))
    return f"{first} and {steps[-1]}" if first else str(steps[-1])


def _why_none(spec: PipelineSpec, steps: StepsView) -> str:
    where = f"pipeline {spec.pipeline!r} can't be asked"
    if steps.step == 0:
        return f"{where}: it has not committed a step yet"
    if not spec.checkpoint.location:
        return f"{where}: it saves its state nowhere (checkpoint=None): give it checkpoint=kcontrol.Checkpoint(...)"
    return f"{where} yet: none of its steps is saved; save one with: kcontrol checkpoint {spec.pipeline}"

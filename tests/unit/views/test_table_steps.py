"""As of which steps a pipeline can be asked, and what is said of any other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import CheckpointSpec, LoggedStep, PipelineSpec, Reset
from kcontrol.core.step.resetting import going_back
from kcontrol.errors import NotFoundError
from kcontrol.views.table_steps import askable_steps, chosen_step, steps_text
from tests.unit.core.made import SPEC, boundary, checkpoint

SAVED = replace(SPEC, checkpoint=CheckpointSpec("file:///saved", 60_000, 2, -1))
STATELESS = replace(SPEC, stateful=False)


def log(steps: int, kept: Sequence[int] = ()) -> StepsView:
    view = StepsView("p")
    for step in range(1, steps + 1):
        moved = boundary(step, (5 + step - 1, step - 1), (5 + step, step))
        view = evolve(view, LoggedStep(2 * step, moved))
        if step in kept:
            view = evolve(view, LoggedStep(2 * step + 1, checkpoint(step, 1)))
    return view


@pytest.mark.parametrize(
    ("spec", "view", "asked", "step"),
    [
        (SAVED, log(9, [3, 7]), None, 7),
        (SAVED, log(9, [3, 7]), 3, 3),
        (STATELESS, log(9), None, 9),
        (STATELESS, log(9), 1, 1),
        (STATELESS, log(9, [3]), 5, 5),
    ],
)
def test_a_step_is_chosen(spec: PipelineSpec, view: StepsView, asked: int | None, step: int) -> None:
    found, held = chosen_step(spec, view, asked)
    assert found == step
    assert (held.step if held else None) == (step if spec.stateful else None)


@pytest.mark.parametrize(
    ("spec", "view", "asked", "said"),
    [
        (
            SAVED,
            log(9, [3, 7]),
            8,
            r"as of step 8: its state is kept as of step 3 and 7; `kcontrol checkpoint p`",
        ),
        (
            SAVED,
            log(9),
            None,
            r"can't be asked yet: none of its steps is saved; save one with: kcontrol checkpoint p",
        ),
        (SPEC, log(9), None, r"saves its state nowhere \(checkpoint=None\)"),
        (STATELESS, log(9), 10, r"as of step 10: its log holds step 1 to 9$"),
        (STATELESS, log(0), None, "has not committed a step yet"),
        (SAVED, log(0), 1, "has not committed a step yet"),
    ],
)
def test_what_can_not_be_asked_is_said_with_what_can(
    spec: PipelineSpec, view: StepsView, asked: int | None, said: str
) -> None:
    with pytest.raises(NotFoundError, match=said):
        chosen_step(spec, view, asked)


def test_steps_as_text() -> None:
    assert [steps_text(each) for each in ([3], [3, 4], [3, 4, 5], [3, 5, 9], range(1, 8))] == [
        *("3", "3 and 4", "3 to 5", "3, 5 and 9", "1 to 7")
    ]
    assert list(askable_steps(STATELESS, log(2))) == [1, 2]


def test_what_is_void_can_not_be_asked_for() -> None:
    last, back = (boundary(step, (4 + step, step - 1), (5 + step, step)) for step in (3, 1))
    made = going_back(last, back, Reset(1, "", "me", "r", ()), (1, 1), 0, 9_000)
    view = evolve(log(3), LoggedStep(9, made))
    assert list(askable_steps(STATELESS, view)) == [1]
    with pytest.raises(NotFoundError, match="as of step 3: its log holds step 1"):
        chosen_step(STATELESS, view, 3)

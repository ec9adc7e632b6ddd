"""Recorded steps run again: all that are needed, in order, and only those asked for compared."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import (
    Checkpoint,
    ExchangeSlice,
    LoggedStep,
    PipelineSpec,
    Reset,
    StepBoundary,
    StepResult,
    StepWork,
    Tombstone,
    Watermark,
)
from kcontrol.core.step.differences import Difference
from kcontrol.core.step.resetting import going_back
from kcontrol.errors import NotFoundError
from kcontrol.replay.verify import Beginning, beginning, verify_steps
from tests.unit.core.made import SPEC, boundary, checkpoint

ANOTHER = f"{1:032x}"


class RepeatingEngine:
    """Gives what the log says, except for the input of the steps in `wrong`, and the
    watermark of those in `wrong_output`."""

    def __init__(
        self, wrong: frozenset[int] = frozenset(), wrong_output: frozenset[int] = frozenset()
    ) -> None:
        self.calls: list[tuple[str, int]] = []
        self.watermarks: dict[int, tuple[Watermark, ...]] = {}
        self._wrong = wrong
        self._wrong_output = wrong_output

    def openable(self) -> tuple[int, ...]:
        return ()

    async def open(self, step: int, create: bool, checkpoint: Checkpoint | None = None) -> None:
        assert create == (checkpoint is None)
        self.calls.append(("open", step))

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:
        assert expected is not None
        self.calls.append(("run", work.step))
        inputs = expected.inputs
        if work.step in self._wrong:
            inputs = (replace(inputs[0], digest=ANOTHER), *inputs[1:])
        return StepResult(inputs, expected.outputs, (), work.step in self._wrong_output)

    def make_ready(self, work: StepWork) -> None: ...

    async def run_stage(self, step: int, stage: int, received: Sequence[ExchangeSlice]) -> StepResult:
        raise AssertionError("there is one stage")

    async def finish_step(self, step: int, watermarks: Sequence[Watermark] = ()) -> None:
        self.calls.append(("finish", step))
        self.watermarks[step] = tuple(watermarks)

    def cancel(self) -> None:
        raise AssertionError("nothing to cancel")

    async def close(self) -> None:
        raise AssertionError("its owner closes it")


NOTHING = Beginning(0)
LOG = [boundary(step, (4 + step, step - 1), (5 + step, step)) for step in range(1, 6)]


def run(
    engine: RepeatingEngine,
    log: list[StepBoundary],
    first: int,
    last: int,
    begin: Beginning = NOTHING,
    spec: PipelineSpec = SPEC,
) -> dict[int, list[Difference]]:
    async def body() -> dict[int, list[Difference]]:
        return {step: found async for step, found in verify_steps(spec, 0, log, engine, first, last, begin)}

    return asyncio.run(body())


def test_steps_before_the_range_are_run_and_their_output_is_not_compared() -> None:
    engine = RepeatingEngine(wrong_output=frozenset({1, 3}))
    found = run(engine, LOG, 2, 4)
    assert list(found) == [2, 3, 4]
    assert [step for step, differences in found.items() if differences] == [3]
    assert engine.calls == [
        ("open", 0),
        *((what, step) for step in (1, 2, 3, 4) for what in ("run", "finish")),
    ]
    [difference] = found[3]
    assert (
        str(difference)
        == "step 3: watermark differs: the log has that it did not move, this run has that it moved"
    )


def test_each_step_ends_with_the_watermarks_that_nodes_went_by() -> None:
    """Or windows would close in other steps than they did."""
    shared = (Watermark("q", (5,), 5),)
    engine = RepeatingEngine()
    run(engine, [replace(LOG[0], watermarks=shared), LOG[1]], 1, 2)
    assert engine.watermarks == {1: shared, 2: ()}


def test_with_state_nothing_is_run_on_top_of_other_input() -> None:
    engine = RepeatingEngine(wrong=frozenset({2}))
    found = run(engine, LOG, 3, 4)
    assert list(found) == [2], "named, though it lies before the range"
    [difference] = found[2]
    assert str(difference).startswith(
        "step 2: input 'in' partition 0 differs: the log has 1 records with digest 000"
    )
    assert engine.calls[-1] == ("finish", 2)


def test_without_state_every_step_stands_by_itself() -> None:
    engine = RepeatingEngine(wrong=frozenset({2}))
    found = run(engine, LOG, 1, 4, spec=replace(SPEC, stateful=False))
    assert [step for step, differences in found.items() if differences] == [2]
    assert list(found) == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("log", "last", "missing"), [(LOG[1:], 4, 1), (LOG[:2] + LOG[3:], 5, 3), (LOG, 6, 6)]
)
def test_a_step_that_is_not_in_the_log_is_named_before_anything_runs(
    log: list[StepBoundary], last: int, missing: int
) -> None:
    engine = RepeatingEngine()
    with pytest.raises(
        NotFoundError, match=f"step {missing} is not in the log, so steps up to {last} can't be run again"
    ):
        run(engine, log, 1, last)
    assert engine.calls == []


def test_a_run_begins_with_a_checkpoint_and_needs_no_step_before_it() -> None:
    engine = RepeatingEngine()
    assert run(engine, LOG[2:], 4, 5, Beginning(2, checkpoint(2, 1))) == {4: [], 5: []}
    assert engine.calls == [("open", 2), *((what, step) for step in (3, 4, 5) for what in ("run", "finish"))]


def view(dropped: int, saved: Sequence[int]) -> StepsView:
    """Of ten steps, the oldest `dropped` of which are gone, with checkpoints."""
    log = [boundary(step, (4 + step, step - 1), (5 + step, step)) for step in range(1, 11)]
    found = StepsView("p")
    for record in (
        *log,
        *(checkpoint(step, 1) for step in saved),
        *(Tombstone(f"step/{one + 1}") for one in range(dropped)),
    ):
        found = evolve(found, LoggedStep(0, record))
    return found


STATELESS = replace(SPEC, stateful=False)


@pytest.mark.parametrize(
    ("spec", "dropped", "saved", "unreadable", "first", "expected"),
    [
        (SPEC, 0, (), (), None, (1, 0, False)),
        (SPEC, 0, (3, 7), (), None, (1, 0, False)),
        (SPEC, 0, (3, 7), (), 8, (8, 7, True)),
        (SPEC, 0, (3, 7), (), 7, (7, 3, True)),
        (SPEC, 0, (3, 7), (), 3, (3, 0, False)),
        (SPEC, 0, (3, 7), (7,), 8, (8, 3, True)),
        (SPEC, 0, (3, 7), (3, 7), 8, (8, 0, False)),
        (SPEC, 3, (3, 7), (), None, (4, 3, True)),
        (SPEC, 3, (3, 7), (3,), None, (8, 7, True)),
        (SPEC, 3, (3, 7), (), 10, (10, 7, True)),
        (STATELESS, 0, (), (), None, (1, 0, False)),
        (STATELESS, 0, (3,), (), 6, (6, 5, False)),
        (STATELESS, 4, (), (), None, (5, 4, False)),
        (STATELESS, 4, (7,), (7,), 9, (9, 8, False)),
    ],
)
def test_where_a_run_begins(
    spec: PipelineSpec,
    dropped: int,
    saved: tuple[int, ...],
    unreadable: tuple[int, ...],
    first: int | None,
    expected: tuple[int, int, bool],
) -> None:
    found, begin = beginning(spec, view(dropped, saved), first, lambda one: one.step not in unreadable)
    assert (found, begin.step, begin.checkpoint is not None) == expected


@pytest.mark.parametrize(
    ("spec", "unreadable", "first", "said"),
    [
        (
            SPEC,
            (),
            3,
            r"step 3 can't be run again: .* steps 4 to 10, .*those of steps: 3, 7.*: give --from 4 or later",
        ),
        (SPEC, (3,), 7, r"step 7 can't be run again: .* give --from 8 or later"),
        (SPEC, (3, 7), 9, r"step 9 can't be run again: .* access to the files of a checkpoint"),
        (SPEC, (3, 7), None, r"no step can be run again: .* access to the files of a checkpoint"),
        (
            STATELESS,
            (),
            3,
            r"step 3 is no longer in the log, which begins with step 4: give --from 4 or later",
        ),
    ],
)
def test_what_can_not_be_run_again_is_said_with_what_can(
    spec: PipelineSpec, unreadable: tuple[int, ...], first: int | None, said: str
) -> None:
    with pytest.raises(NotFoundError, match=said):
        beginning(spec, view(3, (3, 7)), first, lambda one: one.step not in unreadable)


def test_void_steps_are_not_run_again() -> None:
    made = going_back(LOG[2], LOG[0], Reset(1, "", "me", "r", ()), (1, 1), 0, 9_000)
    again = boundary(5, (6, 1), (9, 4))
    engine = RepeatingEngine()
    assert list(run(engine, [*LOG[:3], made, again], 1, 5)) == [1, 5]
    assert engine.calls == [("open", 0), ("run", 1), ("finish", 1), ("run", 5), ("finish", 5)]

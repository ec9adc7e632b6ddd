"""Recorded steps run again: all that are needed, in order, and only those asked for compared."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from kcontrol.core.model import StepBoundary, StepResult, StepWork
from kcontrol.errors import NotFoundError
from kcontrol.runtime.verify import Mismatch, verify_steps
from tests.unit.core.made import SPEC, boundary

ANOTHER = f"{1:032x}"


class RepeatingEngine:
    """Gives what the log says, except for the input of the steps in `wrong`."""

    def __init__(self, wrong: frozenset[int] = frozenset()) -> None:
        self.calls: list[tuple[str, int]] = []
        self._wrong = wrong

    def openable(self) -> tuple[int, ...]:
        return ()

    async def open(self, step: int, create: bool) -> None:
        assert create == (step == 0)
        self.calls.append(("open", step))

    async def run_step(self, work: StepWork, expected: StepBoundary | None) -> StepResult:
        assert expected is not None
        self.calls.append(("run", work.step))
        inputs = expected.inputs
        if work.step in self._wrong:
            inputs = (replace(inputs[0], digest=ANOTHER), *inputs[1:])
        return StepResult(inputs, expected.outputs, (), False)

    async def finish_step(self, step: int) -> None:
        self.calls.append(("finish", step))

    def cancel(self) -> None:
        raise AssertionError("nothing to cancel")

    async def close(self) -> None:
        raise AssertionError("its owner closes it")


LOG = [boundary(step, (4 + step, step - 1), (5 + step, step)) for step in range(1, 6)]


def run(engine: RepeatingEngine, log: list[StepBoundary], first: int, last: int) -> dict[int, list[Mismatch]]:
    async def body() -> dict[int, list[Mismatch]]:
        return {step: found async for step, found in verify_steps(SPEC, 0, log, engine, first, last)}

    return asyncio.run(body())


def test_steps_before_the_range_are_run_and_not_compared() -> None:
    engine = RepeatingEngine(wrong=frozenset({1, 3}))
    found = run(engine, LOG, 2, 4)
    assert list(found) == [2, 3, 4]
    assert [step for step, differences in found.items() if differences] == [3]
    assert engine.calls == [("open", 0), *((what, step) for step in (1, 2, 3, 4) for what in ("run", "finish"))]
    [difference] = found[3]
    assert str(difference).startswith("step 3: input 'in' partition 0 differs: the log has 1 records with digest 000")


@pytest.mark.parametrize(("log", "last", "missing"), [(LOG[1:], 4, 1), (LOG[:2] + LOG[3:], 5, 3), (LOG, 6, 6)])
def test_a_step_that_is_not_in_the_log_is_named_before_anything_runs(log: list[StepBoundary], last: int, missing: int) -> None:
    engine = RepeatingEngine()
    with pytest.raises(NotFoundError, match=f"step {missing} is not in the log, so steps up to {last} can't be run again"):
        run(engine, log, 1, last)
    assert engine.calls == []

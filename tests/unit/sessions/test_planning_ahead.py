"""Plans of a layout that is asked for: when a process makes them, for what, and when it drops them."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace
from typing import Any

import pytest

from kcontrol.adapters.spark.engine.plans_ahead import PlansAhead
from kcontrol.apps import warm_up
from kcontrol.core.model import Assignment, Checkpoint, PipelineSpec, StepBoundary
from kcontrol.core.step.assignment import Owners
from kcontrol.errors import ConfigurationError
from tests.support.patience import HANG_S
from tests.unit.core.test_layout_change import folded
from tests.unit.sessions import test_making_ready
from tests.unit.sessions.test_making_ready import MORE, STEP, STEPS, _is_ready, _logs, _looking

world = test_making_ready.world
WITHDRAWN = replace(MORE, request_id="none", nodes=0)


class _Plans:
    """What was planned: number of nodes, owners of shards, step of the checkpoint. together: the most at once."""

    def __init__(self, error: Exception | None = None) -> None:
        self.began: list[tuple[int, Owners, int]] = []
        self.made: list[PlansAhead] = []
        self.ended = self.together = 0
        self.error = error
        self.may_end = threading.Event()
        self.may_end.set()

    def __call__(
        self, _bound: Any, spec: PipelineSpec, checkpoint: Checkpoint, _last: StepBoundary
    ) -> PlansAhead:
        self.began.append((spec.nodes, spec.owners, checkpoint.step))
        self.together = max(self.together, len(self.began) - self.ended)
        assert self.may_end.wait(HANG_S)
        self.ended += 1
        if self.error is not None:
            raise self.error
        self.made.append(PlansAhead())
        return self.made[-1]


def _made_by(logs: Any, request_id: str) -> None:
    """The log of steps says that the change was made."""
    made = Assignment("p", 1, STEP, 3, (0, 1, 2, 0), (), (), 0, 0, request_id, 0, live=True)
    logs.committed = folded(*STEPS, made)


def test_plans_are_there_before_it_says_that_it_is_ready(world: Any) -> None:
    async def scenario() -> None:
        plans = _Plans()
        plans.may_end.clear()
        it, logs = world.process(2, plan=plans), _logs(MORE, saved=world.checkpoint())
        try:
            await _looking(it, logs, lambda: bool(plans.began))
            for _ in range(3):
                assert await it.look(*logs.read)
                assert [said.copied_step for said in await world.said()][-1] == 0
            plans.may_end.set()
            await _looking(it, logs, lambda: it.is_ready)
            assert it.prepared.ahead is plans.made[0]
            assert plans.began == [(3, it.prepared.spec.owners, STEP)]
        finally:
            plans.may_end.set()
            await it.close()

    world.run(scenario)


def test_plans_of_a_request_that_is_withdrawn_or_replaced_are_dropped(world: Any) -> None:
    async def scenario() -> None:
        plans = _Plans()
        it, logs = world.process(2, plan=plans), _logs(MORE, saved=world.checkpoint())
        await _looking(it, logs, lambda: it.is_ready)
        logs.see(WITHDRAWN)
        await it.look(*logs.read)
        assert it.prepared.ahead is None
        logs.see(replace(MORE, request_id="l2"))
        await _looking(it, logs, lambda: it.is_ready)
        assert it.prepared.ahead is plans.made[1]
        logs.see(replace(MORE, request_id="l3"))
        await _looking(it, logs, lambda: it.prepared.request_id == "l3" and it.is_ready)
        assert it.prepared.ahead is plans.made[2]
        await it.close()

    world.run(scenario)


def test_plans_of_the_change_that_was_made_are_kept_for_whoever_goes_on_by_it(world: Any) -> None:
    async def scenario() -> None:
        plans = _Plans()
        it, logs = world.process(2, plan=plans), _logs(MORE, saved=world.checkpoint())
        await _looking(it, logs, lambda: it.is_ready)
        _made_by(logs, MORE.request_id)
        await it.look(*logs.read)
        await it.close()
        assert it.prepared.ahead is plans.made[0]

    world.run(scenario)


def test_plans_of_another_change_than_was_made_are_dropped(world: Any) -> None:
    async def scenario() -> None:
        plans = _Plans()
        it, logs = world.process(2, plan=plans), _logs(MORE, saved=world.checkpoint())
        await _looking(it, logs, lambda: it.is_ready)
        _made_by(logs, "of somebody else")
        await it.look(*logs.read)
        assert it.prepared.ahead is None
        await it.close()

    world.run(scenario)


def test_two_are_never_planned_at_once(world: Any) -> None:
    async def scenario() -> None:
        plans = _Plans()
        plans.may_end.clear()
        it, logs = world.process(0, plan=plans), _logs(MORE, saved=world.checkpoint())
        try:
            await _looking(it, logs, lambda: bool(plans.began))
            logs.see(replace(MORE, request_id="l2", nodes=1))
            for _ in range(20):
                assert await it.look(*logs.read)
                await asyncio.sleep(0)
            assert len(plans.began) == 1, "one goes on"
            plans.may_end.set()
            await _looking(it, logs, lambda: it.is_ready and it.prepared.request_id == "l2")
            assert it.prepared.ahead is plans.made[1]
        finally:
            plans.may_end.set()
            await it.close()
        assert plans.together == 1

    world.run(scenario)


def test_a_node_whose_queries_can_not_be_planned_ahead_is_ready_nevertheless(
    world: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        it = world.process(2, plan=_Plans(ConfigurationError("no such plan")))
        last = await world.until(_is_ready, it, _logs(MORE, saved=world.checkpoint()))
        assert (last.error, it.prepared.ahead) == ("", None)

    world.run(scenario)
    assert "node 2 has no plans for the new layout: no such plan" in caplog.text


def test_plans_are_made_however_much_state_there_is(world: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """They need none of it."""
    monkeypatch.setattr(warm_up, "MAX_BYTES", 0)

    async def scenario() -> None:
        plans = _Plans()
        it = world.process(2, plan=plans)
        await world.until(_is_ready, it, _logs(MORE, saved=world.checkpoint()))
        assert [step for *_, step in plans.began] == [STEP]

    world.run(scenario)

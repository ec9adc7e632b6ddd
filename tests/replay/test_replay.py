"""Every kind of query runs, is cancelled at a random moment, rolled back and replayed, and
gives the same to the last bit; and so it does the other way, if it was planned once."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from kcontrol.adapters.spark.query.once import ONCE
from kcontrol.core.model import FailureKind, SavedPart, StepBoundary
from kcontrol.definition.parts import TaskLayout
from kcontrol.errors import StepFailedError
from tests.integration.spark.conftest import RunScenario
from tests.integration.spark.stepper import Stepper
from tests.replay import queries
from tests.support.dice import seeded
from tests.unit.core.made import checkpoint

STEPS = 5
JSON = {"value_format": "json"}
KEYED = {"value_format": "json", "key": "name"}
EVENTS: dict[str, Any] = {"events": (2, {})}
STRICT = {
    "value_format": "json",
    "schema": queries.SCHEMA,
    "on_bad_record": "dead_letter",
    "dead_letter_topic": 2,
}
SPREAD = TaskLayout(max_tasks=2, records_per_task=4, shuffle_partitions=2)
"""Cuts even these small steps into several tasks."""

HEAVY = pytest.mark.heavy
CASES = [
    pytest.param(
        [queries.stateless],
        ["events"],
        {"out": (2, JSON)},
        marks=HEAVY,
        id="stateless, rows stay in their tasks",
    ),
    pytest.param([queries.stateless], ["events"], {"out": (3, KEYED)}, id="stateless, keyed"),
    pytest.param([queries.update], ["events"], {"out": (3, KEYED)}, id="aggregate, update"),
    pytest.param([queries.append], ["events"], {"out": (2, JSON)}, id="aggregate, append with a watermark"),
    pytest.param(
        [queries.union], ["events", "others"], {"out": (2, KEYED)}, marks=HEAVY, id="union of two inputs"
    ),
    pytest.param(
        [queries.join], ["events", "others"], {"out": (2, JSON)}, marks=HEAVY, id="join of two inputs"
    ),
    pytest.param(
        [queries.outer_join], ["events", "others"], {"out": (2, JSON)}, id="stream-stream outer join"
    ),
    pytest.param([queries.distinct], ["events"], {"out": (1, JSON)}, id="dropDuplicates"),
    pytest.param([queries.stamped], ["events"], {"out": (2, JSON)}, marks=HEAVY, id="current_timestamp"),
    pytest.param(
        [queries.timers], ["events"], {"out": (2, JSON)}, id="transformWithState, processing-time timers"
    ),
    pytest.param(
        [queries.stateless, queries.counted],
        ["events"],
        {"out": (2, JSON), "more": (2, KEYED)},
        id="two queries",
    ),
    pytest.param(
        [queries.append, queries.counted, queries.copied],
        ["events"],
        {"out": (2, JSON), "more": (2, KEYED), "copies": (2, JSON)},
        id="a stream, a kept plan and one without state",
    ),
    pytest.param([queries.doubled], ["events"], {"out": (2, JSON)}, id="an input read twice"),
    pytest.param([queries.ranking], ["events"], {"out": (2, KEYED)}, id="aggregate, complete"),
    pytest.param(
        [queries.nothing], ["events"], {"out": (1, JSON)}, id="a plan that Spark proves to be empty"
    ),
    pytest.param(
        [queries.routed],
        ["events"],
        {"out": (2, JSON), "more": (3, JSON)},
        marks=HEAVY,
        id="one frame, two outputs",
    ),
]
"""Heavy are those whose like is replayed by a test below, in `test_fewer_tasks` or `test_once_with_state`, or as part of
another of these."""


@pytest.mark.parametrize(("functions", "inputs", "outputs"), CASES)
def test_replays_to_the_same_digests(
    run_scenario: RunScenario, functions: list[Callable[..., Any]], inputs: list[str], outputs: dict[str, Any]
) -> None:
    dice = seeded()

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step in range(1, STEPS + 1):
            feed(stepper, inputs, step, dice)
            if step == 3:
                await cancelled_attempt(stepper, step, dice)
            await step_and_its_empty_ones(stepper)
        last = len(stepper.log)
        check_committed(stepper)
        await stepper.new_incarnation()
        assert last in stepper.engine.openable() or stepper.bound.planning == ONCE, "then it can open any"
        await replay_from(stepper, 2)
        await replay_from(stepper, 0)
        if stepper.bound.planning.startswith(ONCE):
            await stepper.plan(False)
            await replay_from(stepper, 0)
        feed(stepper, inputs, STEPS + 1, dice)
        await step_and_its_empty_ones(stepper)
        check_committed(stepper)
        assert not stepper.failures

    spec_inputs = {name: (2, {}) for name in inputs}
    run_scenario(functions, scenario, spec_inputs, outputs, layout=SPREAD)


@pytest.mark.parametrize(
    ("query", "inputs", "outputs"),
    [
        pytest.param(
            *(queries.stateless, EVENTS, {"out": (2, JSON)}),
            marks=pytest.mark.heavy,
            id="rows stay in their tasks",
        ),
        pytest.param(queries.stateless, EVENTS, {"out": (3, KEYED)}, id="keyed"),
        pytest.param(
            queries.routed, EVENTS, {"out": (2, JSON), "more": (3, JSON)}, id="one frame, two outputs"
        ),
        pytest.param(queries.both, EVENTS | {"others": (2, {})}, {"out": (2, JSON)}, id="two inputs"),
        pytest.param(queries.in_pandas, EVENTS, {"out": (3, KEYED)}, id="a pandas UDF"),
        pytest.param(queries.parsed, {"events": (2, STRICT)}, {"out": (2, JSON)}, id="dead letters"),
    ],
)
def test_planned_once_and_for_each_step_give_the_same(
    run_scenario: RunScenario,
    tmp_path: Path,
    query: Callable[..., Any],
    inputs: dict[str, Any],
    outputs: dict[str, Any],
) -> None:
    """Each way runs the other's steps again, and goes on after them on the same disk. What either saves is
    needed by neither."""
    dice = seeded()

    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for once in (False, True):
            await stepper.plan(once)
            assert (stepper.bound.planning == ONCE) is once
            last = len(stepper.log)
            await replay_from(stepper, 0)
            for step in range(last + 1, last + 3):
                feed(stepper, list(inputs), step, dice)
                if inputs["events"][1]:
                    stepper.produce("events", [(b"bad", f"{step}".encode())], partition=step % 2)
                await stepper.step()
            await stepper.engine.pin(last + 2)
            saved = await stepper.engine.save(last + 2, 1, tmp_path.as_uri())
            part = SavedPart(0, stepper.incarnation, saved.manifest, saved.files, saved.size_bytes)
            made = replace(checkpoint(last + 2, nodes=1), location=tmp_path.as_uri(), parts=(part,))
            assert await stepper.engine.restorable([made]) == ()
        await stepper.plan(False)
        await replay_from(stepper, 0)
        check_committed(stepper)
        assert not stepper.failures

    run_scenario([query], scenario, inputs, outputs, layout=SPREAD)


def test_every_form_of_now_is_the_steps_time(run_scenario: RunScenario) -> None:
    async def scenario(stepper: Stepper) -> None:
        await stepper.engine.open(0, create=True)
        for step in (1, 2):
            stepper.produce("events", [(None, json.dumps({"name": "a", "at": step, "n": 1.0}).encode())], 0)
            await stepper.step()
        told = {row.step: json.loads(row.value) for row in stepper.committed("out")}
        assert sorted(told) == [1, 2]
        for step, row in told.items():
            now_ms = stepper.log[step].now_ms
            now = datetime.fromtimestamp(now_ms / 1_000, UTC)
            assert (row.pop("name"), row.pop("seconds"), row.pop("zone")) == ("a", now_ms // 1_000, "UTC")
            assert row.pop("today") == now.date().isoformat()
            moments = {name: datetime.fromisoformat(text).replace(tzinfo=UTC) for name, text in row.items()}
            assert moments == dict.fromkeys(("sql", "word", "local", "column", "expression", "stamp"), now)
        await stepper.engine.open(0, create=True)
        for step in (1, 2):
            await stepper.replay(step)

    run_scenario([queries.clocks], scenario, {"events": (1, {})}, {"out": (1, JSON)}, layout=SPREAD)


def feed(stepper: Stepper, inputs: list[str], step: int, dice: random.Random) -> None:
    """New records in each partition of each input; the event time moves on by 10 s a step."""
    for name in inputs:
        for partition in range(2):
            records = [
                {
                    "name": dice.choice("abcdef"),
                    "at": step * 10 + dice.randrange(10),
                    "n": dice.choice([0.1, 0.7, 2.3, 1e9, -1.0]),
                }
                for _ in range(dice.randrange(1, 8))
            ]
            stepper.produce(name, [(None, json.dumps(record).encode()) for record in records], partition)


async def replay_from(stepper: Stepper, step: int) -> None:
    """All steps after this one."""
    await stepper.engine.open(step, create=step == 0)
    for number in range(step + 1, len(stepper.log) + 1):
        await stepper.replay(number)


async def step_and_its_empty_ones(stepper: Stepper) -> StepBoundary:
    boundary = await stepper.step()
    if boundary.watermark_moved:
        boundary = await stepper.step({})
        assert not boundary.watermark_moved
    return boundary


async def cancelled_attempt(stepper: Stepper, step: int, dice: random.Random) -> None:
    """Begin the step and cancel it at a random moment: while Spark plans, reads, writes, or waits for the
    commit."""
    number = len(stepper.log) + 1
    work = await stepper.begin(number, stepper.division(stepper.ends()))
    running = asyncio.create_task(stepper.engine.run_step(work, None))
    await asyncio.wait([running], timeout=dice.uniform(0, 1.0))
    stepper.engine.cancel()
    failed = (await asyncio.gather(running, return_exceptions=True))[0]
    if isinstance(failed, BaseException):
        assert isinstance(failed, StepFailedError)
        assert failed.kind == FailureKind.LOST
    await stepper.abort()
    await stepper.engine.open(number - 1, create=False)


def check_committed(stepper: Stepper) -> None:
    """What readers see of each partition is what the boundaries say, no more and no less."""
    for output in stepper.spec.outputs:
        told = {
            (step, item.partition): (item.from_, item.records)
            for step, boundary in stepper.log.items()
            for item in boundary.outputs
            if item.output == output.name
        }
        seen: dict[tuple[int, int], list[int]] = {}
        for row in stepper.committed(output.name):
            seen.setdefault((row.step, row.partition), []).append(row.offset)
        assert {key: (min(offsets), len(offsets)) for key, offsets in seen.items()} == told

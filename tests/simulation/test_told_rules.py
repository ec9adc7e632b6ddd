"""What holds between a step's being told to the nodes and its being made. Schedules that lead there: a random one goes on
until nodes were told of a step, then something happens to one process, and then nothing more. With a rule switched off one of
them must break an invariant."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from random import Random
from unittest.mock import patch

import pytest

from kcontrol.core.coordinator import between_steps, told_step
from kcontrol.core.coordinator import decide as coordinator
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.table import Cause
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.model import Command
from kcontrol.core.node import commands as node_commands
from kcontrol.core.node.table import NodeStage
from kcontrol.core.node.turn import NodeTurn
from tests.simulation.breaking import Patches
from tests.simulation.faults import Fault
from tests.simulation.fleet import Fleet
from tests.simulation.invariants import Violation
from tests.simulation.schedule import Schedule
from tests.simulation.specs import simulated_spec
from tests.simulation.told_faults import (
    commit_fails_once_the_next_step_was_told,
    coordinator_killed_once_it_has_told_the_next_step,
    input_comes_while_a_step_is_made,
    node_restarted_once_the_next_step_was_told,
    takeover_once_the_next_step_was_told,
    told_of_any_step,
)
from tests.simulation.witness import ONE_ATTEMPT

SEEDS = 400
NODES = 2
_UNTIL_TOLD, _AFTER = 6_000, 1_500
"""Turns of the schedule, at most and at least."""


def led_there(seed: int, fault: Fault) -> bool:
    """Whether the fault could happen once a step was told. Raises Violation."""
    spec = simulated_spec(NODES, 0, False, 0, True, False, 1, False)
    counts: Counter[str] = Counter()
    schedule = Schedule(Fleet(spec, Random(seed), 1), counts, epochs=True)
    with told_of_any_step():
        return _goes_there(schedule, fault, counts)


def _goes_there(schedule: Schedule, fault: Fault, counts: Counter[str]) -> bool:
    fleet = schedule.fleet
    for _ in range(_UNTIL_TOLD):
        schedule.nothing_wrong()
        input_comes_while_a_step_is_made(fleet, counts)
        if fault(fleet, counts):
            break
    else:
        return False
    for _ in range(_AFTER):
        schedule.nothing_wrong()
    return True


def _what_was_told_in_vain_does_not_cost_its_epoch() -> Patches:
    """The next step is made under it as if nobody had been told."""
    kept = tuple(each for each in between_steps.LOOK if getattr(each, "cause", None) is not Cause.UNTAKEN)

    def rest(turn: Turn) -> None:
        if turn.state.current.told is not None and not told_step.stands(turn.state):
            turn.state.current = replace(turn.state.current, told=None)
        right(turn)

    right = between_steps.rest
    return (patch.object(between_steps, "LOOK", kept), patch.object(coordinator, "rest", rest))


def _what_was_told_is_made_whoever_is_there() -> Patches:
    """Although a node is another life by now, or the definition another one."""

    def stands(state: CoordinatorState) -> bool:
        told = state.current.told
        return told is not None and state.transaction.followed and told.plan.step == state.steps.step + 1

    return (patch.object(told_step, "stands", stands),)


def _an_engine_that_is_ready_for_one_step_is_given_another() -> Patches:
    right = node_commands._step

    def step(turn: NodeTurn, command: Command) -> None:
        if turn.state.at is NodeStage.IDLE:
            turn.state.ready_for = None
        right(turn, command)

    return (patch.object(node_commands, "_step", step),)


RULES: tuple[tuple[Callable[[], Patches], Fault, str], ...] = (
    (
        _what_was_told_in_vain_does_not_cost_its_epoch,
        node_restarted_once_the_next_step_was_told,
        ONE_ATTEMPT,
    ),
    (
        _an_engine_that_is_ready_for_one_step_is_given_another,
        takeover_once_the_next_step_was_told,
        "what was begun is run, or taken back",
    ),
)


@pytest.mark.parametrize(
    ("broken", "fault", "invariant"), RULES, ids=lambda each: getattr(each, "__name__", "").strip("_")
)
def test_without_the_rule_an_invariant_breaks(
    broken: Callable[[], Patches], fault: Fault, invariant: str
) -> None:
    found: set[str] = set()
    with ExitStack() as stack:
        for one in broken():
            stack.enter_context(one)
        for seed in range(SEEDS):
            try:
                led_there(seed, fault)
            except Violation as violation:
                if violation.name == invariant:
                    print(f"seed {seed}")  # noqa: T201
                    return
                found.add(violation.name)
    pytest.fail(f"{SEEDS} schedules did not find '{invariant}', only {found or 'nothing'}")


@pytest.mark.parametrize(
    "fault",
    [
        node_restarted_once_the_next_step_was_told,
        takeover_once_the_next_step_was_told,
        coordinator_killed_once_it_has_told_the_next_step,
        commit_fails_once_the_next_step_was_told,
    ],
)
def test_whatever_happens_then_every_invariant_holds(fault: Fault) -> None:
    assert sum(led_there(seed, fault) for seed in range(40)) >= 20

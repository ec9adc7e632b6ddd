"""Rules that hold where Kafka tells the next epoch with the answer to a commit (KIP-890), switched off: the simulator
must then find what each is there for."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import pytest

from kcontrol.core.coordinator import decide as coordinator
from kcontrol.core.coordinator.standing import Readiness, Standing
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.table import State
from kcontrol.core.events import RunStep
from kcontrol.core.log import steps_view
from kcontrol.core.model import Checkpoint, Command, LimitsSpec, LoggedStep
from kcontrol.core.node import commands as node_commands
from kcontrol.core.node.table import NodeStage
from kcontrol.core.node.turn import NodeTurn
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.test_rules import _PROGRESS, _with_standing


def _any_epoch_that_is_told_is_begun_with() -> Patches:
    """Also that of a commit whose boundary nobody takes in."""
    right = coordinator._take_in

    def take_in(state: CoordinatorState, logged: LoggedStep) -> bool:
        return state.at is not State.ASSEMBLING and right(state, logged)

    return (patch.object(coordinator, "_take_in", take_in),)


def _a_boundary_counts_as_often_as_it_is_told() -> Patches:
    def take_in(state: CoordinatorState, logged: LoggedStep) -> bool:
        before = state.steps.last_offset
        state.steps = steps_view.evolve(state.steps, logged)
        if isinstance(logged.record, Checkpoint):
            coordinator.checkpointing.on_recorded(state, logged.record)
        if state.steps.last_offset == before:
            return False
        state.current, state.trouble = state.current.over(), state.trouble.progressed()
        return True

    return (patch.object(coordinator, "_take_in", take_in),)


def _who_attempts_anything_is_as_good_as_in_place() -> Patches:
    def change(state: CoordinatorState, number: int, limits: LimitsSpec, found: Standing) -> Standing:
        busy = found.place in (Readiness.BUSY, Readiness.DANGLING) and state.transaction.followed
        return replace(found, place=Readiness.FINISHING) if busy else found

    return _with_standing(change)


def _a_node_begins_before_it_has_read_the_boundary() -> Patches:
    def step(turn: NodeTurn, command: Command) -> None:
        state, work = turn.state, command.work
        if state.at not in (NodeStage.IDLE, NodeStage.WRITTEN) or work is None or work.step > state.step + 2:
            return
        node_commands.done(state, command)
        state.work, state.begun_ms = work, state.now_ms
        state.at = NodeStage.WRITING
        turn.effects.append(RunStep(work, None))

    return (patch.object(node_commands, "_step", step),)


RULES = (
    Rule(_any_epoch_that_is_told_is_begun_with, _PROGRESS, 30, epochs=True),
    Rule(_a_boundary_counts_as_often_as_it_is_told, _PROGRESS, epochs=True),
    Rule(
        _who_attempts_anything_is_as_good_as_in_place,
        "nobody beyond the slowest by more than one step",
        350,
        epochs=True,
    ),
    Rule(
        _a_node_begins_before_it_has_read_the_boundary,
        "an attempt is taken back before the next one runs",
        135,
        epochs=True,
    ),
)


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_an_invariant_breaks(rule: Rule) -> None:
    check_breaks(rule)

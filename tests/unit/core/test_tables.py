"""The tables are followed as they are printed: on the events of a row, and with what a state begins with."""

from __future__ import annotations

from typing import get_args

import pytest

from kcontrol.core import events
from kcontrol.core.coordinator import table as coordinator_table
from kcontrol.core.coordinator.between_steps import LOOK
from kcontrol.core.coordinator.look import Guard
from kcontrol.core.coordinator.state import CoordinatorState
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.events import AttemptWritten, InitProducer, ProducerReady, StepCommitted, StepSeen, Tick
from kcontrol.core.machine import Look, next_states, occasions
from kcontrol.core.node import table as node_table
from kcontrol.core.node.state import NodeMachine
from kcontrol.core.node.turn import NodeTurn


def turn(at: coordinator_table.State, occasion: type) -> Turn:
    state = CoordinatorState.initial("p", transactional_id="t", steps_topic="s")
    state.at = at
    return Turn(state, occasion)


def node_turn(at: node_table.NodeStage, occasion: type) -> NodeTurn:
    state = NodeMachine.initial("p", 0)
    state.at = at
    return NodeTurn(state, occasion)


def test_a_row_is_followed_and_asks_for_what_its_state_begins_with() -> None:
    one = turn(coordinator_table.State.COMMITTING, StepCommitted)
    one.go(coordinator_table.Cause.COMMITTED)
    assert one.state.at is coordinator_table.State.FENCING
    assert [type(effect) for effect in one.effects] == [InitProducer]


def test_a_cause_on_an_event_of_no_row_stops_the_machine() -> None:
    with pytest.raises(LookupError, match="step due while ready on Tick"):
        turn(coordinator_table.State.READY, Tick).go(coordinator_table.Cause.DUE)
    with pytest.raises(LookupError, match="attempt written while writing on StepSeen"):
        node_turn(node_table.NodeStage.WRITING, StepSeen).go(node_table.NodeCause.WROTE)


def test_a_pair_of_no_row_stops_the_machine() -> None:
    with pytest.raises(LookupError):
        turn(coordinator_table.State.READY, ProducerReady).go(coordinator_table.Cause.PRODUCER_READY)
    with pytest.raises(LookupError):
        node_turn(node_table.NodeStage.IDLE, AttemptWritten).go(node_table.NodeCause.WROTE)


def test_a_state_begins_with_nothing_else() -> None:
    with pytest.raises(LookupError, match="adding does not begin with None"):
        turn(coordinator_table.State.READY, Look).go(coordinator_table.Cause.DUE)
    with pytest.raises(LookupError, match="replaying does not begin with None"):
        node_turn(node_table.NodeStage.IDLE, Look).go(node_table.NodeCause.BEHIND)


def test_what_answers_is_what_the_shells_answer_with() -> None:
    assert set(coordinator_table.ANSWERS) == set(get_args(events.CoordinatorAnswer))
    engine_answers = {*node_table.ANSWERED_BY.values(), events.EngineFailed}
    assert engine_answers == set(get_args(events.EngineAnswer)) - {events.PartSaved}


def test_rows_of_one_pair_agree_and_their_events_add_up() -> None:
    for rows in (coordinator_table.ROWS, node_table.ROWS):
        found: dict[object, object] = {}
        for befores, _, cause, after in rows:
            for before in befores if isinstance(befores, tuple) else (befores,):
                assert found.setdefault((before, cause), after) is after
    state, cause = coordinator_table.State, coordinator_table.Cause
    both = (
        (state.READING, Tick, cause.DENIED, state.DENIED),
        (state.READING, StepSeen, cause.DENIED, state.DENIED),
    )
    assert next_states(both) == {(state.READING, cause.DENIED): state.DENIED}
    assert occasions(both) == {(state.READING, cause.DENIED): (Tick, StepSeen)}


def test_the_look_has_a_guard_for_each_of_its_rows_and_no_other() -> None:
    rows = {pair for pair, on in coordinator_table.OCCASIONS.items() if Look in on}
    guards = [check for check in LOOK if isinstance(check, Guard) and check.cause is not None]
    assert {(state, guard.cause) for guard in guards for state in guard.states} == rows
    assert {state for check in LOOK for state in check.states} == set(coordinator_table.RESTING)


def test_before_anything_is_decided_it_is_looked_whether_the_log_was_read_whole() -> None:
    first = LOOK[0]
    assert isinstance(first, Guard)
    assert (first.cause, first.states) == (coordinator_table.Cause.LOG_AHEAD, coordinator_table.RESTING)

"""Queries that are planned ahead of their step wait for it at the gate, by name, and are sent away when they are
stopped."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kcontrol.adapters.spark.channel.attempt import AttemptCancelledError, AttemptLedger
from kcontrol.adapters.spark.channel.link import Peer
from kcontrol.adapters.spark.channel.step_gate import StepGate
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError
from tests.unit.spark.works import work

DEADLINE_S = 20.0


class Query:
    """One that is planned for a step, and waits for it in a thread."""

    def __init__(self, gate: StepGate, session: int, name: str, step: int) -> None:
        self.found: list[AttemptLedger | AttemptCancelledError | None] = []
        self._thread = threading.Thread(target=self._wait, args=(gate, session, name, step))
        self._thread.start()

    def _wait(self, gate: StepGate, session: int, name: str, step: int) -> None:
        try:
            self.found.append(gate.released(session, name, step, DEADLINE_S))
        except AttemptCancelledError as error:
            self.found.append(error)

    def ended(self) -> AttemptLedger | AttemptCancelledError | None:
        """What it was given, or what it was sent away with."""
        self._thread.join(DEADLINE_S)
        return self.found[0]


def attempt_at(step: int) -> AttemptLedger:
    return AttemptLedger(step, work(step=step), None, frozenset({"a", "b"}))


def gate_of(queries: int) -> StepGate:
    gate = StepGate()
    gate.begin_session(1, queries, ahead=True)
    return gate


def test_planners_are_answered_before_there_is_a_step() -> None:
    gate = gate_of(1)
    assert gate.next_step(Peer(1, 0), 4, DEADLINE_S) == 5
    gate.release(attempt_at(5))
    assert gate.next_step(Peer(1, 0), 5, DEADLINE_S) == 6


def test_a_planner_that_is_behind_the_step_is_refused() -> None:
    gate = gate_of(1)
    gate.release(attempt_at(7))
    with pytest.raises(StepFailedError, match="at step 4"):
        gate.next_step(Peer(1, 0), 4, DEADLINE_S)


def test_a_query_is_given_the_attempt_at_its_step_and_not_the_one_before() -> None:
    gate = gate_of(1)
    gate.release(attempt_at(4))
    query = Query(gate, 1, "a", 5)
    gate.wait_queries(4, DEADLINE_S)
    assert not query.found
    attempt = attempt_at(5)
    gate.release(attempt)
    assert query.ended() is attempt


def test_a_query_with_two_sources_counts_once() -> None:
    """Both of its planners have asked for the step after 4 while the other query still records it."""
    gate = gate_of(2)
    first = Query(gate, 1, "a", 5)
    for planner in (0, 1):
        gate.next_step(Peer(1, planner), 4, DEADLINE_S)
    with pytest.raises(StepFailedError, match="1 of 2 queries did not reach step 4"):
        gate.wait_queries(4, 0.01)
    second = Query(gate, 1, "b", 5)
    gate.wait_queries(4, DEADLINE_S)
    gate.wait_recorded(4, DEADLINE_S)
    attempt = attempt_at(5)
    gate.release(attempt)
    assert [first.ended(), second.ended()] == [attempt, attempt]


@pytest.mark.parametrize(
    "end",
    [
        pytest.param(lambda gate: gate.dismiss_planned(), id="its queries are stopped"),
        pytest.param(lambda gate: gate.begin_session(2, 1, ahead=True), id="others are opened"),
    ],
)
def test_a_query_that_waits_is_sent_away(end: Callable[[StepGate], None]) -> None:
    gate = gate_of(1)
    waiting = Query(gate, 1, "a", 5)
    gate.wait_queries(4, DEADLINE_S)
    end(gate)
    assert isinstance(waiting.ended(), AttemptCancelledError)
    assert isinstance(Query(gate, 1, "a", 5).ended(), AttemptCancelledError), "so is one that comes late"


def test_one_of_an_older_session_does_not_count_and_gets_no_step() -> None:
    gate = gate_of(1)
    gate.begin_session(2, 1, ahead=True)
    late = Query(gate, 1, "a", 5)
    assert isinstance(late.ended(), AttemptCancelledError)
    with pytest.raises(StepFailedError, match="1 of 1 queries did not reach step 4"):
        gate.wait_queries(4, 0.01)


def test_a_query_that_asks_again_has_waited_since_it_asked_first() -> None:
    gate = gate_of(1)
    assert gate.released(1, "a", 5, 0.01) is None
    since_s = gate.wait_queries(4, DEADLINE_S)
    assert gate.released(1, "a", 5, 0.01) is None
    assert gate.wait_queries(4, DEADLINE_S) == since_s


def test_that_a_call_was_given_up_ends_no_query() -> None:
    """It is stopped when the engine opens again, and what it has recorded counts until then."""
    gate = gate_of(1)
    gate.give_up(StepFailedError(FailureKind.LOST, "cancelled"))
    waiting = Query(gate, 1, "a", 5)
    gate.wait_recorded(4, DEADLINE_S)
    assert not waiting.found
    gate.dismiss_planned()
    assert isinstance(waiting.ended(), AttemptCancelledError)

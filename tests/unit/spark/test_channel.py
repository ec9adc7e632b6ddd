"""The side channel lets in only those who know the secret, and carries errors with their kind."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from kcontrol.adapters.spark.channel import client as clients
from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.client import ChannelAddress, ChannelClient, ChannelServer
from kcontrol.adapters.spark.channel.link import Peer
from kcontrol.adapters.spark.channel.messages import Question
from kcontrol.adapters.spark.channel.settings import ChannelLimits
from kcontrol.adapters.spark.channel.step_gate import StepGate
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError
from tests.support.patience import HANG_S
from tests.unit.spark.works import work

DEADLINE_S = HANG_S
PATIENT = ChannelLimits(handshake_s=HANG_S)


@dataclass(frozen=True, slots=True)
class Said:
    text: str
    session: int


@dataclass(frozen=True, slots=True)
class Echo(Question[Said]):
    text: str


@dataclass(frozen=True, slots=True)
class Fail(Question[Said]):
    """It has no fields."""


@dataclass(frozen=True, slots=True)
class Unheard(Question[Said]):
    """The driver does not know it."""


def answer(peer: Peer, question: Question[Any]) -> Said:
    match question:
        case Echo(text):
            return Said(text, peer.session)
        case _:
            raise StepFailedError(FailureKind.FENCED, "somebody newer")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChannelServer]:
    """It and its clients have as long as a test has to prove themselves."""
    monkeypatch.setattr(clients, "ChannelLimits", lambda: PATIENT)
    server = ChannelServer("127.0.0.1", answer, PATIENT, questions=(Echo, Fail))
    yield server
    server.close()


def test_answers_and_failures_come_back(server: ChannelServer) -> None:
    client = ChannelClient(server.address)
    assert client.ask(Echo("ä")).text == "ä"
    with pytest.raises(StepFailedError, match="somebody newer") as failed:
        client.ask(Fail())
    assert failed.value.kind == FailureKind.FENCED
    assert client.ask(Echo("still there")).text == "still there"


def test_what_is_no_question_ends_the_connection_and_no_other(server: ChannelServer) -> None:
    with pytest.raises(StepFailedError, match=r"channel at .* failed"):
        ChannelClient(server.address).ask(Unheard())
    assert ChannelClient(server.address).ask(Echo("x")).text == "x"


def test_a_wrong_secret_is_turned_away(server: ChannelServer) -> None:
    wrong = ChannelAddress(server.address.host, server.address.port, "0" * 64)
    with pytest.raises(StepFailedError, match="can't reach"):
        ChannelClient(wrong)
    assert ChannelClient(server.address).ask(Echo("x")).text == "x"


def test_a_stranger_learns_nothing_and_blocks_nobody(server: ChannelServer) -> None:
    with socket.create_connection((server.address.host, server.address.port), timeout=DEADLINE_S) as stranger:
        assert server.address.secret.encode() not in stranger.recv(200)
        assert ChannelClient(server.address).ask(Echo("x")).text == "x"


def test_the_secret_is_not_shown(server: ChannelServer) -> None:
    assert server.address.secret not in repr(server.address)


def test_connections_know_during_which_session_they_were_made(server: ChannelServer) -> None:
    old = ChannelClient(server.address)
    before = old.ask(Echo("")).session
    server.begin_session()
    assert old.ask(Echo("")).session == before
    assert ChannelClient(server.address).ask(Echo("")).session == before + 1


def test_a_planner_waits_until_its_step_is_released() -> None:
    gate = StepGate()
    gate.begin_session(1, queries=1)
    got: list[int | None] = []
    planner = threading.Thread(target=lambda: got.append(gate.next_step(Peer(1, 0), 4, DEADLINE_S)))
    planner.start()
    gate.wait_queries(4, DEADLINE_S)
    gate.release(AttemptLedger(1, work(step=5), None, frozenset({"q"})))
    planner.join(DEADLINE_S)
    assert got == [5]


def test_a_planner_never_gets_a_step_that_is_not_the_next() -> None:
    gate = StepGate()
    gate.begin_session(1, queries=1)
    gate.release(AttemptLedger(1, work(step=7), None, frozenset({"q"})))
    with pytest.raises(StepFailedError, match="at step 4"):
        gate.next_step(Peer(1, 0), 4, DEADLINE_S)
    assert gate.next_step(Peer(1, 0), 7, 0.01) is None


def test_planners_of_a_stopped_query_are_sent_away_and_do_not_count() -> None:
    gate = StepGate()
    gate.begin_session(1, queries=1)
    failures: list[StepFailedError] = []

    def old_planner() -> None:
        try:
            gate.next_step(Peer(1, 0), 4, DEADLINE_S)
        except StepFailedError as error:
            failures.append(error)

    planner = threading.Thread(target=old_planner)
    planner.start()
    gate.wait_queries(4, DEADLINE_S)
    gate.begin_session(2, queries=1)
    planner.join(DEADLINE_S)
    assert len(failures) == 1
    with pytest.raises(StepFailedError, match="being stopped"):
        gate.next_step(Peer(1, 0), 4, DEADLINE_S)
    with pytest.raises(StepFailedError, match="1 of 1 queries did not reach step 4"):
        gate.wait_queries(4, 0.01)


def test_who_is_dismissed_is_sent_away_and_the_others_wait_on() -> None:
    gate = StepGate()
    gate.begin_session(1, queries=2)
    dismissed, other = Peer(1, -1), Peer(1, -2)
    got: list[int | StepFailedError | None] = []

    def wait(peer: Peer) -> None:
        try:
            got.append(gate.next_step(peer, 4, DEADLINE_S))
        except StepFailedError as error:
            got.append(error)

    waiting = [threading.Thread(target=wait, args=(peer,)) for peer in (dismissed, other)]
    for each in waiting:
        each.start()
    gate.wait_queries(4, DEADLINE_S)
    gate.dismiss(dismissed)
    waiting[0].join(DEADLINE_S)
    assert [str(each) for each in got] == ["this query is being stopped"]
    with pytest.raises(StepFailedError, match="1 of 2 queries did not reach step 4"):
        gate.wait_queries(4, 0.01)
    gate.release(AttemptLedger(1, work(step=5), None, frozenset({"q"})))
    waiting[1].join(DEADLINE_S)
    assert got[1:] == [5]
    with pytest.raises(StepFailedError, match="being stopped"):
        gate.next_step(dismissed, 4, DEADLINE_S)
    gate.begin_session(1, queries=1)
    assert gate.next_step(dismissed, 4, 0.01) is None, "it is another query's name now"


def test_what_is_recorded_is_waited_for_although_somebody_gave_up_but_not_once_a_query_has_ended() -> None:
    gate = StepGate()
    gate.begin_session(1, queries=1)
    gate.give_up(StepFailedError(FailureKind.LOST, "cancelled"))
    planner = threading.Thread(target=lambda: gate.next_step(Peer(1, 0), 4, 0.01))
    planner.start()
    gate.wait_recorded(4, DEADLINE_S)
    planner.join(DEADLINE_S)
    assert not gate.has_ended
    gate.query_ended(1, StepFailedError(FailureKind.QUERY, "boom"))
    assert gate.has_ended
    gate.wait_recorded(5, DEADLINE_S)  # Returns: nobody will ever record it.
    gate.begin_session(2, queries=1)
    assert not gate.has_ended


def test_a_query_that_ends_is_told_to_who_waits_and_to_the_attempt() -> None:
    gate = StepGate()
    gate.begin_session(3, queries=2)
    attempt = AttemptLedger(1, work(), None, frozenset({"q"}))
    gate.release(attempt)
    assert not gate.query_ended(2, StepFailedError(FailureKind.QUERY, "of an older session"))
    assert attempt.failure is None
    assert gate.query_ended(3, StepFailedError(FailureKind.QUERY, "boom"))
    assert attempt.failure is not None
    with pytest.raises(StepFailedError, match="boom"):
        gate.wait_queries(0, DEADLINE_S)
    with pytest.raises(StepFailedError, match="boom"):
        gate.release(AttemptLedger(2, work(), None, frozenset({"q"})))

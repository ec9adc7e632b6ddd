"""What becomes of a change of the layout that was asked for, as far as the logs say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.model import (
    Claim,
    ExchangeSpec,
    LayoutPhase,
    LayoutRequest,
    LayoutStatus,
    Logged,
    LoggedStep,
    NodeJoin,
    NodePhase,
    NodeState,
    PipelinePhase,
    Status,
)
from kcontrol.errors import ConfigurationError
from kcontrol.requests.layout_requests import layout_request, live_change
from kcontrol.requests.outcomes import Outcome, RequestState, outcome_of
from kcontrol.requests.record import NotNowError
from kcontrol.views.layout_facts import layout_of
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.signs_of_life import SignsOfLife
from tests.unit.core.made import boundary
from tests.unit.core.test_layout_change import FOUR, given

ASKED = LayoutRequest("p", "l1", 1, 3, 60_000)


def world(*records: object, made: str = "") -> PipelineProjection:
    """Of a pipeline of two nodes and one step. made: by which request its layout was changed then."""
    found = PipelineProjection("p")
    found.signs = SignsOfLife(lambda: 5)  # Time stands still.
    found.see_control(Logged(offset, 0, each) for offset, each in enumerate((FOUR, *records)))  # type: ignore[arg-type]
    steps = [boundary(1, nodes=2), *([replace(given(nodes=3), request_id=made, live=True)] if made else [])]
    found.see_steps(LoggedStep(offset, each) for offset, each in enumerate(steps))
    return found


def led(found: PipelineProjection) -> int:
    """Somebody looks after it, now."""
    now_ms = 1_000_000
    found.see_control(
        [Logged(90, now_ms, Claim("p", "u", "host-a", 1)), Logged(91, now_ms, said("", LayoutPhase.DONE))]
    )
    found.signs.listen()
    return now_ms


def said(request_id: str, phase: LayoutPhase, text: str = "") -> Status:
    told = LayoutStatus(request_id, phase, 3, 1, 2, 0, -1, -1, text)
    return Status("p", 1, PipelinePhase.RUNNING, 1, "", (), 0, "", (), layout=told)


def test_it_is_done_once_its_record_is_in_the_log_whatever_was_said_of_it() -> None:
    found = world(ASKED, said("l1", LayoutPhase.SWITCHING), made="l1")
    assert outcome_of(found, "l1") == Outcome("l1", "layout", RequestState.DONE, step=1)
    change = layout_of(found).change
    assert change is not None
    assert (change.phase, change.nodes) == ("done", 3)
    assert layout_of(found).changes is None


def test_it_waits_for_what_the_coordinator_says_and_fails_with_what_it_says() -> None:
    assert outcome_of(world(ASKED), "l1") == Outcome("l1", "layout", RequestState.PENDING)
    waiting = said("l1", LayoutPhase.WAITING, "for node 2")
    assert outcome_of(world(ASKED, waiting), "l1").waits_for == "for node 2"
    gone = said("l1", LayoutPhase.GIVEN_UP, "not ready")
    failed = Outcome("l1", "layout", RequestState.FAILED, error="not ready")
    assert outcome_of(world(ASKED, gone), "l1") == failed


def test_another_change_or_another_request_takes_its_place() -> None:
    assert "another change" in outcome_of(world(ASKED, made="other"), "l1").error
    outcome = outcome_of(world(ASKED, replace(ASKED, request_id="l2")), "l1")
    assert (outcome.state, outcome.superseded_by) == (RequestState.SUPERSEDED, "l2")


def test_what_one_host_alone_can_read_is_not_brought_to_another() -> None:
    joins = [NodeJoin("p", node, f"n{node}", f"host-{node}", 1) for node in range(2)]
    assert live_change(world(), 3, None).change.nodes == 3
    with pytest.raises(ConfigurationError, match="on host-0, host-1: shards can't be brought"):
        live_change(world(*joins), 3, None)


def test_a_node_that_says_nothing_is_not_left_out_before_its_number_is_somewhere_else() -> None:
    joins = [NodeJoin("p", node, f"n{node}", "host", 1) for node in range(2)]
    dead, alive = (
        NodeState("p", node, 1 + node, NodePhase.OPEN, 1, None, 1, -1, -1, (), "", 1, 0) for node in (1, 0)
    )
    found = world(*joins, dead)
    now_ms = led(found)
    found.see_control([Logged(92, now_ms, alive)])
    with pytest.raises(
        NotNowError, match=r"node 1 of pipeline 'p' says nothing.*kcontrol node FILE --node 1"
    ):
        layout_request(found, None, 1, (), 60_000, now_ms)
    found.see_control([Logged(93, now_ms, replace(dead, beat=2))])
    assert layout_request(found, None, 1, (), 60_000, now_ms)


def test_nothing_is_asked_for_before_the_nodes_go_on_by_the_last_change() -> None:
    with pytest.raises(NotNowError, match="changed just now"):
        live_change(world(made="l1"), 2, None)


def test_without_a_look_into_the_checkpoint_two_exchanges_in_a_row_do_not_go_to_one_node() -> None:
    found = world()
    now_ms = led(found)
    assert layout_request(found, 1, None, (), 60_000, now_ms)
    twice = (*FOUR.exchanges, ExchangeSpec("y", "exchange.y", "T8", ("k",), "y.send", 1))
    found.see_control([Logged(92, now_ms, replace(FOUR, exchanges=twice))])
    with pytest.raises(ConfigurationError, match="more than once in a row"):
        layout_request(found, 1, None, (), 60_000, now_ms)
    assert layout_request(found, 3, None, (), 60_000, now_ms)

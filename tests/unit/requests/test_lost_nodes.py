"""Which nodes are lost, what has to come about so that they are left out, and when that was asked for or done before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.model import (
    Assignment,
    Claim,
    LayoutPhase,
    LayoutRequest,
    Logged,
    LoggedStep,
    NodeJoin,
    NodePhase,
    NodeState,
)
from kcontrol.requests.lost_nodes import (
    LostNode,
    is_uncertain,
    left_out_already,
    lost_node,
    refuse_gone_with_it,
)
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.signs_of_life import SignsOfLife
from tests.unit.core.made import boundary, checkpoint
from tests.unit.core.test_layout_change import FOUR, given
from tests.unit.requests.test_layout_requests import said

NODES = 3
NOW_MS = 1_000_000
TIMEOUT_MS = 60_000
SPEC = replace(FOUR, nodes=NODES, inputs=(replace(FOUR.inputs[0], node_of=(0, 1, 2, 0)),))
OLD_MS = NOW_MS - SPEC.limits.heartbeat_timeout_ms - 1


class _Seen:
    """Both logs of a pipeline whose nodes were heard of at these times. hosts: by node."""

    def __init__(self, heard_ms: tuple[int, ...], hosts: tuple[str, ...] = ("a", "b", "c")) -> None:
        self.projection = PipelineProjection("p")
        self.monotonic_ms = 5
        self.projection.signs = SignsOfLife(lambda: self.monotonic_ms)
        self._control = self._steps = 0
        self.control(SPEC, Claim("p", "u", "host", 1))
        for node, (at_ms, host) in enumerate(zip(heard_ms, hosts, strict=True)):
            self.joins(node, host, at_ms)
        self.steps(boundary(1, nodes=NODES), checkpoint(1, NODES), boundary(2, (6, 1), (7, 2), nodes=NODES))
        self.projection.signs.listen()

    def control(self, *records: object, at_ms: int = NOW_MS) -> None:
        for record in records:
            self.projection.see_control([Logged(self._control, at_ms, record)])  # type: ignore[arg-type]
            self._control += 1

    def steps(self, *records: object) -> None:
        for record in records:
            self.projection.see_steps([LoggedStep(self._steps, record)])  # type: ignore[arg-type]
            self._steps += 1

    def joins(self, node: int, host: str, at_ms: int = NOW_MS) -> None:
        life = self._control
        state = NodeState("p", node, life, NodePhase.OPEN, 1, None, 1, -1, -1, (), "", 1, 0)
        self.control(NodeJoin("p", node, f"n{life}", host, 40 + node), state, at_ms=at_ms)

    def asks(self, node: int, number: int = 1, at_ms: int = NOW_MS) -> LayoutRequest:
        found = lost_node(self.projection, node, NOW_MS)
        assert found is not None
        request = found.asks("p", number, TIMEOUT_MS)
        self.control(request, at_ms=at_ms)
        return request

    def made(self, request: LayoutRequest, number: int = 1) -> Assignment:
        owners = tuple(shard % 2 for shard in range(6))
        made = replace(given(number, step=2, owners=owners), request_id=request.request_id, live=True)
        self.steps(made)
        return made

    def lost(self, node: int) -> LostNode | None:
        return lost_node(self.projection, node, NOW_MS)

    def done(self, node: int, now_ms: int = NOW_MS) -> Assignment | None:
        return left_out_already(self.projection, node, now_ms)


def test_the_last_node_is_started_anywhere_and_left_out_by_its_number() -> None:
    seen = _Seen((NOW_MS, NOW_MS, OLD_MS))
    found = seen.lost(2)
    assert found == LostNode(2, "process 42 on c", "c", NODES, place="", begins_at=1, again=1)
    assert not found.stays
    assert [seen.lost(node) for node in (0, 1, 3)] == [None] * 3
    request = seen.asks(2)
    assert (request.nodes, request.without, request.replaced) == (2, -1, ())


def test_the_number_of_another_one_is_started_where_the_last_one_is_and_stays() -> None:
    found = _Seen((OLD_MS, NOW_MS, NOW_MS)).lost(0)
    assert found is not None
    assert (found.place, found.stays, found.host) == ("c", True, "a")


def test_whoever_asks_again_goes_on_with_what_was_asked_for() -> None:
    seen = _Seen((OLD_MS, NOW_MS, NOW_MS))
    request = seen.asks(0)
    found = seen.lost(0)
    assert found is not None
    assert found.request == request
    seen.joins(0, "c")
    begun = seen.lost(0)
    assert begun is not None
    assert begun.request == request
    seen.control(said(request.request_id, LayoutPhase.GIVEN_UP, "not ready"))
    anew = seen.lost(0)
    assert anew is not None
    assert anew.request is None


@pytest.mark.parametrize(
    "what", ["its host is back", "another change was made", "something else was asked for"]
)
def test_a_node_that_speaks_is_not_lost_for_what_was_asked_for_before(what: str) -> None:
    seen = _Seen((OLD_MS, NOW_MS, NOW_MS))
    request = seen.asks(0)
    seen.joins(0, "a" if what == "its host is back" else "c")
    if what == "another change was made":
        seen.made(replace(request, request_id="other"))
    if what == "something else was asked for":
        seen.control(replace(request, request_id="other"))
    assert seen.lost(0) is None


def test_a_node_that_is_gone_was_left_out_until_another_change_is_asked_for() -> None:
    seen = _Seen((NOW_MS, NOW_MS, OLD_MS))
    request = seen.asks(2)
    assert seen.done(2) is None
    made = seen.made(request)
    assert seen.done(2, NOW_MS + 10 * TIMEOUT_MS) == made
    assert seen.done(1) is None
    seen.control(replace(request, request_id="other", number=2))
    assert seen.done(2) is None


def test_a_number_that_somebody_has_since_can_be_left_out_once_more() -> None:
    seen = _Seen((OLD_MS, NOW_MS, NOW_MS))
    request = seen.asks(0)
    seen.joins(0, "c")
    made = seen.made(request)
    assert seen.done(0, NOW_MS + TIMEOUT_MS - 1) == made
    assert seen.done(0, NOW_MS + TIMEOUT_MS) is None
    seen.monotonic_ms += SPEC.limits.heartbeat_timeout_ms + 1
    assert seen.done(0) is None, "it is lost again"


def test_who_was_not_heard_for_two_beats_may_be_lost() -> None:
    limit_ms = SPEC.limits.heartbeat_timeout_ms
    seen = _Seen((NOW_MS - 2_400, NOW_MS - 2_600, OLD_MS))
    assert [is_uncertain(seen.projection, node, NOW_MS) for node in range(4)] == [False, True, False, False]
    assert not is_uncertain(seen.projection, 1, NOW_MS + limit_ms)


def test_a_pipeline_without_state_has_nothing_to_lose() -> None:
    seen = _Seen((NOW_MS, NOW_MS, OLD_MS))
    seen.control(replace(SPEC, stateful=False))
    found = seen.lost(2)
    assert found is not None
    assert (found.begins_at, found.again) == (0, 0)
    refuse_gone_with_it(seen.projection, found)

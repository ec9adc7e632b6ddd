"""What agents ask of a pipeline that is to have another number of nodes, and what they say that it has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.log.control_view import superseded_keys
from kcontrol.core.model import AgentPlacement, Desired, DesiredMode, LayoutPhase, LayoutRequest, Logged
from kcontrol.errors import ConfigurationError
from kcontrol.requests.outcomes import RequestState, outcome_of
from kcontrol.requests.resizing import LayoutSeen, goes_on_with, layout_seen
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.views.upgrades import nodes_in_force
from tests.unit.core.test_layout_change import FOUR
from tests.unit.requests.test_layout_requests import ASKED, led, said, world


def at_work(*records: object, made: str = "") -> tuple[PipelineProjection, int]:
    """A pipeline of two nodes that somebody looks after, and now."""
    found = world(*records, made=made)
    return found, led(found)


def _answered(found: PipelineProjection, request_id: str, phase: LayoutPhase) -> None:
    """By the coordinator that is in charge."""
    _more(found, replace(said(request_id, phase), claim_epoch=found.view.epoch))


def _more(found: PipelineProjection, record: object) -> None:
    found.see_control([Logged(95, 1_000_000, record)])  # type: ignore[arg-type]


WISH = AgentPlacement(5, 40)
LAST = AgentPlacement(5, 41)
NONE = LayoutRequest("p", "w", 1, 0, 0, wish=WISH)
"""Nothing is asked for, and nothing older counts any more."""


def looked(found: PipelineProjection, wanted: int, now_ms: int, wish: AgentPlacement = WISH) -> LayoutSeen:
    return layout_seen(found, wanted, wish, now_ms)


def _with_the_last(found: PipelineProjection, nodes: int, now_ms: int) -> None:
    """It has as many as are wanted, which is said once nothing can be asked for by that entry any more."""
    seen, before = looked(found, nodes, now_ms), found.view.layout_request()
    assert before is not None
    assert seen == LayoutSeen(nodes, replace(before, wish=LAST), is_last=True)
    _more(found, seen.request)
    assert looked(found, nodes, now_ms) == LayoutSeen(nodes)


def _withdrawn(found: PipelineProjection) -> None:
    _more(found, NONE)
    _answered(found, "w", LayoutPhase.REFUSED)


def test_a_change_is_asked_for_and_then_waited_for() -> None:
    found, now_ms = at_work()
    seen = looked(found, 3, now_ms)
    assert (seen.nodes, seen.why) == (None, ""), "what older wishes ask for may come yet"
    assert seen.request is not None
    assert (seen.request.nodes, seen.request.number, seen.request.wish) == (3, 1, WISH)
    _more(found, seen.request)
    assert looked(found, 3, now_ms) == LayoutSeen(why="a change of its layout is under way")
    _answered(found, seen.request.request_id, LayoutPhase.GIVEN_UP)
    assert looked(found, 3, now_ms).nodes == 2


def test_what_it_has_is_said_once_no_change_is_under_way_and_no_older_wish_counts_any_more() -> None:
    for found, now_ms in (at_work(replace(ASKED, wish=WISH), made="l1"), at_work()):
        nodes = nodes_in_force(found.view, found.committed)
        if nodes == 2:
            seen = looked(found, 2, now_ms)
            assert (seen.nodes, seen.request and replace(seen.request, request_id="w")) == (None, NONE)
            _withdrawn(found)
        _with_the_last(found, nodes, now_ms)


def test_who_does_not_know_that_an_entry_was_carried_out_asks_for_nothing_by_it() -> None:
    found, now_ms = at_work(replace(ASKED, wish=WISH), made="l1")
    three = nodes_in_force(found.view, found.committed)
    _with_the_last(found, three, now_ms)
    assert outcome_of(found, "l1").state is RequestState.DONE, "nobody sees another request"
    _more(found, replace(found.spec(), nodes=2, assignment=1))
    assert looked(found, three, now_ms) == LayoutSeen(2), "its processes have begun anew with another number"
    _more(found, replace(ASKED, request_id="late", number=2, wish=WISH))
    asked = found.view.layout_request()
    assert asked is not None
    assert asked.request_id == "l1", "what comes late does not count"
    next_entry = looked(found, 3, now_ms, LAST).request
    assert next_entry is not None
    assert (next_entry.nodes, next_entry.wish) == (3, LAST), "be it that it is the very next"
    _more(found, next_entry)
    assert looked(found, three, now_ms) == LayoutSeen(why="a change of its layout is under way")


def test_the_last_word_is_not_said_before_the_newest_request_is_answered() -> None:
    found, now_ms = at_work(NONE)
    assert looked(found, 2, now_ms).request is None
    _answered(found, "w", LayoutPhase.REFUSED)
    _with_the_last(found, 2, now_ms)


def test_what_an_older_wish_asks_for_never_counts_beside_a_newer_one() -> None:
    older = replace(ASKED, request_id="late", wish=AgentPlacement(5, 39))
    found, now_ms = at_work(replace(older, request_id="l0"))
    assert looked(found, 2, now_ms).request is not None, "it is withdrawn"
    _withdrawn(found)
    found.see_control([Logged(96, now_ms, older)])
    assert found.view.layout_request() == NONE
    assert looked(found, 2, now_ms).nodes == 2
    outcome = outcome_of(found, "late")
    assert (outcome.state, outcome.superseded_by) == (RequestState.SUPERSEDED, "w")
    assert looked(found, 3, now_ms, AgentPlacement(5, 38)) == LayoutSeen(why="the job was changed since")
    assert looked(found, 3, now_ms, AgentPlacement(5, 39)) == LayoutSeen(2), "nor does it ask again"
    gone = superseded_keys(found.view)
    assert [found.view.latest[one].record for one in gone if "/wish/" in one] == [older]
    found.see_control([Logged(97, now_ms, replace(ASKED, request_id="user"))])
    asked = found.view.layout_request()
    assert asked is not None
    assert asked.request_id == "user", "somebody else's counts if it is the newest"


def test_a_new_log_of_the_cluster_is_newer_than_the_one_before() -> None:
    found, now_ms = at_work(NONE)
    _answered(found, "w", LayoutPhase.REFUSED)
    assert looked(found, 3, now_ms, AgentPlacement(6, 1)).request is not None


def test_what_is_not_wanted_any_more_is_withdrawn_and_that_is_waited_for() -> None:
    found, now_ms = at_work(ASKED)
    seen = looked(found, 2, now_ms)
    assert seen.nodes is None, "the coordinator may make it yet"
    assert seen.request is not None
    assert seen.request.nodes == 0
    _more(found, seen.request)
    assert looked(found, 2, now_ms).nodes is None
    _answered(found, seen.request.request_id, LayoutPhase.REFUSED)
    assert looked(found, 2, now_ms).nodes == 2


@pytest.mark.parametrize(
    "asked",
    [replace(ASKED, nodes=2, replaced=(1,)), replace(ASKED, nodes=2, owners=(0, 1)), replace(ASKED, whole=2)],
    ids=["replacement", "rebalancing", "upgrade"],
)
def test_changes_that_others_have_asked_for_are_waited_for(asked: LayoutRequest) -> None:
    found, now_ms = at_work(asked)
    assert looked(found, 4, now_ms).request is None


def test_a_change_that_came_to_nothing_is_asked_for_again() -> None:
    found, now_ms = at_work(ASKED)
    _answered(found, "l1", LayoutPhase.GIVEN_UP)
    seen = looked(found, 3, now_ms)
    assert seen.request is not None
    assert seen.request.request_id != "l1"


def test_nothing_is_asked_of_a_pipeline_that_does_not_run_or_can_not_be_so() -> None:
    found, now_ms = at_work(Desired("p", DesiredMode.PAUSED, "r"))
    seen = looked(found, 3, now_ms)
    assert (seen.nodes, seen.request and seen.request.nodes) == (None, 0), "older wishes are made void"
    assert "does not run" in seen.why
    _withdrawn(found)
    assert (looked(found, 3, now_ms).nodes, looked(found, 3, now_ms).request) == (2, None)
    found, now_ms = at_work()
    assert "some of 40 nodes would own none" in looked(found, 40, now_ms).why


def test_processes_begin_anew_only_where_nothing_is_divided_over_them() -> None:
    found, now_ms = at_work()
    assert goes_on_with(found, 3, now_ms)
    assert goes_on_with(found, 2, now_ms), "as it has"
    with pytest.raises(ConfigurationError, match="would own none"):
        goes_on_with(found, 40, now_ms)
    stateless = replace(FOUR, stateful=False, exchanges=())
    _more(found, stateless)
    assert goes_on_with(found, 3, now_ms)
    narrow = replace(stateless, outputs=(replace(FOUR.outputs[0], partitions=2),))
    _more(found, narrow)
    assert not goes_on_with(found, 3, now_ms)
    changed, now_ms = at_work(made="l1")
    _more(changed, replace(narrow, assignment=1))
    with pytest.raises(ConfigurationError, match="could write nothing"):
        goes_on_with(changed, 3, now_ms)
    assert not goes_on_with(world(), 3, now_ms), "nobody looks after it"

"""What agents ask of a pipeline that is to have another number of nodes, and what they say that it has."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.model import Desired, DesiredMode, LayoutPhase, LayoutRequest, Logged
from kcontrol.errors import ConfigurationError
from kcontrol.requests.resizing import LayoutSeen, goes_on_with, layout_seen
from kcontrol.views.pipeline_projection import PipelineProjection
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


def test_a_change_is_asked_for_and_then_waited_for() -> None:
    found, now_ms = at_work()
    seen = layout_seen(found, 3, now_ms)
    assert (seen.nodes, seen.why) == (2, "")
    assert seen.request is not None
    assert (seen.request.nodes, seen.request.number) == (3, 1)
    _more(found, seen.request)
    assert layout_seen(found, 3, now_ms) == LayoutSeen(why="a change of its layout is under way")


def test_what_it_has_is_said_once_no_change_is_under_way() -> None:
    found, now_ms = at_work(made="l1")
    assert layout_seen(found, 3, now_ms) == LayoutSeen(3)
    found, now_ms = at_work()
    assert layout_seen(found, 2, now_ms) == LayoutSeen(2)


def test_what_is_not_wanted_any_more_is_withdrawn_and_that_is_waited_for() -> None:
    found, now_ms = at_work(ASKED)
    seen = layout_seen(found, 2, now_ms)
    assert seen.nodes is None, "the coordinator may make it yet"
    assert seen.request is not None
    assert seen.request.nodes == 0
    _more(found, seen.request)
    assert layout_seen(found, 2, now_ms).nodes is None
    _answered(found, seen.request.request_id, LayoutPhase.REFUSED)
    assert layout_seen(found, 2, now_ms) == LayoutSeen(2)


@pytest.mark.parametrize(
    "asked",
    [replace(ASKED, nodes=2, replaced=(1,)), replace(ASKED, nodes=2, owners=(0, 1)), replace(ASKED, whole=2)],
    ids=["replacement", "rebalancing", "upgrade"],
)
def test_changes_that_others_have_asked_for_are_waited_for(asked: LayoutRequest) -> None:
    found, now_ms = at_work(asked)
    assert layout_seen(found, 4, now_ms).request is None


def test_a_change_that_came_to_nothing_is_asked_for_again() -> None:
    found, now_ms = at_work(ASKED)
    _answered(found, "l1", LayoutPhase.GIVEN_UP)
    seen = layout_seen(found, 3, now_ms)
    assert seen.request is not None
    assert seen.request.request_id != "l1"


def test_nothing_is_asked_of_a_pipeline_that_does_not_run_or_can_not_be_so() -> None:
    found, now_ms = at_work(Desired("p", DesiredMode.PAUSED, "r"))
    seen = layout_seen(found, 3, now_ms)
    assert (seen.nodes, seen.request) == (2, None)
    assert "does not run" in seen.why
    found, now_ms = at_work()
    assert "some of 40 nodes would own none" in layout_seen(found, 40, now_ms).why


def test_processes_begin_anew_only_where_nothing_is_divided_over_them() -> None:
    found, now_ms = at_work()
    assert goes_on_with(found, 3, now_ms)
    assert goes_on_with(found, 2, now_ms), "as it has"
    with pytest.raises(ConfigurationError, match="would own none"):
        goes_on_with(found, 40, now_ms)
    _more(found, replace(FOUR, stateful=False, exchanges=()))
    assert not goes_on_with(found, 3, now_ms)
    assert not goes_on_with(world(), 3, now_ms), "nobody looks after it"

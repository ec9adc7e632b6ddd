"""Whether a pipeline can have as many nodes as the cluster of agents has room for."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.model import Desired, DesiredMode, Logged, LoggedStep
from kcontrol.requests.fitting import FitSeen, fit_seen
from kcontrol.views.pipeline_projection import PipelineProjection
from tests.unit.core.test_layout_change import FOUR, given
from tests.unit.requests.test_layout_requests import led, world

NO_STATE = replace(FOUR, stateful=False, exchanges=())


def at_work(*records: object, made: str = "") -> tuple[PipelineProjection, int]:
    """A pipeline of two nodes and six shards that somebody looks after, and now."""
    found = world(*records, made=made)
    return found, led(found)


def looked(found: PipelineProjection, room: int, now_ms: int, least: int = 1, has: int = 2) -> FitSeen:
    return fit_seen(found, has, room, least, now_ms)


def test_it_has_as_many_as_there_is_room_for() -> None:
    found, now_ms = at_work()
    assert looked(found, 3, now_ms) == FitSeen(3)
    assert looked(found, 1, now_ms) == FitSeen(1)


def test_it_has_the_next_fewer_that_it_can_where_it_can_not_have_so_many() -> None:
    found, now_ms = at_work()
    seen = looked(found, 40, now_ms)
    assert (seen.nodes, seen.anew) == (3, False), "its output has 3 partitions"
    assert "40" in seen.why
    full, now_ms = at_work(replace(FOUR, nodes=4, inputs=(replace(FOUR.inputs[0], node_of=(0, 1, 2, 3)),)))
    seen = looked(full, 40, now_ms, has=4)
    assert (seen.nodes, "40" in seen.why) == (0, True), "and no change where it has all that it can"


def test_nothing_is_done_while_it_does_not_run() -> None:
    for found, now_ms in (at_work(Desired("p", DesiredMode.PAUSED, "r")), (world(), 1_000_000)):
        assert looked(found, 3, now_ms) == FitSeen(why="the pipeline does not run")
    changed, now_ms = at_work(made="l1")
    seen = looked(changed, 4, now_ms)
    assert (seen.nodes, "changed just now" in seen.why) == (0, True)


def test_who_keeps_nothing_begins_anew_with_no_more_than_have_something_to_read() -> None:
    found, now_ms = at_work()
    found.see_control([Logged(95, now_ms, NO_STATE)])
    assert looked(found, 3, now_ms) == FitSeen(3, anew=True)
    seen = looked(found, 9, now_ms)
    assert (seen.nodes, seen.anew, seen.why) == (4, True, "its inputs have 4 partitions at most")
    assert looked(found, 9, now_ms, has=4).nodes == 0
    pinned = replace(NO_STATE, outputs=(replace(NO_STATE.outputs[0], node=1),))
    found.see_control([Logged(96, now_ms, pinned)])
    assert looked(found, 2, now_ms, has=3) == FitSeen(2, anew=True)
    seen = looked(found, 1, now_ms)
    assert (seen.nodes, seen.why) == (0, "inputs or outputs of it are node 1's alone (node=)")


def test_who_keeps_nothing_goes_on_by_its_layout_once_that_was_changed() -> None:
    """By the log it has so many nodes since, whatever its definition says, so that nobody begins anew with others."""
    found, now_ms = at_work()
    found.see_control([Logged(95, now_ms, replace(NO_STATE, assignment=1))])
    made = replace(given(nodes=2), live=True)
    found.see_steps([LoggedStep(1, made)])
    assert looked(found, 3, now_ms) == FitSeen(3)
    assert looked(found, 1, now_ms) == FitSeen(1)
    seen = looked(found, 9, now_ms)
    assert (seen.nodes, seen.anew, "9 nodes" in seen.why) == (3, False, True)
    full = looked(found, 9, now_ms, has=3)
    assert (full.nodes, full.anew, bool(full.why)) == (0, False, True)


def test_one_node_is_given_more_while_it_runs_whether_it_keeps_anything_or_not() -> None:
    """Its definition does not say whether several would exchange rows."""
    found, now_ms = at_work()
    alone = replace(NO_STATE, nodes=1, inputs=(replace(FOUR.inputs[0], node_of=(0,) * 4),))
    found.see_control([Logged(95, now_ms, alone)])
    assert looked(found, 2, now_ms, has=1) == FitSeen(2)

"""What is said to a pipeline whose job has ended: once, and only while what runs is of that job."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

from kcontrol.core.log.control_view import PipelineView, evolve
from kcontrol.core.model import (
    AgentPlacement,
    ControlRecord,
    Desired,
    DesiredMode,
    Logged,
    NodeJoin,
    PipelineSpec,
    Tombstone,
)
from kcontrol.requests.endings import EndSeen, asked_by_users, end_seen, to_run_again
from tests.unit.core.made import SPEC

END = AgentPlacement(7, 20)


def view(*records: ControlRecord) -> PipelineView:
    logged = (Logged(at, 0, record) for at, record in enumerate((replace(SPEC, nodes=1), *records)))
    return reduce(evolve, logged, PipelineView.empty(SPEC.pipeline))


def join(generation: int | None, uuid: str = "u", node: int = 0) -> NodeJoin:
    placement = None if generation is None else AgentPlacement(7, generation)
    return NodeJoin(SPEC.pipeline, node, uuid, "host", 1, placement=placement)


def test_it_is_told_to_stop_once() -> None:
    for seen in (end_seen(view(join(10)), END), end_seen(view(join(10), join(11, "v")), END)):
        request = seen.request
        assert request is not None
        assert (request.mode, request.wish, seen.told) == (DesiredMode.STOPPED, END, False)
        told = view(join(10), request)
        assert told.desired() == request
        assert end_seen(told, END) == EndSeen(told=True)


def test_of_another_pipeline_under_its_name_nothing_is_said() -> None:
    """It was deleted, and submitted again by somebody who is about to start its nodes himself."""
    before = view(join(10), Desired(SPEC.pipeline, DesiredMode.STOPPED, "e", END))
    records: list[Tombstone | PipelineSpec] = [*map(Tombstone, before.latest), SPEC]
    again = reduce(evolve, (Logged(10 + at, 0, one) for at, one in enumerate(records)), before)
    assert again.desired() is None
    assert end_seen(again, END) == EndSeen(told=False)
    late = evolve(again, Logged(100, 0, join(10)))
    assert end_seen(late, END).request is not None, "until a process joins that was on its way"


def test_whose_newer_nodes_are_there_is_left_alone_and_what_comes_late_counts_no_more() -> None:
    assert end_seen(view(join(10), join(21, "v")), END) == EndSeen(told=True)
    late = Desired(SPEC.pipeline, DesiredMode.STOPPED, "late", END)
    paused = Desired(SPEC.pipeline, DesiredMode.PAUSED, "mine")
    assert view(join(10), paused, join(21, "v"), late).desired() == paused
    newer = replace(late, wish=AgentPlacement(7, 30), request_id="newer")
    assert view(join(21, "v"), newer, late).desired() == newer, "of two ends the newer one counts"
    assert end_seen(view(join(21, "v"), late), AgentPlacement(7, 30)).request is not None


def test_who_runs_it_himself_is_left_alone() -> None:
    assert end_seen(view(join(10), join(None, "v")), END) == EndSeen(told=False)
    assert end_seen(view(join(None, "v", node=3), join(10)), END).request is not None, "it has no such node"
    asked = Desired(SPEC.pipeline, DesiredMode.RUNNING, "mine")
    end = Desired(SPEC.pipeline, DesiredMode.STOPPED, "e", END)
    assert view(join(10), end, asked).desired() == asked, "whoever asks for it afterwards has it"
    assert end_seen(view(join(10), end, asked), END) == EndSeen(told=True), "and is not contradicted"


SUBMITTED = AgentPlacement(7, 30)


def stop(wish: AgentPlacement | None = None, mode: DesiredMode = DesiredMode.STOPPED) -> Desired:
    return Desired(SPEC.pipeline, mode, "stop", wish)


def test_an_earlier_end_is_taken_back_and_a_later_one_stands_whichever_is_said_first() -> None:
    ended = view(join(10), stop(END))
    [again] = to_run_again(ended, SUBMITTED, asked_by_users(ended))
    assert isinstance(again, Desired)
    assert (again.mode, again.wish) == (DesiredMode.RUNNING, END)
    assert view(join(10), stop(END), again).desired() == again
    for later in (stop(SUBMITTED), stop(AgentPlacement(7, 31))):
        assert to_run_again(view(join(10), stop(END), later), SUBMITTED, -1) == ()
        for said in ((again, later), (later, again)):
            assert view(join(10), stop(END), *said).desired() == later


def test_what_its_user_had_stopped_before_runs_and_what_he_has_stopped_since_does_not() -> None:
    for records in ((stop(),), (stop(), join(10), stop(END)), (stop(mode=DesiredMode.PAUSED), stop(END))):
        before = view(*records)
        [again] = to_run_again(before, SUBMITTED, asked_by_users(before))
        assert isinstance(again, Desired)
        assert (again.mode, again.wish) == (DesiredMode.RUNNING, None)
        assert view(*records, again, join(31, "v"), join(32, "w")).desired() == again
        since = view(*records, stop())
        assert to_run_again(since, SUBMITTED, asked_by_users(before)) == ()
    for running in (view(), view(stop(mode=DesiredMode.PAUSED)), view(stop(mode=DesiredMode.RUNNING))):
        assert to_run_again(running, SUBMITTED, asked_by_users(running)) == ()

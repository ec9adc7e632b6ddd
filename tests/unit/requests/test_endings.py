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
from kcontrol.requests.endings import EndSeen, end_seen
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

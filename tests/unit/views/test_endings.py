"""When a pipeline whose inputs end has done all that it ever will."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.model import (
    AgentPlacement,
    ControlRecord,
    Desired,
    DesiredMode,
    Logged,
    LoggedStep,
    NodeJoin,
    PipelinePhase,
    PipelineSpec,
    Status,
)
from kcontrol.views.endings import Ending, ending_of, last_ends
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.wire.addresses import ROWS_ID, ClockAddress, GeneratorAddress
from tests.unit.core.made import SPEC, boundary

ROWS = GeneratorAddress(partitions=2, rows_per_second=100, ramp_up_ms=0, rows=7, seed=0, start_ms=0)
SINCE = AgentPlacement(1, 50)


def reading(*addresses: str) -> PipelineSpec:
    [item] = SPEC.inputs
    inputs = [
        replace(item, name=f"in{n}" if n else "in", topic=address, topic_id=ROWS_ID, start_offsets=(0, 0))
        for n, address in enumerate(addresses)
    ]
    return replace(SPEC, inputs=tuple(inputs))


def seen(
    spec: PipelineSpec, *records: ControlRecord, to: tuple[int, int] | None = None
) -> PipelineProjection:
    found = PipelineProjection(spec.pipeline)
    found.see_control(Logged(at, at, record) for at, record in enumerate((spec, *records)))
    if to is not None:
        found.see_steps([LoggedStep(0, boundary(1, (0, 0), to))])
    return found


def join(generation: int | None) -> NodeJoin:
    placement = None if generation is None else AgentPlacement(1, generation)
    return NodeJoin("p", 0, "me", "host", 1, placement=placement)


STOPPED = Desired("p", DesiredMode.STOPPED, "r")
REPORTED = Status("p", 1, PipelinePhase.STOPPED, 1, "", ("r",), 0, "", ())


def test_only_rows_of_which_there_are_so_many_end() -> None:
    endless, clock = replace(ROWS, rows=0), ClockAddress(1_000)
    assert last_ends(reading(ROWS.text)) == {("in", 0): 4, ("in", 1): 3}
    for other in (endless.text, clock.text, "a-topic"):
        assert last_ends(reading(ROWS.text, other)) is None
        assert ending_of(seen(reading(ROWS.text, other), join(50), to=(4, 3)), SINCE) is Ending.NEVER


@pytest.mark.parametrize(
    ("records", "to", "ending"),
    [
        ((join(50),), None, Ending.OPEN),
        ((join(50),), (4, 2), Ending.OPEN),
        ((join(50),), (4, 3), Ending.COMMITTED),
        ((join(51),), (4, 3), Ending.COMMITTED),
        ((join(49),), (4, 3), Ending.OPEN),
        ((join(None),), (4, 3), Ending.OPEN),
        ((join(50), STOPPED), (4, 3), Ending.OPEN),
        ((join(50), STOPPED, REPORTED), (4, 2), Ending.OPEN),
        ((join(50), STOPPED, REPORTED), (4, 3), Ending.STOPPED),
        ((join(50), REPORTED), (4, 3), Ending.COMMITTED),
    ],
)
def test_it_is_done_when_all_is_committed_by_a_definition_of_this_placement_and_it_has_stopped(
    records: tuple[ControlRecord, ...], to: tuple[int, int] | None, ending: Ending
) -> None:
    assert ending_of(seen(reading(ROWS.text), *records, to=to), SINCE) is ending


def test_what_a_watermark_still_brings_out_is_waited_for() -> None:
    found = seen(reading(ROWS.text), join(50))
    found.see_steps([LoggedStep(0, replace(boundary(1, (0, 0), (4, 3)), watermark_moved=True))])
    assert ending_of(found, SINCE) is Ending.OPEN


def test_nothing_is_known_of_what_was_never_submitted() -> None:
    assert ending_of(PipelineProjection("p"), SINCE) is Ending.OPEN

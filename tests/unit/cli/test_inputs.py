"""What the command line says of inputs that are paused or skipped, and when it takes a pipeline for caught
up."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.apps.show import step_line
from kcontrol.cli.input_facts import input_line
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.log.steps_view import evolve as evolve_steps
from kcontrol.core.model import (
    Claim,
    ControlRecord,
    Gap,
    InputDesired,
    Logged,
    LoggedStep,
    NodeJoin,
    PipelinePhase,
    Received,
    ReceivedPartition,
    SkippedRange,
    SkipRequest,
    Status,
)
from kcontrol.views.endings import is_caught_up, still_to_come
from kcontrol.views.input_facts import WaitingInput, waiting_inputs
from kcontrol.views.pipeline_projection import PipelineProjection
from tests.unit.core.made import SPEC, boundary

COMMITTED = evolve_steps(StepsView("p"), LoggedStep(0, boundary(1)))
SKIP = SkipRequest("p", "in", 0, 6, 9, "somebody", 5, "r")
SEEN = Received("p", 0, 1, "in", 2, (ReceivedPartition(0, "T1", 0, 9),), 0, 0)


def projected(*records: ControlRecord) -> PipelineProjection:
    found = PipelineProjection("p")
    said = (SPEC, NodeJoin("p", 0, "u", "host", 2), Claim("p", "c", "host", 1), *records)
    found.see_control(Logged(offset, 1_000, record) for offset, record in enumerate(said))
    found.see_steps([LoggedStep(0, boundary(1))])
    return found


def facts(*records: ControlRecord) -> WaitingInput:
    (one,) = waiting_inputs(projected(*records), 3_500)
    return one


def line(*records: ControlRecord) -> str:
    return input_line(facts(*records))


def status(noted: int) -> Status:
    return Status("p", 2, PipelinePhase.PAUSED, 1, "", (), 0, "", (), noted)


def test_an_input_that_nobody_asked_about() -> None:
    assert line() == "in: 0 offsets wait"
    assert line(SEEN) == "in: 3 offsets wait, the oldest for 2.5 s"
    assert facts(SEEN).model_dump() == {
        **{"input": "in", "kind": "topic", "waiting": 3, "waiting_ms": 2_500, "unasked": ""},
        **{"paused": False, "noted": True, "skips": []},
    }


def test_the_kind_of_an_input_that_is_no_topic_is_named() -> None:
    assert input_line(facts().model_copy(update={"kind": "generator"})) == "in (generator): 0 offsets wait"


def test_offsets_that_hold_no_record_wait_for_nothing() -> None:
    """By what nodes have said; of what they have not said anything it is not known."""
    marked = replace(SEEN, partitions=(replace(SEEN.partitions[0], gaps=(Gap(4, 7, 3), Gap(8, 9, 1))),))
    assert line(marked) == "in: 1 offsets wait, the oldest for 2.5 s"
    nothing = replace(SEEN, partitions=(replace(SEEN.partitions[0], gaps=(Gap(4, 9, 5),)),))
    assert line(nothing) == "in: 0 offsets wait"
    ends = {("in", 0): 9, ("in", 1): 1}
    view = projected(nothing).view
    assert is_caught_up(SPEC, COMMITTED, ends, view=view)
    assert not is_caught_up(SPEC, COMMITTED, ends)
    assert still_to_come(SPEC, COMMITTED, {**ends, ("in", 0): 10}, view) == {"in": 1}


def test_a_paused_input_and_whether_it_is_in_force() -> None:
    assert (
        line(InputDesired("p", "in", True, "r"))
        == "in: 0 offsets wait; paused (pausing it waits for a coordinator)"
    )
    assert line(InputDesired("p", "in", True, "r"), status(3)) == "in: 0 offsets wait; paused"
    assert (
        line(InputDesired("p", "in", False, "r"))
        == "in: 0 offsets wait (resuming it waits for a coordinator)"
    )


def test_a_skip_that_waits() -> None:
    told = line(SKIP)
    assert (
        "the next step skips offsets 6 to 8 of partition 0, by somebody; the node that reads partition 0"
        in told
    )
    assert line(SKIP, SEEN).endswith("by somebody")
    (skip,) = facts(SKIP, SEEN).model_dump(by_alias=True)["skips"]
    assert skip == {"partition": 0, "from": 6, "to": 9, "by": "somebody", "asked_ms": 5, "waits_for": ""}
    assert line(replace(SKIP, from_=5)) == "in: 0 offsets wait"


def test_caught_up_is_judged_without_paused_inputs_and_what_is_left_of_them_is_known() -> None:
    ends = {("in", 0): 6, ("in", 1): 4, ("in", 2): 2}
    assert still_to_come(SPEC, COMMITTED, ends) == {"in": 5}
    assert not is_caught_up(SPEC, COMMITTED, ends)
    assert is_caught_up(SPEC, COMMITTED, ends, ["in"])
    assert is_caught_up(SPEC, COMMITTED, {("in", 0): 6, ("in", 1): 1})


def test_a_step_line_says_what_the_step_did_without() -> None:
    passed = SkippedRange("in", "input", "T1", 0, 5, 9, "me", 5, "r")
    assert "skipped" not in step_line(boundary(1))
    said = step_line(replace(boundary(1), skipped_ranges=(passed,), paused_inputs=("side", "more")))
    assert said.endswith("  skipped in/0 offsets 5 to 8  paused side, more")

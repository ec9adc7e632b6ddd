"""Single inputs as a coordinator sees them: paused, grown by partitions, expired, and skipped on request."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kcontrol.core.coordinator.table import State
from kcontrol.core.events import AddPartitions, CommitStep, PartitionsAdded, StepCommitted
from kcontrol.core.model import (
    BadRecords,
    Command,
    FailureKind,
    InputDesired,
    InputSpec,
    NodePhase,
    PipelinePhase,
    PipelineSpec,
    Reason,
    Received,
    ReceivedPartition,
    SkippedRange,
    SkipRequest,
    StepBoundary,
    StepWork,
)
from tests.unit.core.drive import CoordinatorDriver, only, published
from tests.unit.core.made import SPEC, boundary

SIDE = InputSpec("side", "other", "T3", (0,), (0,), "raw", BadRecords.HALT, "", "")
BOTH = replace(SPEC, inputs=(*SPEC.inputs, SIDE))
ON_TWO = replace(SPEC, nodes=2, stateful=False, inputs=(replace(SPEC.inputs[0], node_of=(0, 1)),))
KEYED_ON_TWO = replace(ON_TWO, inputs=(replace(ON_TWO.inputs[0], partitioned_by="k"),))
STATEFUL_ON_TWO = replace(KEYED_ON_TWO, stateful=True)
FIRST_OF_TWO = boundary(1, nodes=2)


def in_place(spec: PipelineSpec, steps: tuple[StepBoundary, ...] = ()) -> CoordinatorDriver:
    """A coordinator that has taken over a pipeline whose nodes hold the last of the steps."""
    driver = CoordinatorDriver(spec)
    for one in steps:
        driver.see_step(one)
    driver.take_over()
    for number in range(spec.nodes):
        driver.join(number)
        driver.say(number, command_epoch=-1, command_serial=-1)
    assert driver.state.at is State.READY
    return driver


def received(
    driver: CoordinatorDriver, name: str, *seen: tuple[int, int], topic_id: str = "T1", number: int = 0
) -> list[Any]:
    """What a node says of an input: by partition, (earliest, to)."""
    partitions = tuple(ReceivedPartition(p, topic_id, earliest, to) for p, (earliest, to) in enumerate(seen))
    return driver.see(Received("p", number, driver.incarnations[number], name, 1, partitions, 0, 0))


def side(driver: CoordinatorDriver, to: int) -> list[Any]:
    return received(driver, "side", (0, to), topic_id="T3")


def pause(driver: CoordinatorDriver, paused: bool = True, name: str = "side") -> list[Any]:
    return driver.see(InputDesired("p", name, paused, f"i{driver.log.end}"))


def skip(driver: CoordinatorDriver, from_: int, to: int, partition: int = 0, name: str = "in") -> list[Any]:
    return driver.see(SkipRequest("p", name, partition, from_, to, "somebody", 77, f"s{to}"))


def begun(driver: CoordinatorDriver) -> StepWork:
    """The attempt that has just been decided on, which node 0 begins."""
    work = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))[0].work
    assert work is not None
    driver.say(attempt=work.token)
    return work


def ranges(work: StepWork) -> dict[tuple[str, int], tuple[int, int]]:
    return {(part.input, part.partition): (part.from_, part.to) for part in work.division}


def committed(driver: CoordinatorDriver, work: StepWork) -> StepBoundary:
    """Node 0 writes it, it is committed, and node 0 is ready for the next."""
    made = only(CommitStep, driver.write(work)).boundary
    driver.see_step(made)
    driver.feed(StepCommitted(made.step, driver.log.now_ms))
    driver.ready()
    driver.say(step=made.step)
    return made


# --- paused -------------------------------------------------------------------------------------------------


def test_a_paused_input_gives_nothing_and_the_boundary_says_so() -> None:
    driver = in_place(BOTH)
    pause(driver)
    assert driver.status.inputs_offset == driver.log.end - 1
    side(driver, 4)
    driver.receive(8, 2)
    work = begun(driver)
    assert ranges(work) == {("in", 0): (5, 8), ("in", 1): (0, 2), ("side", 0): (0, 0)}
    assert committed(driver, work).paused_inputs == ("side",)


def test_a_paused_input_is_no_reason_to_act_until_it_is_read_again() -> None:
    driver = in_place(BOTH)
    pause(driver)
    assert side(driver, 50) == []
    driver.tick(10_000)
    assert driver.state.at is State.READY
    assert only(AddPartitions, pause(driver, False))
    assert driver.state.at is State.ADDING
    assert ranges(begun(driver))["side", 0] == (0, 10)


def test_pausing_twice_is_no_error_and_each_request_is_taken_note_of() -> None:
    driver = in_place(BOTH)
    for _ in range(2):
        pause(driver)
        assert driver.status.inputs_offset == driver.log.end - 1
    pause(driver, name="nobody-knows-it")
    assert driver.state.asked.paused == ("side",)


def test_a_pause_takes_effect_at_the_boundary_after_it() -> None:
    driver = in_place(BOTH)
    driver.receive(8, 2)
    work = begun(driver)
    side(driver, 3)
    pause(driver)
    assert driver.status.inputs_offset == -1
    assert committed(driver, work).paused_inputs == ()
    assert driver.status.inputs_offset >= 0
    assert driver.state.at is State.READY


def test_a_failed_plan_is_given_up_when_an_input_is_paused() -> None:
    """Or an input whose records no query can digest could never be left out."""
    driver = in_place(BOTH)
    side(driver, 3)
    work = begun(driver)
    driver.write(work, failure=FailureKind.QUERY, error="boom")
    driver.say(phase=NodePhase.CLOSED, error="boom")
    driver.ready()
    pause(driver)
    assert driver.status.inputs_offset == driver.log.end - 1
    driver.say()
    driver.tick(1_000)
    assert driver.state.at is State.READY
    driver.receive(6, 0)
    assert ranges(begun(driver)) == {("in", 0): (5, 6), ("in", 1): (0, 0), ("side", 0): (0, 0)}


def test_a_pause_outlives_the_coordinator() -> None:
    driver = CoordinatorDriver(BOTH)
    pause(driver)
    driver.in_place()
    assert side(driver, 3) == []
    assert driver.status.inputs_offset >= 0


def test_the_delay_counts_from_input_that_is_read() -> None:
    driver = in_place(replace(BOTH, policy=replace(BOTH.policy, min_records=100, max_delay_ms=100)))
    side(driver, 3)
    driver.tick(90)
    pause(driver)
    driver.receive(6, 0)
    driver.tick(20)
    assert driver.state.at is State.READY
    driver.tick(80)
    assert begun(driver).reason is Reason.DELAY


def test_input_that_expires_while_it_is_paused_halts_only_what_reads_it() -> None:
    driver = in_place(BOTH)
    pause(driver)
    received(driver, "side", (3, 9), topic_id="T3")
    assert driver.state.at is State.READY
    pause(driver, False)
    assert driver.status.phase is PipelinePhase.HALTED
    assert (
        "input side (topic other, partition 0) has expired: the next step needs offset 0"
        in driver.status.reason
    )


# --- skips --------------------------------------------------------------------------------------------------


def test_an_expired_input_halts_and_a_skip_is_the_way_on() -> None:
    driver = in_place(SPEC)
    received(driver, "in", (7, 9), (0, 2))
    assert driver.status.phase is PipelinePhase.HALTED
    assert (
        "the next step needs offset 5, the first one left is 7; restore the topic, or go on without "
        "offsets 5 to 6: kcontrol skip p --input in --partition 0 --to-offset 7, then kcontrol resume p"
    ) in driver.status.reason
    skip(driver, 5, 7)
    assert (driver.status.phase, driver.status.inputs_offset) == (PipelinePhase.HALTED, driver.log.end - 1)
    driver.resume()
    work = begun(driver)
    assert ranges(work) == {("in", 0): (7, 9), ("in", 1): (0, 2)}
    assert committed(driver, work).skipped_ranges == (
        SkippedRange("in", "input", "T1", 0, 5, 7, "somebody", 77, "s7"),
    )
    driver.receive(10, 2)
    assert begun(driver).step == 2
    assert driver.state.current.plan is not None
    assert driver.state.current.plan.skips == ()


def test_a_skip_alone_makes_a_step_that_records_it() -> None:
    driver = in_place(replace(SPEC, policy=replace(SPEC.policy, min_records=100, max_delay_ms=60_000)))
    driver.receive(9, 0)
    skip(driver, 5, 9)
    work = begun(driver)
    assert work.reason is Reason.SKIP
    assert ranges(work) == {("in", 0): (9, 9), ("in", 1): (0, 0)}


@pytest.mark.parametrize(
    ("from_", "to", "partition"), [(4, 8, 0), (6, 8, 0), (5, 5, 0), (5, 3, 0), (5, 8, 1), (0, 8, 7)]
)
def test_a_skip_that_does_not_fit_the_log_is_nothing(from_: int, to: int, partition: int) -> None:
    driver = in_place(SPEC)
    skip(driver, from_, to, partition)
    driver.receive(9, 2)
    assert ranges(begun(driver)) == {("in", 0): (5, 9), ("in", 1): (0, 2)}
    assert driver.state.current.plan is not None
    assert driver.state.current.plan.skips == ()


def test_a_skip_beyond_what_is_seen_waits_until_it_is() -> None:
    driver = in_place(SPEC)
    skip(driver, 5, 8)
    received(driver, "in", (0, 5), (0, 1))
    assert committed(driver, begun(driver)).skipped_ranges == ()
    driver.receive(8, 1)
    assert [one.to for one in committed(driver, begun(driver)).skipped_ranges] == [8]


def test_the_newest_skip_of_a_partition_counts() -> None:
    driver = in_place(SPEC)
    skip(driver, 5, 9)
    skip(driver, 5, 6)
    driver.receive(9, 0)
    assert ranges(begun(driver))["in", 0] == (6, 9)


def test_a_failed_plan_is_given_up_when_its_records_are_skipped() -> None:
    driver = in_place(SPEC)
    driver.receive(6, 0)
    work = begun(driver)
    driver.write(work, failure=FailureKind.QUERY, error="boom")
    driver.say(phase=NodePhase.CLOSED, error="boom")
    driver.ready()
    skip(driver, 5, 6)
    driver.say()
    driver.tick(1_000)
    again = begun(driver)
    assert (again.step, again.reason, ranges(again)["in", 0]) == (1, Reason.SKIP, (6, 6))


# --- partitions that were added -----------------------------------------------------------------------------


def test_an_added_partition_is_read_from_its_first_offset_and_named_from_then_on() -> None:
    driver = in_place(SPEC)
    driver.receive(6, 0, 4)
    work = begun(driver)
    assert ranges(work) == {("in", 0): (5, 6), ("in", 1): (0, 0), ("in", 2): (0, 4)}
    committed(driver, work)
    driver.join()
    driver.say(phase=NodePhase.CLOSED, openable=(1,))
    driver.say()
    driver.tick(1_000)
    received(driver, "in", (0, 7))
    assert ranges(begun(driver)) == {("in", 0): (6, 7), ("in", 1): (0, 0), ("in", 2): (4, 4)}


def test_a_skip_in_a_partition_that_was_added_to_a_paused_input_waits_with_it() -> None:
    driver = in_place(BOTH)
    pause(driver, name="in")
    driver.receive(6, 0, 4)
    skip(driver, 0, 3, partition=2)
    side(driver, 1)
    assert committed(driver, begun(driver)).skipped_ranges == ()
    pause(driver, False, name="in")
    assert ranges(begun(driver))["in", 2] == (3, 4)


def test_an_added_partition_whose_first_records_have_expired_halts() -> None:
    driver = in_place(SPEC)
    received(driver, "in", (0, 5), (0, 0), (2, 4))
    assert (
        "partition 2) has expired: the next step needs offset 0, the first one left is 2"
        in driver.status.reason
    )


def test_partitions_of_a_topic_that_was_made_anew_are_not_added() -> None:
    driver = in_place(SPEC)
    driver.receive(6, 0, 4, topic_id="other")
    assert "was deleted and created again" in driver.status.reason


def test_an_added_partition_belongs_to_the_node_that_the_rule_gives_it_to() -> None:
    driver = in_place(ON_TWO)
    seen = tuple(ReceivedPartition(p, "T1", 0, to) for p, to in ((1, 0), (3, 9)))
    assert only(AddPartitions, driver.see(Received("p", 1, driver.incarnations[1], "in", 1, seen, 0, 0)))
    commands = published(Command, driver.feed(PartitionsAdded(driver.log.now_ms)))
    assert all(one.work is not None and ranges(one.work)["in", 3] == (0, 9) for one in commands)
    assert all(one.work is not None and ranges(one.work)["in", 2] == (0, 0) for one in commands)
    assert [split.partition for split in driver.state.current.plan.layout.splits] == [3]  # type: ignore[union-attr]


def test_what_another_node_says_of_a_partition_does_not_count() -> None:
    driver = in_place(ON_TWO)
    seen = (ReceivedPartition(2, "T1", 0, 9),)
    assert driver.see(Received("p", 1, driver.incarnations[1], "in", 1, seen, 0, 0)) == []
    assert driver.state.at is State.READY


@pytest.mark.parametrize(
    ("spec", "steps", "text"),
    [
        (
            STATEFUL_ON_TWO,
            (),
            "than their state is on; nothing was read of the added partitions. Submit the pipeline under a",
        ),
        (
            STATEFUL_ON_TWO,
            (FIRST_OF_TWO,),
            "input in (topic input) has 3 partitions, the pipeline was made with 2: on 2 nodes",
        ),
        (
            KEYED_ON_TWO,
            (FIRST_OF_TWO,),
            "Give output out (topic output) 3 partitions too, as far as they are keyed, start the",
        ),
    ],
)
def test_keyed_partitions_are_not_taken_up_on_several_nodes(
    spec: PipelineSpec, steps: tuple[StepBoundary, ...], text: str
) -> None:
    driver = in_place(spec, steps)
    received(driver, "in", (0, 6), (0, 1), (0, 4))
    assert driver.status.phase is PipelinePhase.HALTED
    assert text in driver.status.reason
    driver.resume()
    assert driver.status.phase is PipelinePhase.HALTED


def test_state_on_several_nodes_is_not_fooled_by_a_spec_with_more_partitions() -> None:
    grown = replace(STATEFUL_ON_TWO.inputs[0], start_offsets=(5, 0, 0), node_of=(0, 1, 0))
    driver = CoordinatorDriver(replace(STATEFUL_ON_TWO, inputs=(grown,)))
    driver.see_step(FIRST_OF_TWO)
    driver.take_over()
    assert "has 3 partitions, the pipeline was made with 2" in driver.status.reason


def test_keyed_partitions_that_were_added_everywhere_are_read_after_a_new_start() -> None:
    grown = replace(KEYED_ON_TWO.inputs[0], start_offsets=(5, 0, 0), node_of=(0, 1, 0))
    driver = in_place(replace(KEYED_ON_TWO, inputs=(grown,)), (FIRST_OF_TWO,))
    received(driver, "in", (0, 6), (0, 1), (0, 4))
    assert driver.state.at is State.ADDING


def test_partitions_that_are_added_to_the_input_of_one_node_are_read_by_it_with_its_state() -> None:
    whole = replace(STATEFUL_ON_TWO.inputs[0], node_of=(1, 1), node=1)
    driver = in_place(replace(STATEFUL_ON_TWO, inputs=(whole,)), (FIRST_OF_TWO,))
    received(driver, "in", (0, 6), (0, 1), (0, 4), number=1)
    assert driver.state.at is State.ADDING


def test_a_paused_input_stays_as_it_was_when_partitions_are_added() -> None:
    driver = in_place(STATEFUL_ON_TWO, (FIRST_OF_TWO,))
    pause(driver, name="in")
    received(driver, "in", (0, 6), (0, 1), (0, 4))
    assert driver.state.at is State.READY
    pause(driver, False, name="in")
    assert driver.status.phase is PipelinePhase.HALTED

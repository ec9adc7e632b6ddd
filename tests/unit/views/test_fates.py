"""What is told of records whose offsets steps have passed, from their boundaries and from what Kafka has."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

import pytest

from kcontrol.core.model import InputSpec, Skipped, StepBoundary
from kcontrol.sessions.ports import Held
from kcontrol.views.completion import Completion, CompletionState, InputRecord
from kcontrol.views.fates import fates
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC, boundary

WHOLE = boundary(1, (5, 0), (9, 2))
HOLED = replace(WHOLE, inputs=(replace(WHOLE.inputs[0], records=2), WHOLE.inputs[1]))


@dataclass
class Kafka:
    """What is at every offset, and how many records there are."""

    held: Held | str = Held.RECORD
    left: int | str = 0
    late: bool = False
    asked: list[int] = field(default_factory=list)

    async def holds(self, item: InputSpec, partition: int, offset: int) -> Held | str:
        assert (item.topic, partition) == ("input", 0)
        self.asked.append(offset)
        if self.late:
            await asyncio.Event().wait()
        return self.held

    async def records(self, item: InputSpec, partition: int, from_: int, to: int) -> int | str:
        assert (item.topic, partition, from_, to) == ("input", 0, 5, 9)
        return self.left


def told(kafka: Kafka, step: StepBoundary | None, within_s: float = HANG_S, **more: int) -> tuple[str, str]:
    async def boundary_of(_: Completion) -> StepBoundary | None:
        return step

    found = [Completion(InputRecord("input", 0, 6), "in", CompletionState.COMMITTED, 1)]
    (one,) = asyncio.run(fates(SPEC, found, boundary_of, kafka, within_s, **more))
    return one.state.value, one.note


def test_of_a_step_that_found_a_record_at_every_offset_nobody_is_asked() -> None:
    kafka = Kafka(Held.GONE)
    assert told(kafka, WHOLE) == ("committed", "")
    assert kafka.asked == []


@pytest.mark.parametrize(
    ("held", "state"), [(Held.RECORD, "committed"), (Held.ABORTED, "aborted"), (Held.MARKER, "no record")]
)
def test_else_kafka_says_what_the_offset_holds(held: Held, state: str) -> None:
    for step in (HOLED, None):
        assert told(Kafka(held), step) == (state, "")


def test_what_is_gone_was_gone_before_if_everything_that_was_read_is_still_there() -> None:
    assert told(Kafka(Held.GONE, left=2), HOLED) == ("gone", "")
    none = replace(HOLED, inputs=(replace(HOLED.inputs[0], records=0), HOLED.inputs[1]))
    assert told(Kafka(Held.GONE, left="no"), none) == ("gone", "")


def test_else_it_can_not_be_told_and_that_is_said() -> None:
    state, note = told(Kafka(Held.GONE, left=1), HOLED)
    assert state == "committed"
    assert "its step read 2 records of offsets 5 to 8, of which 1 are left" in note
    assert "of which some are left" in told(Kafka(Held.GONE, left="Kafka is away"), HOLED)[1]
    assert "neither is its step in the log" in told(Kafka(Held.GONE), None)[1]
    few = told(Kafka(Held.GONE, 2), HOLED, max_offsets=3)
    assert "read 4 offsets of its partition: more than the 3 that are looked through" in few[1]


def test_a_kafka_that_can_not_be_asked_leaves_it_as_it_was() -> None:
    assert told(Kafka("you may not"), HOLED) == (
        "committed",
        "whether a step has read it can't be told: you may not",
    )
    state, note = told(Kafka(late=True), HOLED, within_s=0.0)
    assert (state, "ask for fewer records at once" in note) == ("committed", True)


def test_records_that_could_not_be_parsed() -> None:
    """A boundary counts them by input; which of several it was is not in it."""
    assert told(Kafka(), replace(WHOLE, skipped=(Skipped("in", 6),))) == ("bad record", "")
    state, note = told(Kafka(), replace(WHOLE, skipped=(Skipped("in", 1),)))
    assert state == "committed"
    assert (
        note
        == "step 1 left out 1 of 6 records of input in that could not be parsed; which ones is not recorded"
    )
    assert told(Kafka(), replace(WHOLE, skipped=(Skipped("other", 6),))) == ("committed", "")
    assert told(Kafka(Held.ABORTED), replace(HOLED, skipped=(Skipped("in", 4),))) == ("aborted", "")


def test_only_what_was_passed_is_asked_about() -> None:
    async def boundary_of(_: Completion) -> StepBoundary | None:
        raise AssertionError

    found = [
        Completion(InputRecord("input", 0, 6), "in", state, None)
        for state in CompletionState
        if state is not CompletionState.COMMITTED
    ]
    assert asyncio.run(fates(SPEC, found, boundary_of, Kafka())) == found

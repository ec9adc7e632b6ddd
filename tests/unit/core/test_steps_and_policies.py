"""The log of steps, when a step is due, and how often something is tried."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce

import pytest

from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import (
    FailureKind,
    InputRange,
    LayoutSpec,
    LoggedStep,
    Reason,
    SkippedRange,
    StepBoundary,
    StepPolicySpec,
    StepRecord,
    Tombstone,
)
from kcontrol.core.retry import Retry, after_failure, must_halt
from kcontrol.core.step.due import Due, due
from kcontrol.core.step.layout import layout_of
from kcontrol.errors import DamagedRecordError
from tests.unit.core.made import LIMITS, SPEC, boundary, checkpoint


def fold(*boundaries: StepRecord | Tombstone) -> StepsView:
    return reduce(evolve, (LoggedStep(offset, one) for offset, one in enumerate(boundaries)), StepsView("p"))


def test_the_last_boundary_says_where_the_next_step_begins() -> None:
    view = fold(boundary(1), boundary(2, (6, 1), (9, 1)), Tombstone("step/1"))
    assert (view.step, view.now_ms, view.next_from) == (2, 1_002, {("in", 0): 9, ("in", 1): 1})
    assert (StepsView("p").step, StepsView("p").now_ms) == (0, 0)


def test_the_oldest_steps_may_be_gone() -> None:
    assert fold(Tombstone("step/6"), boundary(7)).step == 7


def test_a_gap_that_the_boundary_says_was_skipped_is_no_damage() -> None:
    passed = SkippedRange("in", "input", "T1", 0, 6, 9, "me", 5, "r")
    gapped = replace(boundary(2, (9, 1), (10, 2)), skipped_ranges=(passed,))
    assert fold(boundary(1), gapped).next_from["in", 0] == 10
    for wrong in (
        replace(passed, from_=5),
        replace(passed, to=8),
        replace(passed, partition=1),
        replace(passed, input="x"),
    ):
        with pytest.raises(
            DamagedRecordError, match="reads input in partition 0 from offset 9, but the step before ended at"
        ):
            fold(boundary(1), replace(gapped, skipped_ranges=(wrong,)))


@pytest.mark.parametrize(
    ("second", "text"),
    [
        (boundary(3, (6, 1), (7, 2)), "offset 1 holds step 3 after step 1"),
        (replace(boundary(2, (6, 1), (7, 2)), now_ms=1_001), "step 2 has time 1001, not later than 1001"),
        (
            boundary(2, (7, 1), (8, 2)),
            "reads input in partition 0 from offset 7, but the step before ended at 6",
        ),
    ],
)
def test_a_broken_log_is_an_error(second: StepBoundary, text: str) -> None:
    with pytest.raises(DamagedRecordError, match="pipeline p") as error:
        fold(boundary(1), second)
    assert text in str(error.value)


def test_checkpoints_and_dropped_steps_are_known() -> None:
    steps = (boundary(1), boundary(2, (6, 1), (7, 2)), boundary(3, (7, 2), (8, 3)))
    view = fold(*steps, checkpoint(2, 1), checkpoint(3, 1), Tombstone("checkpoint/2"), Tombstone("step/1"))
    assert (view.checkpoints, view.checkpoint, view.first, view.last_offset) == ((checkpoint(3, 1),), 3, 2, 2)
    assert [view.can_replay_after(step) for step in range(5)] == [False, True, True, True, False]
    assert (view.checkpoint_of(3), view.checkpoint_of(2)) == (checkpoint(3, 1), None)
    assert [StepsView("p").can_replay_after(step) for step in (0, 1)] == [True, False]


@pytest.mark.parametrize("step", [1, 4])
def test_a_checkpoint_is_newer_than_the_last_and_of_a_step_that_is_there(step: int) -> None:
    with pytest.raises(
        DamagedRecordError, match=f"at offset 4 holds a checkpoint of step {step} after step 3 and the"
    ):
        fold(
            boundary(1),
            boundary(2, (6, 1), (7, 2)),
            boundary(3, (7, 2), (8, 3)),
            checkpoint(2, 1),
            checkpoint(step, 1),
        )


POLICY = StepPolicySpec(min_records=10, max_delay_ms=100, max_records=50, clock_ms=0)
CLOCK = replace(POLICY, clock_ms=1_000)


@pytest.mark.parametrize(
    ("policy", "waiting", "arrived_ms", "moved", "now_ms", "found"),
    [
        (POLICY, 10, 5_000, False, 5_000, Due(Reason.RECORDS)),
        (POLICY, 9, 5_000, False, 5_000, Due(None, 5_100)),
        (POLICY, 9, 5_000, False, 5_100, Due(Reason.DELAY)),
        (POLICY, 0, None, False, 9_000, Due(None)),
        (POLICY, 0, None, True, 9_000, Due(Reason.WATERMARK)),
        (POLICY, 10, 5_000, True, 5_000, Due(Reason.RECORDS)),
        (replace(POLICY, min_records=0), 0, None, False, 9_000, Due(None)),
        (CLOCK, 0, None, False, 4_999, Due(None, 5_000)),
        (CLOCK, 0, None, False, 5_000, Due(Reason.CLOCK)),
        (CLOCK, 1, 4_850, False, 4_900, Due(None, 4_950)),
    ],
)
def test_when_a_step_is_due(
    policy: StepPolicySpec, waiting: int, arrived_ms: int | None, moved: bool, now_ms: int, found: Due
) -> None:
    """Arrivals count by one clock, the policy's ticks by another."""
    said = due(
        policy,
        waiting=waiting,
        arrived_ms=arrived_ms,
        last_now_ms=1_000_004_200,
        watermark_moved=moved,
        now_ms=now_ms,
        step_now_ms=1_000_000_000 + now_ms,
    )
    assert said == found


def test_waiting_doubles_up_to_its_limit() -> None:
    retry, waits = Retry(), []
    for _ in range(6):
        retry = after_failure(retry, FailureKind.BROKER, LIMITS, 5_000)
        waits.append(retry.not_before_ms - 5_000)
    assert waits == [100, 200, 400, 800, 1_000, 1_000]


@pytest.mark.parametrize(
    ("kind", "halts_at"),
    [
        (FailureKind.QUERY, LIMITS.max_attempts),
        (FailureKind.LOST, LIMITS.max_lost),
        (FailureKind.BROKER, None),
        (FailureKind.FENCED, None),
        (FailureKind.DIGEST, 1),
        (FailureKind.INPUT_GONE, 1),
    ],
)
def test_each_kind_has_a_bound_of_its_own(kind: FailureKind, halts_at: int | None) -> None:
    retry = Retry()
    for others in (FailureKind.BROKER, FailureKind.FENCED):
        retry = after_failure(retry, others, LIMITS, 0)
    halted = None
    for count in range(1, 50):
        retry = after_failure(retry, kind, LIMITS, 0)
        if must_halt(retry, kind, LIMITS):
            halted = count
            break
    assert halted == halts_at


def test_whole_partitions_go_to_a_task_where_the_output_has_as_many() -> None:
    spec = replace(SPEC, layout=LayoutSpec(max_tasks=2, records_per_task=10, shuffle_partitions=1))
    division = (InputRange("in", "input", "T1", 0, 5, 25), InputRange("in", "input", "T1", 1, 0, 15))
    splits = layout_of(spec, division).splits
    assert [(split.task, split.partition, split.from_, split.to) for split in splits] == [
        (0, 0, 5, 25),
        (1, 1, 0, 15),
    ]
    other = replace(spec, outputs=(replace(spec.outputs[0], partitions=3),))
    splits = layout_of(other, division).splits
    assert [(split.task, split.partition, split.from_, split.to) for split in splits] == [
        (0, 0, 5, 22),
        (1, 0, 22, 25),
        (1, 1, 0, 15),
    ]


@pytest.mark.parametrize(
    ("to", "cut"), [(16, False), (18, True)], ids=["nearly as much as the other", "too uneven"]
)
def test_whole_partitions_go_to_a_task_anywhere_if_that_is_as_even(to: int, cut: bool) -> None:
    """Records of a partition that one task reads keep their order without being shuffled."""
    layout = LayoutSpec(max_tasks=2, records_per_task=10, shuffle_partitions=1)
    spec = replace(SPEC, layout=layout, outputs=(replace(SPEC.outputs[0], partitions=3),))
    division = (InputRange("in", "input", "T1", 0, 0, to), InputRange("in", "input", "T1", 1, 0, 14))
    splits = layout_of(spec, division).splits
    assert len({split.task for split in splits}) == 2
    assert (len(splits) > 2) == cut


def test_few_records_are_one_task() -> None:
    division = (InputRange("in", "input", "T1", 0, 5, 25), InputRange("in", "input", "T1", 1, 0, 0))
    layout = layout_of(SPEC, division)
    assert [(split.task, split.partition) for split in layout.splits] == [(0, 0)]
    assert layout.outputs[0].tasks == 1

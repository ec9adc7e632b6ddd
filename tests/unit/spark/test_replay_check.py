"""A replay's input is judged while it is read, and a query that fails on other input is not to blame."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.adapters.spark.channel.attempt import AttemptLedger, Counted, ReadRange
from kcontrol.adapters.spark.engine.replay_check import ReplayCheck
from kcontrol.core.model import FailureKind, InputSlice, SourceSplit, StepBoundary, StepResult
from kcontrol.core.step.differences import NodePart
from kcontrol.errors import RetriableError, StepFailedError
from tests.unit.spark.works import TOPIC_ID, work

ONE, TWO, THREE = (f"{number:032x}" for number in (1, 2, 3))
SPLITS = (
    SourceSplit("events", 0, 0, 0, 5),
    SourceSplit("events", 1, 0, 5, 8),
    SourceSplit("events", 1, 1, 2, 3),
)
LOGGED = (
    InputSlice("events", "events", TOPIC_ID, 0, 0, 8, 7, THREE),
    InputSlice("events", "events", TOPIC_ID, 1, 2, 3, 1, ONE),
)
FIRST, SECOND, OTHER = (
    ReadRange("events", partition, *at) for partition, at in ((0, (0, 5)), (0, (5, 8)), (1, (2, 3)))
)


def boundary() -> StepBoundary:
    of = work(splits=SPLITS)
    return StepBoundary(
        pipeline="p",
        step=1,
        token=of.token,
        now_ms=of.now_ms,
        reason=of.reason,
        fingerprint="f",
        nodes=1,
        inputs=LOGGED,
        outputs=(),
        layout=of.layout,
        paused_inputs=(),
        opened_ms=1,
        committed_ms=1,
        skipped=(),
        watermark_moved=False,
    )


CHECK = ReplayCheck(boundary(), NodePart(frozenset({("events", 0), ("events", 1)}), {}, True), compares=True)


def attempt(check: ReplayCheck = CHECK) -> AttemptLedger:
    it = work(splits=SPLITS)
    return AttemptLedger(1, it, check.expected, frozenset({"a", "b"}), None, check.of_input(it))


def test_the_attempt_ends_with_the_last_split_of_a_partition_that_differs_and_before_any_query_is_done() -> (
    None
):
    it = attempt()
    it.report_read("a", FIRST, Counted(4, ONE))
    with pytest.raises(
        StepFailedError, match=r"step 1: input 'events' partition 0 differs: .* 7 records .* this run has 7"
    ) as failed:
        it.report_read("b", SECOND, Counted(3, ONE))
    assert failed.value.kind == FailureKind.DIGEST
    assert it.failure is failed.value
    with pytest.raises(StepFailedError):
        it.grant("a", 0, 7, 0)
    with pytest.raises(StepFailedError, match="partition 0 differs"):
        it.wait_results(1)


def test_the_same_input_is_taken_from_however_many_queries_read_it() -> None:
    it = attempt()
    for query in ("a", "b"):
        it.report_read(query, SECOND, Counted(3, TWO))
        it.report_read(query, FIRST, Counted(4, ONE))
        it.report_read(query, OTHER, Counted(1, ONE))
    assert it.failure is None


def test_who_compares_by_himself_is_told_of_everything() -> None:
    check = replace(CHECK, compares=False)
    it = attempt(check)
    it.report_read("a", OTHER, Counted(1, TWO))
    assert it.failure is None
    check.result(it, StepResult((), (), (), True))


def test_what_is_compared_once_all_is_known() -> None:
    it = attempt()
    CHECK.result(it, StepResult(LOGGED, (), (), False))
    assert it.failure is None
    with pytest.raises(StepFailedError, match="watermark differs") as failed:
        CHECK.result(it, StepResult(LOGGED, (), (), True))
    assert failed.value.kind == FailureKind.DIGEST
    assert it.failure is failed.value


def test_what_the_step_was_made_with_is_named_before_what_differs() -> None:
    check = replace(CHECK, made_otherwise="step 1 was made with machine x86_64; here is machine aarch64")
    said = r"^step 1 was made with machine x86_64; here is machine aarch64: step 1: (input|watermark)"
    it = attempt(check)
    with pytest.raises(StepFailedError) as early:
        it.report_read("a", OTHER, Counted(1, TWO))
    with pytest.raises(StepFailedError, match=said) as failed:
        check.explain(early.value, lambda: LOGGED)
    assert failed.value.kind == FailureKind.DIGEST
    with pytest.raises(StepFailedError, match=said):
        check.result(attempt(check), StepResult(LOGGED, (), (), True))
    with pytest.raises(StepFailedError, match=said):
        check.explain(BOOM, lambda: (replace(LOGGED[0], digest=ONE), LOGGED[1]))


BOOM = StepFailedError(FailureKind.QUERY, "step 1, query 'a': boom")


@pytest.mark.parametrize("compares", [True, False])
def test_a_query_that_fails_on_other_input_is_not_to_blame(compares: bool) -> None:
    check = replace(CHECK, compares=compares)
    check.explain(BOOM, lambda: LOGGED)
    other = (replace(LOGGED[0], digest=ONE), LOGGED[1])
    with pytest.raises(
        StepFailedError, match=r"input 'events' partition 0 differs: .*; with that its queries fail: .* boom"
    ) as failed:
        check.explain(BOOM, lambda: other)
    assert failed.value.kind == FailureKind.DIGEST


def test_what_can_not_be_read_again_or_failed_for_another_reason_is_left_as_it_is() -> None:
    def unreadable() -> tuple[InputSlice, ...]:
        raise RetriableError("no broker")

    CHECK.explain(BOOM, unreadable)

    def never() -> tuple[InputSlice, ...]:
        raise AssertionError("nothing is read for a task that was lost")

    CHECK.explain(StepFailedError(FailureKind.LOST, "lost"), never)

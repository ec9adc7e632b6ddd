"""The rules that keep two writers off one partition, and how an attempt ends, without Spark."""

from __future__ import annotations

import threading

import pytest

from kcontrol.adapters.spark.channel.attempt import AttemptCancelledError, AttemptLedger, Counted, ReadRange
from kcontrol.adapters.spark.channel.query_result import QueryResult
from kcontrol.core.model import FailureKind, OutputSlice, SourceSplit
from kcontrol.errors import StepFailedError
from tests.support.patience import HANG_S
from tests.unit.spark.works import work

RANGE = ReadRange("events", 0, 0, 10)
RESULT = QueryResult((), (), False)
DEADLINE_S = HANG_S


def attempt(*queries: str) -> AttemptLedger:
    return AttemptLedger(7, work(), None, frozenset(queries or ("q",)))


def slice_of(output: str, partition: int) -> OutputSlice:
    return OutputSlice(output, f"{output}-topic", partition, 5, 7, 2, "0" * 32)


def test_a_node_reads_its_own_partitions_and_no_others() -> None:
    """Both nodes have a task 0."""
    splits = tuple(SourceSplit("events", 0, partition, 0, 10) for partition in range(4))
    one, two = (
        AttemptLedger(1, work(splits=splits), None, frozenset({"q"}), frozenset(("events", p) for p in own))
        for own in ((0, 2), (1, 3))
    )
    assert [[split.partition for split in task] for task in one.source_tasks("events")] == [[0, 2]]
    assert [[split.partition for split in task] for task in two.source_tasks("events")] == [[1, 3]]


def test_each_writer_gets_leave_once() -> None:
    it = attempt()
    it.grant("q", 0, task_attempt=11, attempt_number=0)
    it.grant("q", 1, task_attempt=12, attempt_number=0)
    with pytest.raises(StepFailedError, match="ran writer 0 of query 'q' twice") as failed:
        it.grant("q", 0, task_attempt=13, attempt_number=0)
    assert failed.value.kind == FailureKind.LOST
    with pytest.raises(StepFailedError, match="twice"):
        it.wait_results(DEADLINE_S)


def test_a_task_that_spark_started_again_gets_no_leave_and_ends_the_attempt() -> None:
    it = attempt()
    with pytest.raises(StepFailedError, match="again, as its attempt 2"):
        it.grant("q", 0, task_attempt=11, attempt_number=1)
    with pytest.raises(StepFailedError, match="over"):
        it.grant("q", 1, task_attempt=12, attempt_number=0)


def test_a_source_task_that_spark_started_again_ends_the_attempt() -> None:
    it = attempt()
    with pytest.raises(StepFailedError, match="source task"):
        it.announce("q", 11, frozenset({0}), attempt_number=1)
    assert it.failure is not None


def test_after_a_cancel_nobody_gets_leave_and_waiting_batches_fail() -> None:
    it = attempt()
    ended: list[BaseException] = []

    def batch() -> None:
        try:
            it.wait_decision()
        except AttemptCancelledError as error:
            ended.append(error)

    thread = threading.Thread(target=batch)
    thread.start()
    it.cancel("stop")
    thread.join(DEADLINE_S)
    assert len(ended) == 1
    with pytest.raises(StepFailedError, match="over"):
        it.grant("q", 0, task_attempt=11, attempt_number=0)


def test_a_decided_attempt_is_not_cancelled() -> None:
    it = attempt()
    it.finish()
    it.cancel("too late")
    it.wait_decision()
    assert it.failure is None


def test_a_failed_attempt_is_not_finished() -> None:
    it = attempt()
    it.fail(FailureKind.QUERY, "division by zero")
    with pytest.raises(StepFailedError, match="division by zero"):
        it.finish()


def test_writers_that_keep_what_they_read_never_share_a_partition() -> None:
    it = attempt()
    it.announce("q", 11, frozenset({0, 4}), attempt_number=0)
    it.announce("q", 12, frozenset({1}), attempt_number=0)
    it.announce("q", 13, frozenset({5}), attempt_number=0)
    assert it.grant_classes("q", 0, 11, 0, modulus=4) == [0]
    assert it.grant_classes("q", 1, 12, 0, modulus=4) == [1]
    with pytest.raises(StepFailedError, match="tasks 12 and 13"):
        it.grant_classes("q", 2, 13, 0, modulus=4)


def test_what_the_writers_of_a_query_wrote_is_told_in_order() -> None:
    it = attempt("q", "r")
    it.grant("q", 0, task_attempt=11, attempt_number=0)
    it.grant("q", 1, task_attempt=12, attempt_number=0)
    it.grant("r", 0, task_attempt=13, attempt_number=0)
    it.report_written("q", 1, 12, (slice_of("out", 1),))
    it.report_written("q", 0, 11, (slice_of("out", 2), slice_of("bad", 0)))
    assert it.written("q") == (slice_of("bad", 0), slice_of("out", 1), slice_of("out", 2))
    it.report_written("r", 0, 13, ())
    assert it.written("r") == ()


def test_a_writer_that_says_nothing_of_what_it_wrote_ends_the_attempt() -> None:
    it = attempt()
    it.grant("q", 0, task_attempt=11, attempt_number=0)
    it.grant("q", 1, task_attempt=12, attempt_number=0)
    it.report_written("q", 0, 11, (slice_of("out", 0),))
    with pytest.raises(StepFailedError, match="writer 1 of query 'q' has not said what it wrote") as failed:
        it.written("q")
    assert failed.value.kind == FailureKind.LOST
    assert it.failure is failed.value


def test_only_who_has_leave_can_have_written() -> None:
    it = attempt()
    it.grant("q", 0, task_attempt=11, attempt_number=0)
    with pytest.raises(
        StepFailedError, match="task 12 says what it wrote as writer 0 of query 'q', and has no leave"
    ):
        it.report_written("q", 0, 12, (slice_of("out", 0),))
    with pytest.raises(StepFailedError, match="over"):
        it.report_written("q", 0, 11, (slice_of("out", 0),))


def test_results_of_all_queries_are_waited_for() -> None:
    it = attempt("a", "b")
    it.deliver("a", RESULT)
    with pytest.raises(StepFailedError, match="queries b did not end"):
        it.wait_results(0.01)
    it = attempt("a", "b")
    it.deliver("a", RESULT)
    it.deliver("b", RESULT)
    assert it.wait_results(DEADLINE_S).keys() == {"a", "b"}


def test_a_range_that_is_read_twice_counts_once_and_must_agree() -> None:
    it = attempt("a", "b")
    it.report_read("a", RANGE, Counted(10, "0f"))
    it.report_read("a", RANGE, Counted(10, "0f"))
    it.report_read("b", RANGE, Counted(10, "0f"))
    assert it.reads() == {RANGE: Counted(10, "0f")}
    with pytest.raises(StepFailedError, match="the topic changed"):
        it.report_read("a", RANGE, Counted(9, "0e"))


def test_queries_that_found_different_input_end_the_attempt() -> None:
    it = attempt("a", "b")
    it.report_read("a", RANGE, Counted(10, "0f"))
    it.report_read("b", RANGE, Counted(9, "0e"))
    with pytest.raises(StepFailedError, match="other records than its siblings"):
        it.reads()


def test_source_tasks_follow_the_layout_and_leave_out_empty_splits() -> None:
    splits = (
        SourceSplit("events", 0, 0, 0, 5),
        SourceSplit("events", 1, 1, 3, 3),
        SourceSplit("events", 1, 2, 0, 9),
        SourceSplit("others", 0, 0, 0, 1),
    )
    it = AttemptLedger(1, work(splits=splits), None, frozenset({"q"}))
    assert it.source_tasks("events") == [(splits[0],), (splits[2],)]


def test_an_attempt_is_planned_when_the_last_query_is() -> None:
    it = attempt("a", "b")
    it.planned("b")
    it.grant("b", 0, task_attempt=1, attempt_number=0)
    assert list(it.phases_ms) == ["writing"]
    it.planned("a")
    it.deliver("a", RESULT)
    it.deliver("b", RESULT)
    assert list(it.phases_ms) == ["writing", "planned", "written"]
    assert list(it.phases_ms.values()) == sorted(it.phases_ms.values())

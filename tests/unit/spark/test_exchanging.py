"""Stages of an attempt: what is ready for a node, who reads it, that all of it was read, and who waits for what."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kcontrol.adapters.spark.channel.attempt import AttemptCancelledError, AttemptLedger
from kcontrol.adapters.spark.channel.exchanging import Stages, dealt, runs_of
from kcontrol.adapters.spark.channel.messages import RunToRead
from kcontrol.adapters.spark.channel.query_result import QueryResult
from kcontrol.core.model import ExchangeRun, ExchangeSlice, FailureKind
from kcontrol.errors import StepFailedError
from tests.support.patience import HANG_S
from tests.unit.spark.works import work

ME, OTHER = 1, 0
DIGEST = "0" * 32
RESULT = QueryResult((), (), False)


def slice_of(partition: int, *runs: tuple[int, int, int, int]) -> ExchangeSlice:
    """runs: node, from, to, rows."""
    return ExchangeSlice(
        "x", partition, runs[0][1], runs[-1][2], tuple(ExchangeRun(*run, DIGEST) for run in runs)
    )


SENT = (slice_of(2, (OTHER, 0, 3, 30), (ME, 3, 4, 5)), slice_of(0, (ME, 7, 9, 20), (ME, 9, 10, 1)))
MINE = (RunToRead(0, 7, 9, 20), RunToRead(0, 9, 10, 1), RunToRead(2, 3, 4, 5))


def attempt(readers: int = 1) -> AttemptLedger:
    stages = Stages(ME, {"x.send": 0, "totals": 1, "totals.deliver": 2}, {"x": readers})
    return AttemptLedger(7, work(), None, frozenset(stages.of_work), stages=stages)


def test_what_is_for_a_node_comes_by_slot_and_offset() -> None:
    assert runs_of(SENT, ME) == {"x": MINE}
    assert runs_of(SENT, 5) == {"x": ()}


def test_runs_are_dealt_alike_whenever_they_are_and_each_once() -> None:
    hands = dealt(MINE, 2)
    assert hands == [(MINE[0],), (MINE[1], MINE[2])]
    assert dealt(MINE, 5)[3:] == [(), ()]
    assert dealt((), 2) == [(), ()]


def test_a_task_that_spark_runs_before_the_rows_are_there_ends_the_attempt_with_a_sentence() -> None:
    it = attempt()
    with pytest.raises(StepFailedError, match="'x' for query 'totals' while it plans it") as failed:
        it.begin_reading("totals", "x", 0, 11, 0)
    assert failed.value.kind is FailureKind.QUERY
    assert it.failure is failed.value


def test_a_task_reads_its_part_and_nothing_if_there_are_more_tasks_than_runs() -> None:
    it = attempt(readers=5)
    it.exchanging.begin(1, SENT)
    assert it.begin_reading("totals", "x", 1, 11, 0) == (MINE[1],)
    assert it.begin_reading("totals", "x", 4, 12, 0) == ()


def test_a_reader_that_spark_started_again_ends_the_attempt() -> None:
    it = attempt()
    it.exchanging.begin(1, SENT)
    with pytest.raises(StepFailedError, match="source task of query 'totals' again"):
        it.begin_reading("totals", "x", 0, 11, attempt_number=1)


def test_a_reader_that_comes_too_late_is_refused() -> None:
    it = attempt()
    it.exchanging.begin(1, SENT)
    it.cancel("stop")
    with pytest.raises(StepFailedError, match="over"):
        it.begin_reading("totals", "x", 0, 11, 0)


def test_rows_that_are_not_as_many_as_were_sent_end_the_attempt() -> None:
    it = attempt()
    it.exchanging.begin(1, SENT)
    with pytest.raises(StepFailedError, match="found 25 rows in exchange 'x', where 26 were sent") as failed:
        it.exchanging.report_taken("totals", "x", 0, 25)
    assert failed.value.kind is FailureKind.LOST


def test_what_no_task_has_read_to_the_end_is_known() -> None:
    it = attempt(readers=2)
    it.exchanging.begin(1, SENT)
    it.exchanging.report_taken("totals", "x", 0, 20)
    assert it.exchanging.untaken("totals", "x") == MINE[1:]
    it.exchanging.report_taken("totals", "x", 1, 6)
    assert it.exchanging.untaken("totals", "x") == ()


def test_a_sender_without_leave_has_sent_nothing() -> None:
    it = attempt()
    with pytest.raises(StepFailedError, match="no leave"):
        it.report_sent("x.send", 0, 11, SENT)
    assert it.exchanging.sent({"x.send"}) == ()


def test_a_sender_that_had_leave_and_says_nothing_is_missed() -> None:
    it = attempt()
    it.grant("x.send", 0, task_attempt=11, attempt_number=0)
    it.grant("x.send", 1, task_attempt=12, attempt_number=0)
    it.report_sent("x.send", 0, 11, SENT[:1])
    with pytest.raises(StepFailedError, match=r"writer 1 of query .x\.send. has not said"):
        it.written("x.send")


def test_results_are_waited_for_stage_by_stage() -> None:
    it = attempt()
    it.deliver("x.send", RESULT)
    assert it.wait_results(HANG_S, 0).keys() == {"x.send"}
    with pytest.raises(StepFailedError, match="queries totals did not end"):
        it.wait_results(0.0, 1)


def _waiting(it: AttemptLedger, query: str) -> tuple[threading.Thread, list[Any]]:
    ended: list[Any] = []

    def batch() -> None:
        try:
            it.wait_stage(query)
            ended.append("begun")
        except AttemptCancelledError as error:
            ended.append(error)

    thread = threading.Thread(target=batch)
    thread.start()
    return thread, ended


def test_a_batch_waits_for_its_stage() -> None:
    it = attempt()
    it.wait_stage("x.send")
    thread, ended = _waiting(it, "totals")
    late, ended_late = _waiting(it, "totals.deliver")
    it.exchanging.begin(1, SENT)
    thread.join(HANG_S)
    assert ended == ["begun"]
    assert not ended_late
    it.exchanging.begin(2, ())
    late.join(HANG_S)
    assert ended_late == ["begun"]


def test_a_batch_that_waits_for_its_stage_is_let_go_when_the_attempt_ends() -> None:
    it = attempt()
    thread, ended = _waiting(it, "totals")
    it.cancel("stop")
    thread.join(HANG_S)
    assert isinstance(ended[0], AttemptCancelledError)


def test_no_stage_begins_once_the_attempt_is_over_and_why_is_said() -> None:
    it = attempt()
    it.fail(FailureKind.QUERY, "division by zero")
    with pytest.raises(StepFailedError, match="division by zero") as failed:
        it.begin_stage(1, SENT)
    assert failed.value.kind is FailureKind.QUERY

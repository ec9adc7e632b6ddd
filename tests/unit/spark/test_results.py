"""What tasks reported becomes the step's record."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.adapters.spark.channel.attempt import AttemptLedger, Counted, ReadRange
from kcontrol.adapters.spark.channel.query_result import QueryResult
from kcontrol.adapters.spark.engine.results import step_result
from kcontrol.core.model import (
    EMPTY_DIGEST,
    InputRange,
    InputSlice,
    LateRows,
    OutputSlice,
    Skipped,
    SourceSplit,
)
from kcontrol.errors import StepFailedError
from kcontrol.wire.digest import INPUT_DIGEST_VERSION, add_digests
from tests.unit.spark.works import TOPIC_ID, work

ONE = f"{1:032x}"
SPLITS = (SourceSplit("events", 0, 0, 0, 5), SourceSplit("events", 1, 0, 5, 8))
WHOLE = InputRange("events", "events", TOPIC_ID, 0, 0, 8)
IDLE = InputRange("events", "events", TOPIC_ID, 1, 3, 3)


def attempt() -> AttemptLedger:
    return AttemptLedger(1, work(splits=SPLITS), None, frozenset({"a", "b"}))


def written(partition: int, digest: str = ONE) -> OutputSlice:
    return OutputSlice("out", "topic", partition, 10, 12, 2, digest)


def never(item: InputRange, split: SourceSplit) -> Counted:
    raise AssertionError(f"{split} was read by a task")


def result_of(*outputs: OutputSlice, skipped: tuple[Skipped, ...] = (), moved: bool = False) -> QueryResult:
    return QueryResult(outputs, skipped, moved)


def test_digests_add_up_modulo_2_to_the_128() -> None:
    assert add_digests([]) == EMPTY_DIGEST
    assert add_digests([f"{2**128 - 1:032x}", f"{3:032x}"]) == f"{2:032x}"


def test_splits_of_a_partition_become_one_slice_and_an_idle_partition_an_empty_one() -> None:
    it = attempt()
    it.report_read("a", ReadRange("events", 0, 0, 5), Counted(4, ONE))
    it.report_read("a", ReadRange("events", 0, 5, 8), Counted(3, ONE))
    results = {"a": result_of(written(1), moved=True), "b": result_of(written(0))}
    result = step_result(it, results, [WHOLE, IDLE], never, 0)
    assert result.inputs == (
        InputSlice("events", "events", TOPIC_ID, 0, 0, 8, 7, f"{2:032x}", INPUT_DIGEST_VERSION),
        InputSlice("events", "events", TOPIC_ID, 1, 3, 3, 0, EMPTY_DIGEST, INPUT_DIGEST_VERSION),
    )
    assert result.outputs == (written(0), written(1))
    assert result.watermark_moved


def test_what_no_task_read_is_counted_by_the_driver() -> None:
    it = attempt()
    it.report_read("a", ReadRange("events", 0, 0, 5), Counted(4, ONE))
    asked = []

    def read_again(item: InputRange, split: SourceSplit) -> Counted:
        asked.append(split)
        return Counted(3, ONE)

    result = step_result(it, {"a": result_of(), "b": result_of()}, [WHOLE], read_again, 0)
    assert asked == [SPLITS[1]]
    assert result.inputs[0].records == 7


def test_two_writers_of_a_partition_are_noticed_at_the_latest_here() -> None:
    it = attempt()
    with pytest.raises(StepFailedError, match="two tasks wrote to partition 1"):
        step_result(it, {"a": result_of(written(1)), "b": result_of(written(1))}, [], never, 0)
    assert it.failure is not None


def test_queries_must_agree_on_bad_records() -> None:
    agree = {"a": result_of(skipped=(Skipped("events", 2),)), "b": result_of(skipped=(Skipped("events", 2),))}
    assert step_result(attempt(), agree, [], never, 0).skipped == (Skipped("events", 2),)
    differ = {**agree, "b": result_of(skipped=(Skipped("events", 1),))}
    with pytest.raises(StepFailedError, match="disagree"):
        step_result(attempt(), differ, [], never, 0)


def test_late_rows_are_those_of_queries_that_count_them_on_this_node() -> None:
    results = {
        "b": replace(result_of(), late_rows=0),
        "a": replace(result_of(), late_rows=5),
        "c": result_of(),
    }
    assert step_result(attempt(), results, [], never, 2).late_rows == (
        LateRows("a", 2, 5),
        LateRows("b", 2, 0),
    )

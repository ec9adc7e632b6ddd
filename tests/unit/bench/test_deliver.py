"""The bench of deliveries: which rows there are, what a table must hold of them, and what is counted as their time."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bench.deliver.columns import APPEND, UPSERT
from bench.deliver.delta import number_of
from bench.deliver.figures import ALONE, SPARK, WHOLE, Commit, Rates, committed, rates, sides, without_rest
from bench.deliver.rows import Amounts, Numbers, check, key_of, record_of

STEP, ROWS = 16, 80
Columns = tuple[Numbers, Numbers, Amounts]


def table(mode: str) -> Columns:
    """As one that has taken the rows of their JSON one after the other."""
    sent = [json.loads(record_of(number, STEP)[1]) for number in range(ROWS)]
    kept = list({row["id"]: row for row in sent}.values()) if mode == UPSERT else sent
    kept.reverse()
    ids, numbers = (np.array([row[name] for row in kept], np.int64) for name in ("id", "number"))
    return ids, numbers, np.array([row["amount"] for row in kept], np.float64)


@pytest.mark.parametrize("mode", [APPEND, UPSERT])
def test_a_table_with_every_row_is_whole(mode: str) -> None:
    check(mode, ROWS, STEP, *table(mode))


@pytest.mark.parametrize("mode", [APPEND, UPSERT])
def test_a_row_that_is_missing_or_there_again_is_told(mode: str) -> None:
    ids, numbers, amounts = table(mode)
    with pytest.raises(RuntimeError, match="1 are missing"):
        check(mode, ROWS, STEP, ids[1:], numbers[1:], amounts[1:])
    again = [np.concatenate((each, each[:1])) for each in (ids, numbers, amounts)]
    with pytest.raises(RuntimeError, match="1 are there again; 0 are missing"):
        check(mode, ROWS, STEP, again[0], again[1], again[2])


def test_an_older_row_of_a_key_is_told() -> None:
    ids, numbers, amounts = table(UPSERT)
    newer = next(at for at in range(len(ids)) if ids[at] != numbers[at])
    numbers[newer] = ids[newer]
    with pytest.raises(RuntimeError, match="1 are missing"):
        check(UPSERT, ROWS, STEP, ids, numbers, amounts)


def test_another_amount_is_told() -> None:
    ids, numbers, amounts = table(APPEND)
    amounts[0] += 1
    with pytest.raises(RuntimeError, match="1 rows of the table have another key or amount"):
        check(APPEND, ROWS, STEP, ids, numbers, amounts)


def test_a_key_that_comes_again_has_come_in_a_step_before_and_of_each_step_rows_stay() -> None:
    keys = [key_of(number, STEP) for number in range(ROWS)]
    again = [number for number in range(ROWS) if keys[number] != number]
    assert len(again) == (ROWS - STEP) // 4
    assert all(keys[number] // STEP < number // STEP for number in again)
    written_again = {keys[number] for number in again}
    assert all(set(range(step, step + STEP)) - written_again - set(again) for step in range(0, ROWS, STEP))


def test_what_counts_is_from_the_end_of_the_warm_up() -> None:
    commits = committed([0, 500, 1_000, 2_000], [100, 100, 10, 20])
    assert rates(commits, 2) == Rates(20, 4 / 3)
    assert rates(commits, 2, since_ms=1_000) == Rates(30, 2)
    with pytest.raises(RuntimeError, match="too few"):
        rates(commits, 4)


def test_each_step_has_one_transaction() -> None:
    with pytest.raises(RuntimeError, match="2 transactions with rows, and there were 3 steps"):
        committed([0, 1], [1, 1, 1])


def test_what_was_left_over_does_not_count() -> None:
    commits = [Commit(at, rows) for at, rows in enumerate((999, 999, 998, 4))]
    assert without_rest(commits, 1_000) == commits[:3]
    assert without_rest(commits[:3], 1_000) == commits[:3]


def test_sides_are_compared_by_their_medians() -> None:
    runs = [(ALONE, 90), (SPARK, 10), (WHOLE, 30), (SPARK, 30), (ALONE, 50), (WHOLE, 10)]
    found = sides([(side, Rates(rows, 1)) for side, rows in runs])
    assert [(each.side, each.rows_per_s.median, each.times_as_fast) for each in found] == [
        (SPARK, 20, 1),
        (WHOLE, 20, 1),
        (ALONE, 70, 3.5),
    ]
    [alone] = sides([(ALONE, Rates(1, 1))])
    assert alone.times_as_fast is None


def test_a_commit_of_delta_lake_has_the_number_of_its_step() -> None:
    step = '{"commitInfo":{}}\n{"txn":{"appId":"a","version":7,"lastUpdated":1}}\n{"add":{}}\n'
    assert number_of(step) == 7
    assert number_of('{"metaData":{}}\n{"commitInfo":{}}\n') is None

"""A peer's output has every record once, and each key's whole count and sum, or its run has no figure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bench.peers.checks import Order, check_numbers, check_rows, numbers_of, totals
from bench.topics import KEYS, record


def batches(*numbers: list[int]) -> list[np.ndarray]:
    return [np.array(each, dtype=np.int64) for each in numbers]


def test_records_in_any_order_are_all_there() -> None:
    check_numbers(iter(batches([3, 1], [], [0, 2])), 4)


def test_a_record_that_is_missing_and_one_that_came_twice_are_told() -> None:
    with pytest.raises(RuntimeError, match="of 4 records 2 are missing and 1 came more than once"):
        check_numbers(iter(batches([3, 1], [1])), 4)


def test_a_record_that_was_never_sent_is_told() -> None:
    with pytest.raises(RuntimeError, match="record 4 was never sent"):
        check_numbers(iter(batches([0, 4])), 4)


def rows(*placed: tuple[int, int]) -> pa.RecordBatch:
    """Of partitions of the sink and numbers."""
    partitions, values = [each for each, _ in placed], [record(number)[1] for _, number in placed]
    return pa.RecordBatch.from_arrays(
        [pa.array(partitions, pa.int32()), pa.array(values, pa.binary())], ["partition", "value"]
    )


def test_records_of_both_partitions_of_the_source_may_meet_in_any_way() -> None:
    order = Order()
    assert order.numbers_of(rows((0, 1), (0, 0), (0, 2), (1, 4), (1, 3))).tolist() == [1, 0, 2, 4, 3]
    assert order.numbers_of(rows((0, 5), (1, 6))).tolist() == [5, 6]


@pytest.mark.parametrize("later", [[(0, 3), (0, 1)], [(0, 0), (0, 2)], [(1, 7), (0, 2)]])
def test_a_record_that_has_overtaken_one_of_its_partition_is_told(later: list[tuple[int, int]]) -> None:
    order = Order()
    order.numbers_of(rows((0, 2)))
    with pytest.raises(RuntimeError, match=r"record \d comes after record \d in partition 0 of the output"):
        order.numbers_of(rows(*later))


def test_numbers_are_read_from_values_of_a_batch_that_is_a_slice() -> None:
    values = pa.array([record(number)[1] for number in (5, 123_456_789, 7)], pa.binary())
    assert numbers_of(values.slice(1)).tolist() == [123_456_789, 7]


@pytest.mark.parametrize("values", [[b"000000000001"], [record(1)[1], None]])
def test_a_value_of_another_length_is_no_record_of_ours(values: list[bytes | None]) -> None:
    with pytest.raises(RuntimeError, match="not as long as those that were sent"):
        numbers_of(pa.array(values, pa.binary()))


def test_totals_are_those_of_a_count_one_by_one() -> None:
    counted: dict[bytes, tuple[int, int]] = {}
    for number in range(2 * KEYS + 7):
        count, total = counted.get(record(number)[0], (0, 0))
        counted[record(number)[0]] = count + 1, total + number
    assert totals(2 * KEYS + 7) == {key: b"%d,%d" % each for key, each in counted.items()}


def test_a_count_that_is_wrong_is_told_by_its_key() -> None:
    rows = totals(3_000)
    check_rows(rows, 3_000)
    with pytest.raises(RuntimeError, match="1 keys have a wrong last row, b'user-0919' has b'2,77' instead"):
        check_rows(rows | {record(1)[0]: b"2,77"}, 3_000)

"""How many bytes are asked for, from what the last fetches of a topic held."""

from __future__ import annotations

from kcontrol.adapters.kafka.client.fetch_size import SMALLEST_FETCH_BYTES, FetchSize
from kcontrol.wire.batches import Batch

MOST = 8 << 20


def batches(count: int, offsets: int, size_bytes: int, gap: int = 0) -> list[Batch]:
    """So many batches in a row, each of `size_bytes` for `offsets` offsets; `gap`
    offsets are missing after each."""
    step = offsets + gap
    return [
        Batch(n * size_bytes, (n + 1) * size_bytes, n * step, 0, offsets - 1, 0, 0, -1, -1, -1, offsets)
        for n in range(count)
    ]


def test_many_offsets_are_asked_for_with_the_most_there_may_be() -> None:
    assert FetchSize().for_offsets(1_000_000, MOST) == MOST


def test_a_small_range_of_small_records_needs_little() -> None:
    size = FetchSize()
    for _ in range(20):
        size.learn(batches(10, offsets=100, size_bytes=10_000))
    assert size.for_offsets(1_000, MOST) == 1_000 * 100 + 10_000
    assert size.for_offsets(1, MOST) == SMALLEST_FETCH_BYTES
    assert size.for_offsets(1, 10) == 10


def test_large_batches_are_asked_for_whole() -> None:
    size = FetchSize()
    size.learn(batches(2, offsets=10_000, size_bytes=1_000_000))
    assert 1_000_000 < size.for_offsets(500, MOST) < 3_000_000


def test_larger_records_count_at_once_and_smaller_ones_by_and_by() -> None:
    size = FetchSize()
    size.learn(batches(1, offsets=10, size_bytes=1_000_000))
    grown = size.for_offsets(20, MOST)
    assert grown >= 2_000_000
    for _ in range(3):
        size.learn(batches(5, offsets=1_000, size_bytes=20_000))
    assert SMALLEST_FETCH_BYTES < size.for_offsets(20, MOST) < grown / 3


def test_nothing_is_learned_of_a_fetch_without_a_whole_batch() -> None:
    size = FetchSize()
    before = size.for_offsets(100, MOST)
    size.learn([])
    assert size.for_offsets(100, MOST) == before


def test_gaps_of_a_compacted_topic_count() -> None:
    size = FetchSize()
    for _ in range(20):
        size.learn(batches(100, offsets=1, size_bytes=1_000, gap=99))
    assert size.for_offsets(100_000, MOST) < 1_100_000


def test_a_batch_that_did_not_fit_is_asked_for_whole_the_next_time() -> None:
    size = FetchSize()
    size.learn_of_larger(700_000)
    assert 700_000 <= size.for_offsets(1, MOST) < 800_000
    size.learn_of_larger(2_000_000_000)
    assert size.for_offsets(1, MOST) == MOST
    for _ in range(20):
        size.learn(batches(1, offsets=100, size_bytes=10_000))
    assert size.for_offsets(1, MOST) == SMALLEST_FETCH_BYTES

"""Rows that follow from an address: due when their times say, dealt out without a gap, the same however they are cut."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcontrol.adapters.generated.rows import generated_times_us, read_rows
from kcontrol.errors import ConfigurationError, InputGoneError
from kcontrol.wire.addresses import ROWS_ID, ClockAddress, GeneratorAddress, address_of, is_topic
from kcontrol.wire.digest import EMPTY

_ADDRESSES = st.builds(
    GeneratorAddress,
    partitions=st.integers(1, 9),
    rows_per_second=st.integers(1, 10**9),
    ramp_up_ms=st.integers(0, 10_000),
    rows=st.integers(0, 10**6),
    seed=st.integers(0, 10**18 - 1),
    start_ms=st.integers(-(10**12), 2 * 10**12),
)


@given(_ADDRESSES | st.builds(ClockAddress, every_ms=st.integers(1, 10**9)))
def test_an_address_is_read_from_its_text_and_is_no_topic(address: GeneratorAddress | ClockAddress) -> None:
    assert address_of(address.text) == address
    assert not is_topic(address.text)


@given(_ADDRESSES, st.integers(-1_000, 100_000))
def test_rows_are_due_when_their_time_has_come(address: GeneratorAddress, after_ms: int) -> None:
    at_ms = address.start_ms + after_ms
    due = address.due(at_ms)
    assert sum(address.ends(at_ms)) == due
    assert due == 0 or address.time_us(due - 1) <= at_ms * 1_000
    there_are_more = address.rows == 0 or due < address.rows
    assert not there_are_more or address.time_us(due) >= at_ms * 1_000
    next_ms = address.next_due_ms(at_ms)
    assert (next_ms is not None) is there_are_more
    assert next_ms is None or address.due(next_ms + 1) > due


@given(_ADDRESSES, st.integers(0, 10**12))
def test_many_times_at_once_are_those_of_each_row(address: GeneratorAddress, first: int) -> None:
    numbers = np.arange(first, first + 50, dtype=np.int64)
    times = generated_times_us(address, numbers)
    for number, time_us in zip(numbers.tolist(), times.tolist(), strict=True):
        assert abs(time_us - address.time_us(number)) <= (1 if number < address.ramp_rows else 0)
    assert all(before <= after for before, after in itertools.pairwise(times))


@given(
    _ADDRESSES.map(lambda one: replace(one, rows=0)), st.lists(st.integers(0, 500), min_size=2, max_size=5)
)
def test_rows_and_digest_do_not_see_how_they_were_cut(address: GeneratorAddress, cuts: list[int]) -> None:
    cuts = sorted({0, 500, *cuts})
    whole = read_rows("load", address.text, ROWS_ID, [(0, 0, 500)], ["a", "b"])
    parts = read_rows(
        "load",
        address.text,
        ROWS_ID,
        [(0, lo, hi) for lo, hi in itertools.pairwise(cuts)],
        ["a", "b"],
    )
    rows = [row for batch in whole for row in batch.to_pylist()]
    assert rows == [row for batch in parts for row in batch.to_pylist()]
    assert [row["value"] for row in rows] == [offset * address.partitions for offset in range(500)]
    assert whole.digest == sum(parts.digests, EMPTY)
    assert whole.records == 500


def test_another_seed_row_or_start_is_another_digest() -> None:
    base = GeneratorAddress(1, 10, 0, 0, 1, 0)
    found = set()
    for address, begin in (
        (base, 0),
        (base, 1),
        (GeneratorAddress(1, 10, 0, 0, 2, 0), 0),
        (GeneratorAddress(1, 11, 0, 0, 1, 0), 0),
    ):
        read = read_rows("load", address.text, ROWS_ID, [(0, begin, begin + 10)])
        assert sum(batch.num_rows for batch in read) == 10
        found.add(read.digest)
    assert len(found) == 4


def test_the_first_rows_are_these_for_ever() -> None:
    """What was committed must be made again by every later version; a change needs another ROWS_ID."""
    read = read_rows(
        "load",
        "generator:partitions=2,rows_per_second=4,ramp_up_ms=1000,rows=0,seed=7,start_ms=1000",
        ROWS_ID,
        [(1, 0, 3)],
        ["r"],
    )
    rows = [row for batch in read for row in batch.to_pylist()]
    assert [(row["value"], round(row["timestamp"].timestamp() * 1e6)) for row in rows] == [
        (1, 1_707_106),
        (3, 2_250_000),
        (5, 2_750_000),
    ]
    assert [row["r"] for row in rows] == [0.9674291405572664, 0.786480717500127, 0.5777789941878506]
    assert read.digest.hex == "6946b2769e99c56284f4652d35b0b5af"


def test_bad_addresses_and_ranges_are_refused() -> None:
    for bad, word in (
        ("sftp:host=1", "begin with"),
        ("generator:rows=1", "must be generator:"),
        ("clock:every_ms=x", "must be clock:"),
        ("clock:every_ms=1,every_ms=1", "must be clock:"),
        ("clock:every_ms=0", "no input can have"),
        (
            "generator:partitions=1,rows_per_second=0,ramp_up_ms=0,rows=0,seed=0,start_ms=0",
            "no input can have",
        ),
    ):
        with pytest.raises(ConfigurationError, match=word):
            address_of(bad)
    bounded = "generator:partitions=2,rows_per_second=0,ramp_up_ms=0,rows=5,seed=0,start_ms=0"
    with pytest.raises(InputGoneError, match="no offset 2 in partition 1: 2 are there"):
        read_rows("load", bounded, ROWS_ID, [(1, 0, 3)])
    with pytest.raises(InputGoneError, match="made with rows of version 'rows-0'"):
        read_rows("load", bounded, "rows-0", [(0, 0, 1)])

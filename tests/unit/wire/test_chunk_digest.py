"""The digest of rows that are exchanged: two sums, none of which carries into the other."""

from __future__ import annotations

import numpy as np
import pytest

from kcontrol.errors import DamagedRecordError
from kcontrol.wire.chunk_digest import NO_ROWS, RowsDigest, by_node


def test_it_is_written_as_both_sums_in_order() -> None:
    assert NO_ROWS.hex == "0" * 32
    digest = RowsDigest.of(np.array([-1, 3], np.int64), np.array([5, -1], np.int64))
    assert (digest.rows, digest.hex) == (2, "00000000000000020000000000000004")


def test_the_second_sum_does_not_carry_into_the_first() -> None:
    full = RowsDigest.parsed(1, "0000000000000001ffffffffffffffff")
    assert (full + RowsDigest(1, 0, 1)).hex == "00000000000000010000000000000000"


def test_what_is_exact_lies_between_and_is_there_if_all_rows_have_it() -> None:
    ones, twos = np.array([1, 1], np.int64), np.array([2, 2], np.int64)
    exact = RowsDigest.of(ones, twos, (np.array([3, 4], np.int64), np.array([5, -1], np.int64)))
    assert exact.hex == "".join(f"{each:016x}" for each in (2, 7, 4, 4))
    assert RowsDigest.parsed(2, exact.hex) == exact
    assert NO_ROWS + exact == exact + NO_ROWS == exact
    assert (exact + exact).hex == "".join(f"{each:016x}" for each in (4, 14, 8, 8))
    assert (exact + RowsDigest.of(ones, twos)).hex == f"{4:016x}{8:016x}"
    [found] = by_node(np.array([6, 6], np.int32), ones, twos, (twos, ones)).values()
    assert found.exact == (4, 2)


def test_who_knows_only_plain_digests_reads_the_plain_one() -> None:
    """Versions of kcontrol before exact ones split the digits at 16 and count modulo 2**64."""
    row = np.array([-5], np.int64)
    plain, exact = RowsDigest.of(row, row - 1), RowsDigest.of(row, row - 1, (row - 2, row - 3))
    as_before = int(exact.hex[:16], 16), int(exact.hex[16:], 16) % 2**64
    assert as_before == (plain.first, plain.second)


@pytest.mark.parametrize("digits", ["", "0" * 31, "0" * 33, "0" * 48, "x" * 32, "x" * 64])
def test_what_is_no_digest_is_refused(digits: str) -> None:
    with pytest.raises(DamagedRecordError, match="is not the digest of an exchange"):
        RowsDigest.parsed(1, digits)


def test_a_row_needs_both_hashes() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="2 rows need as many hashes of each kind, not 2 and 1"):
        by_node(np.zeros(2, np.int32), two, one)

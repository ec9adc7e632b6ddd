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


@pytest.mark.parametrize("digits", ["", "0" * 31, "0" * 33, "x" * 32])
def test_what_is_no_digest_is_refused(digits: str) -> None:
    with pytest.raises(DamagedRecordError, match="is not the digest of an exchange"):
        RowsDigest.parsed(1, digits)


def test_a_row_needs_both_hashes() -> None:
    one, two = np.zeros(1, np.int64), np.zeros(2, np.int64)
    with pytest.raises(ValueError, match="2 rows need as many hashes of each kind, not 2 and 1"):
        by_node(np.zeros(2, np.int32), two, one)

"""The digest's definition: what it tells apart, what it does not depend on, and values that may never change."""

from __future__ import annotations

import random

import mmh3
import pytest

from kcontrol.core.model import EMPTY_DIGEST
from kcontrol.wire.digest import EMPTY, Digest, DigestKind, murmur3_128, record_digest


def test_the_hash_is_murmur3_x64_128() -> None:
    rng = random.Random(4)
    for length in range(70):
        data = rng.randbytes(length)
        assert murmur3_128(data) == mmh3.hash128(data, seed=0, x64arch=True, signed=False)


@pytest.mark.parametrize(
    ("kind", "number", "key", "value", "headers", "digits"),
    [
        (DigestKind.OUTPUT, 4, b"carrier", b'{"delay": 3}', (), "926717e1fd0512f784b723aec44d791e"),
        (DigestKind.OUTPUT, 1, None, None, (), "23a5a082ab255f9c45fa36fa4afdfe16"),
        (DigestKind.INPUT, 1 << 40, b"", b"v", (("a", None), ("a", b"")), "2252d3a5f19b62a1e6e80d66b75037de"),
    ],
)
def test_golden_values(
    kind: DigestKind,
    number: int,
    key: bytes | None,
    value: bytes | None,
    headers: tuple[tuple[str, bytes | None], ...],
    digits: str,
) -> None:
    assert record_digest(kind, number, key, value, headers).hex == digits


def test_different_records_have_different_digests() -> None:
    records = [
        (DigestKind.OUTPUT, 1, None, None, ()),
        (DigestKind.OUTPUT, 2, None, None, ()),
        (DigestKind.INPUT, 1, None, None, ()),
        (DigestKind.OUTPUT, 1, b"", None, ()),
        (DigestKind.OUTPUT, 1, None, b"", ()),
        (DigestKind.OUTPUT, 1, b"a", b"b", ()),
        (DigestKind.OUTPUT, 1, b"ab", b"", ()),
        (DigestKind.OUTPUT, 1, b"", b"ab", ()),
        (DigestKind.OUTPUT, 1, None, None, (("", None),)),
        (DigestKind.OUTPUT, 1, None, None, (("", b""),)),
        (DigestKind.OUTPUT, 1, None, None, (("a", b"b"), ("c", b"d"))),
        (DigestKind.OUTPUT, 1, None, None, (("c", b"d"), ("a", b"b"))),
        (DigestKind.OUTPUT, 1, None, None, (("a", b"bcd"),)),
    ]
    assert len({record_digest(*record).hex for record in records}) == len(records)


def test_equal_records_do_not_cancel_out() -> None:
    one = record_digest(DigestKind.OUTPUT, 1, b"k", b"v", ())
    assert one + one != EMPTY
    assert (one + one).records == 2
    assert one + one != one + one + one


def test_the_sum_wraps_and_keeps_its_digits() -> None:
    nearly = Digest(1, 2**128 - 1)
    assert (nearly + Digest(1, 2)) == Digest(2, 1)
    assert nearly.hex == "f" * 32
    assert EMPTY.hex == EMPTY_DIGEST
    assert Digest.from_hex(2, Digest(2, 77).hex) == Digest(2, 77)


def test_a_wrong_number_of_digits_is_refused() -> None:
    with pytest.raises(ValueError, match="32 hexadecimal digits"):
        Digest.from_hex(1, "abc")


def test_counting_covers_nothing_but_the_count() -> None:
    assert record_digest(DigestKind.NONE, 1, b"k", b"v", ()) == Digest(1, 0)

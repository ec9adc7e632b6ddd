"""The digest's definition: what it tells apart, what it does not depend on, and values that may never
change."""

from __future__ import annotations

import random

import mmh3
import pytest

from kcontrol.core.model import EMPTY_DIGEST
from kcontrol.errors import ConfigurationError
from kcontrol.wire.digest import (
    EMPTY,
    INPUT_DIGEST_VERSION,
    Digest,
    DigestKind,
    input_kind,
    murmur3_128,
    record_digest,
)

GOLDEN_TIMED = "e45159364860b9c9222d85bdc1263f63"


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
        (
            DigestKind.INPUT_UNTIMED,
            1 << 40,
            b"",
            b"v",
            (("a", None), ("a", b"")),
            "2252d3a5f19b62a1e6e80d66b75037de",
        ),
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
        (DigestKind.INPUT_UNTIMED, 1, None, None, ()),
        (DigestKind.INPUT, 1, None, None, ()),
        (DigestKind.INPUT, 1, None, None, (), 1),
        (DigestKind.INPUT, 1, None, None, (), 1, True),
        (DigestKind.INPUT, 1, None, None, (), -1),
        (DigestKind.INPUT, 1, None, None, (), -1, True),
        (DigestKind.INPUT, 1, None, None, (), (2**63 - 1) // 1000),
        (DigestKind.INPUT, 1, None, None, (), -((2**63 - 1) // 1000)),
        (DigestKind.INPUT, 1, None, None, (("a", b"b"),)),
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


def test_the_time_of_a_record_is_hashed_as_it_is_written_down() -> None:
    prefix = (1_700_000_000_123 << 9 | 1 << 8 | 3).to_bytes(8, "little") + (5).to_bytes(8, "little")
    wanted = mmh3.hash128(prefix + b"\x02k\x02v\x00", seed=0, x64arch=True, signed=False)
    assert (
        record_digest(DigestKind.INPUT, 5, b"k", b"v", (), 1_700_000_000_123, append_time=True).total
        == wanted
    )
    assert (
        record_digest(DigestKind.INPUT, 5, b"k", b"v", (), 1_700_000_000_123, append_time=True).hex
        == GOLDEN_TIMED
    )


def test_only_input_is_known_by_its_time() -> None:
    for kind in (DigestKind.OUTPUT, DigestKind.INPUT_UNTIMED, DigestKind.NONE):
        assert record_digest(kind, 1, b"k", b"v", (), 7, append_time=True) == record_digest(
            kind, 1, b"k", b"v", ()
        )


def test_a_version_that_is_not_known_is_refused() -> None:
    assert [input_kind(version) for version in (1, INPUT_DIGEST_VERSION)] == [
        DigestKind.INPUT_UNTIMED,
        DigestKind.INPUT,
    ]
    with pytest.raises(
        ConfigurationError, match="version 3, of a newer kcontrol; this one knows up to version 2"
    ):
        input_kind(3)


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
    assert Digest(2, 77).hex == "0" * 30 + "4d"


def test_counting_covers_nothing_but_the_count() -> None:
    assert record_digest(DigestKind.NONE, 1, b"k", b"v", ()) == Digest(1, 0)

"""Hashes of rows: the compiled loops against what can be read, and that against vectors of Spark and of xxHash."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from kcontrol.wire import row_hash
from kcontrol.wire.batches import codec_named
from tests.support.dice import seeded

_UNSIGNED = (1 << 64) - 1


@pytest.mark.parametrize(
    ("found", "signed"),
    [
        # Of xxHash, and of Spark's Murmur3_x86_32Suite, with the seed 0.
        (row_hash.xx_bytes(b"", 0), 0xEF46DB3751D8E999),
        (row_hash.xx_bytes(b"abc", 0), 0x44BC2CF5AD770999),
        (row_hash.murmur_int(0, 0), 593689054),
        (row_hash.murmur_int(-42, 0), -189366624),
        (row_hash.murmur_int(42, 0), -1134849565),
        (row_hash.murmur_long(0, 0), 1669671676),
        (row_hash.murmur_long(-42, 0), -846261623),
        (row_hash.murmur_long(42, 0), 1871679806),
    ],
)
def test_vectors(found: int, signed: int) -> None:
    bits = 64 if found >> 32 else 32
    assert found == signed & (1 << bits) - 1


def test_loops_give_what_can_be_read() -> None:
    dice = seeded()
    for size in range(100):
        rows = [dice.randbytes(size), None, dice.randbytes(dice.randrange(200)), b""]
        ints: list[int | None] = [dice.randrange(-(1 << 31), 1 << 31), None, -1, 0]
        longs: list[int | None] = [None, dice.randrange(-(1 << 63), 1 << 63), -1, 1 << 40]
        columns = [
            pa.array([None, *rows], pa.binary()).slice(1),
            pa.array(ints, pa.int32()),
            pa.array(longs, pa.int64()),
            pa.array([True, False, None, True]),
            pa.array(longs, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        ]
        first, second = row_hash.row_hashes(columns, 4)
        shards = row_hash.shards_of(columns, 4, 1_000)
        for row in range(4):
            values = [rows[row], ints[row], longs[row], (1, 0, None, 1)[row], longs[row]]
            mask = sum(1 << number for number, value in enumerate(values) if value is None)
            for number, found in ((1, first), (2, second)):
                code = row_hash.xx_long(mask, row_hash.xx_int(number, row_hash.SEED))
                code = folded(values, code, row_hash.xx_bytes, row_hash.xx_int, row_hash.xx_long)
                assert int(found[row]) & _UNSIGNED == code
            of = (row_hash.murmur_bytes, row_hash.murmur_int, row_hash.murmur_long)
            code = folded(values, row_hash.SEED, *of)
            assert shards[row] == (code - (1 << 32) if code >> 31 else code) % 1_000


def folded(
    values: list[bytes | int | None],
    code: int,
    of_bytes: Callable[[bytes, int], int],
    of_int: Callable[[int, int], int],
    of_long: Callable[[int, int], int],
) -> int:
    for number, value in enumerate(values):
        if isinstance(value, bytes):
            code = of_bytes(value, code)
        elif value is not None:
            code = (of_int if number in (1, 3) else of_long)(value, code)
    return code


def test_without_a_compiler_it_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    dice = seeded()
    columns = [
        pa.array([dice.randbytes(dice.randrange(80)) for _ in range(20)] + [None], pa.binary()),
        pa.array([str(dice.random()) for _ in range(20)] + [None]).dictionary_encode(),
        pa.array([dice.randrange(1 << 31) for _ in range(20)] + [None], pa.int32()),
    ]
    found = hashed(columns)
    monkeypatch.setattr(row_hash, "default_codec", lambda: codec_named("reference"))
    assert hashed(columns) == found


def hashed(columns: list[pa.Array]) -> list[list[int]]:
    rows = len(columns[0])
    first, second = row_hash.row_hashes(columns, rows)
    return [first.tolist(), second.tolist(), row_hash.shards_of(columns, rows, 7).tolist()]


def test_without_columns_all_rows_are_of_the_first_shard_and_alike() -> None:
    assert row_hash.shards_of([], 3, 8).tolist() == [0, 0, 0]
    first, second = row_hash.row_hashes([], 3)
    assert len({*first.tolist()}) == len({*second.tolist()}) == 1
    assert first[0] != second[0]

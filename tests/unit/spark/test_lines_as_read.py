"""JSON lines of files, taken apart where they lie: what Spark gets of them is what it would get of copies of them."""

from __future__ import annotations

import json
import random
from collections.abc import Collection, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType

from kcontrol.adapters.files.lines import read_lines
from kcontrol.adapters.spark.channel.attempt import Counted
from kcontrol.adapters.spark.source.reading import joined, read_file_lines
from kcontrol.adapters.spark.values.json_columns import JsonColumns
from kcontrol.adapters.spark.values.json_types import PLACES, UNPARSED, json_column, left_column
from kcontrol.wire.batches.codec import CODEC_VARIABLE, default_codec
from kcontrol.wire.files import LINES_ID, FileAddress
from tests.support.dice import say_seed, seed_of_run

SCHEMA = StructType().add("id", "string").add("amount", "integer").add("note", "string")
MOST_BYTES = 400
FIELDS, LEFT = tuple(map(json_column, range(3))), tuple(map(left_column, PLACES))
NOTHING_ELSE = ("wrong", UNPARSED, *FIELDS, *LEFT)
"""What a query looks at that takes nothing but fields."""
EVERYTHING = None

Ranges = list[tuple[int, int, int]]


@pytest.mark.parametrize(
    "columns", [EVERYTHING, NOTHING_ELSE, ("value", "offset", "wrong", UNPARSED, json_column(1))]
)
def test_lines_where_they_lie_give_what_copies_of_them_give(
    tmp_path: Path, columns: Collection[str] | None
) -> None:
    seed = seed_of_run()
    say_seed(seed)
    dice = random.Random(seed)
    for story in range(30):
        directory = tmp_path / str(story)
        directory.mkdir()
        size = 0
        for number in range(dice.randint(1, 4)):
            data = b"".join(_lines(dice, dice.choice([0, 1, 3, 40, 9_000])))
            (directory / f"{number}.ndjson").write_bytes(data)
            size += len(data)
        cuts = sorted({0, size, *(dice.randint(0, size) for _ in range(dice.randint(0, 3)))})
        ranges = [(0, lo, hi) for lo, hi in pairwise(cuts)]
        topic = FileAddress(str(directory), "*.ndjson", False, False, MOST_BYTES).text
        found, counted = _read(topic, ranges, columns)
        expected, digests = _copied(topic, ranges)
        assert counted == digests
        kept = expected.column_names if columns is None else list(columns)
        if found.num_rows == 0:
            continue
        lines = expected.column("value").to_pylist()
        _check_places(found.to_pylist(), expected.to_pylist(), set(LEFT) & set(kept))
        both = zip(*(each.select(kept).to_pylist() for each in (found, expected)), lines, strict=True)
        for row, copied, line in both:
            assert _settled(row, line) == _settled(copied, line), line
            assert not _is_sure(line) or row[UNPARSED] is None, line
        others = set(expected.column_names) - set(kept)
        assert [name for name in others if found.column(name).null_count < found.num_rows] == []


def test_without_compiled_loops_the_same_lines_are_left_to_spark(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.ndjson"
    file.write_bytes(b'{"id":"a"}\n\n{"id":"b"}\r\n')
    topic = FileAddress(str(file), "", False, False, MOST_BYTES).text
    _, compiled = _read(topic, [(0, 0, 24)], EVERYTHING)
    monkeypatch.setenv(CODEC_VARIABLE, "reference")
    default_codec.cache_clear()
    try:
        found, counted = _read(topic, [(0, 0, 24)], NOTHING_ELSE)
    finally:
        default_codec.cache_clear()
    assert found.column(UNPARSED).to_pylist() == [b'{"id":"a"}', b'{"id":"b"}']
    assert found.column(left_column("offset")).to_pylist() == [0, 12]
    assert counted == compiled


def _check_places(
    found: list[dict[str, Any]], expected: list[dict[str, Any]], looked_at: Collection[str]
) -> None:
    """Lines that may be bad say where they are, and no others."""
    for row, whole in zip(found, expected, strict=True):
        may_be_bad = row[UNPARSED] is not None or row["wrong"] is not None
        for name in PLACES:
            told = left_column(name) in looked_at and may_be_bad
            assert row[left_column(name)] == (whole[name] if told else None), whole


def _settled(row: dict[str, Any], line: bytes) -> dict[str, Any]:
    """A row, without what may differ: which of the lines that may be bad are left to Spark depends on those around them."""
    if _is_sure(line):
        return row
    left = row.get(UNPARSED)
    assert left in (None, line)
    assert left is None or all(row.get(name) is None for name in FIELDS)
    return {name: value for name, value in row.items() if name not in (UNPARSED, *LEFT, *FIELDS)}


def _is_sure(line: bytes) -> bool:
    """Whether the loop takes it apart, whatever is around it: of `_plain` those without bytes beyond ASCII."""
    return line.startswith(b'{"id": "0') and line.endswith(b'"}') and line.isascii()


def _read(topic: str, ranges: Ranges, columns: Collection[str] | None) -> tuple[pa.Table, list[Counted]]:
    reading = read_file_lines("orders", topic, LINES_ID, ranges, [], columns, SCHEMA)
    batches: list[pa.RecordBatch] = []
    while True:
        try:
            batches.append(next(reading))
        except StopIteration as end:
            return _table(batches), end.value


def _copied(topic: str, ranges: Ranges) -> tuple[pa.Table, list[Counted]]:
    """The same of lines that are a column first, as the values of Kafka's records are."""
    reading = read_lines("orders", topic, LINES_ID, ranges)
    table = _table([JsonColumns(SCHEMA).added(batch) for batch in joined(iter(reading))])
    return table, [Counted(digest.records, digest.hex) for digest in reading.digests]


def _table(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches) if batches else pa.table({})


def _lines(dice: random.Random, count: int) -> Iterator[bytes]:
    for number in range(count):
        end = dice.choice([b"\n", b"\n", b"\n", b"\r\n", b"\n\n"])
        yield (_odd(dice) if dice.random() < 0.02 else _plain(dice, number)) + end
    if dice.random() < 0.3:
        yield _plain(dice, count)  # Its end is that of the file.


def _plain(dice: random.Random, number: int) -> bytes:
    note = dice.choice(["", "x" * dice.randint(0, 60), "é" * 9, 'a "quoted" text\n', "\\"])
    fields = {"id": f"{number:012}", "amount": dice.randint(-(10**6), 10**6), "note": note}
    return json.dumps(fields, ensure_ascii=False).encode()


def _odd(dice: random.Random) -> bytes:
    return dice.choice(
        [b"no JSON", b"{", b"\xff\xfe", b'{"id":"\xc3"}', b'{"amount":"text"}', b'{"id":{"a":1}}', b'{"note":"\\ud800"}',
         b'{"id":"' + b"z" * MOST_BYTES + b'"}', b"\xef\xbb\xbf{}", b"   "]
    )  # fmt: skip

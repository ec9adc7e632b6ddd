"""Lines of files by ranges of bytes: each once, in order, however they are cut; and what can't be right is told."""

from __future__ import annotations

import itertools
import os
import random
from pathlib import Path
from typing import Any

import pytest

from kcontrol.adapters.files.file_lines import lines_schema
from kcontrol.adapters.files.lines import read_lines
from kcontrol.adapters.files.listing import listed
from kcontrol.adapters.files.pieces import HEAD_BYTES, NEXT_BYTES
from kcontrol.core.model import FailureKind
from kcontrol.errors import ConfigurationError, InputGoneError, StepFailedError
from kcontrol.wire.batches.codec import CODEC_VARIABLE, default_codec
from kcontrol.wire.digest import EMPTY
from kcontrol.wire.files import LINES_ID, FileAddress, files_of
from tests.support.dice import say_seed, seed_of_run


def address(path: Path, **more: Any) -> FileAddress:
    settings = {"pattern": "", "growing": True, "header": False, "max_line_bytes": 1_000_000, **more}
    return FileAddress(str(path), **settings)


def rows_of(
    where: FileAddress, *ranges: tuple[int, int], names: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    read = read_lines("orders", where.text, LINES_ID, [(0, lo, hi) for lo, hi in ranges], names)
    found = [row for batch in read for row in batch.to_pylist()]
    assert read.records == len(found)
    return found


def digest_of(where: FileAddress, *ranges: tuple[int, int]) -> str:
    read = read_lines("orders", where.text, LINES_ID, [(0, lo, hi) for lo, hi in ranges])
    for batch in read:
        assert batch.schema == lines_schema()
        assert batch.num_rows
    assert sum(read.digests, EMPTY) == read.digest
    return read.digest.hex


def test_files_cut_anywhere_give_each_line_once_and_the_same_digest(tmp_path: Path) -> None:
    seed = seed_of_run()
    say_seed(seed)
    dice = random.Random(seed)
    for story in range(40):
        directory = tmp_path / str(story)
        directory.mkdir()
        expected, base = [], 0
        for number in range(dice.randint(1, 4)):
            lines = [
                b"%d:" % at + b"x" * dice.choice([0, 1, 5, 300, 70_000]) for at in range(dice.randint(0, 12))
            ]
            ends = [dice.choice([b"\n", b"\n", b"\r\n", b"\n\n", b"\n\r\n"]) for _ in lines]
            if lines and dice.random() < 0.5:
                ends[-1] = b""
            data = b"".join(line + end for line, end in zip(lines, ends, strict=True))
            (directory / f"{number}.txt").write_bytes(data)
            at = base
            for line, end in zip(lines, ends, strict=True):
                expected.append((line, str(directory / f"{number}.txt"), at))
                at += len(line) + len(end)
            base += len(data)
        where = address(directory, pattern="*.txt", growing=False)
        cuts = sorted({0, base, *(dice.randint(0, base) for _ in range(dice.randint(0, 12)))})
        parts = list(itertools.pairwise(cuts))
        found = rows_of(where, *parts)
        assert [(row["value"], row["file"], row["offset"]) for row in found] == expected
        assert {row["wrong"] for row in found} <= {None}
        assert digest_of(where, *parts) == digest_of(where, (0, base))


def test_the_compiled_digest_is_the_one_in_plain_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"".join(b"y" * size + b"\n" for size in range(1, 70)))
    found = digest_of(address(file), (0, file.stat().st_size))
    monkeypatch.setenv(CODEC_VARIABLE, "reference")
    default_codec.cache_clear()
    try:
        assert digest_of(address(file), (0, file.stat().st_size)) == found
    finally:
        default_codec.cache_clear()


def test_the_digest_of_these_lines_is_this_for_ever(tmp_path: Path) -> None:
    """What was committed must be read so by every later version; a change needs another LINES_ID."""
    file = tmp_path / "a.txt"
    file.write_bytes(b"\xef\xbb\xbfone\r\n\ntwo\n" + b"z" * 5_000 + b"\n")
    where = address(file, max_line_bytes=2_000)
    assert digest_of(where, (0, file.stat().st_size)) == "4c978b3795d81d88e6b5426fe0d19a11"


def test_other_bytes_places_and_orders_are_other_digests(tmp_path: Path) -> None:
    digests = set()
    for number, data in enumerate((b"ab\ncd\n", b"ab\ncx\n", b"cd\nab\n", b"a\nbcd\n", b"\nab\ncd\n")):
        file = tmp_path / str(number)
        file.write_bytes(data)
        digests.add(digest_of(address(file), (0, len(data))))
    assert len(digests) == 5


@pytest.mark.parametrize("size", [2_001, 200_000, 3_000_000])
@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_a_line_that_is_too_long_is_told_of_and_not_held_in_memory(
    tmp_path: Path, size: int, end: bytes
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"before\n" + b"z" * size + end + b"after\n")
    where = address(file, max_line_bytes=2_000)
    found = rows_of(where, (0, file.stat().st_size))
    assert [row["value"] for row in found] == [b"before", b"z" * 1_000, b"after"]
    assert found[1]["wrong"] == f"it has {size} bytes, more than max_line_bytes = 2000"
    middle = size // 2
    assert [row["value"] for row in rows_of(where, (middle, file.stat().st_size))] == [b"after"]
    assert digest_of(where, (0, middle), (middle, file.stat().st_size)) == digest_of(
        where, (0, file.stat().st_size)
    )


@pytest.mark.parametrize("bytes_", [NEXT_BYTES - 1, NEXT_BYTES])
def test_a_line_as_long_as_may_be_is_whole_wherever_it_is_cut(tmp_path: Path, bytes_: int) -> None:
    """What is read at once may end between the two bytes of its end."""
    path = tmp_path / "lines"
    path.write_bytes(b"x" * bytes_ + b"\r\nnext\n")
    where, end = address(path, max_line_bytes=NEXT_BYTES - 1), path.stat().st_size
    for cut in (1, 100, bytes_, bytes_ + 1, end):
        first, second = rows_of(where, (0, cut), (cut, end))
        is_long = bytes_ > where.max_line_bytes
        assert (len(first["value"]), first["wrong"] is not None) == (
            HEAD_BYTES if is_long else bytes_,
            is_long,
        ), cut
        assert (second["value"], second["offset"]) == (b"next", bytes_ + 2)
        assert digest_of(where, (0, cut), (cut, end)) == digest_of(where, (0, end))


def test_a_header_is_no_row_and_must_be_what_the_schema_says(tmp_path: Path) -> None:
    for name in ("1.csv", "2.csv"):
        (tmp_path / name).write_bytes(b'\xef\xbb\xbf"user", Amount\nann,1\nbob,2\n')
    where = address(tmp_path, pattern="*.csv", header=True)
    size = 2 * (tmp_path / "1.csv").stat().st_size
    assert [row["value"] for row in rows_of(where, (0, size), names=("user", "amount"))] == 2 * [
        b"ann,1",
        b"bob,2",
    ]
    with pytest.raises(
        StepFailedError, match=r"the header of .*1.csv is .*the columns of the schema are amount,user"
    ) as refused:
        rows_of(where, (0, size), names=("amount", "user"))
    assert refused.value.kind is FailureKind.REFUSED


def test_bytes_that_are_not_there_any_more_are_told(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\ntwo\nthr")
    with pytest.raises(
        InputGoneError, match=r"input 'orders': .*a.txt has 11 bytes, and its steps read up to 12"
    ):
        rows_of(address(file), (0, 12))
    with pytest.raises(InputGoneError, match="ends at byte 11, where a line had no end yet"):
        rows_of(address(file), (8, 11))
    assert [row["value"] for row in rows_of(address(file, growing=False), (8, 11))] == [b"thr"]
    with pytest.raises(InputGoneError, match="no partition 1"):
        list(read_lines("orders", address(file).text, LINES_ID, [(1, 0, 1)]))
    with pytest.raises(InputGoneError, match="lines of version 'lines-0'"):
        read_lines("orders", address(file).text, "lines-0", [(0, 0, 1)])
    file.unlink()
    with pytest.raises(InputGoneError, match=r"a.txt is not there; put back"):
        rows_of(address(file), (0, 4))


def test_what_is_no_file_to_be_read_in_ranges_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.ndjson.gz").write_bytes(b"x")
    os.mkfifo(tmp_path / "pipe")
    for where, said in (
        (address(tmp_path), "is a directory: say which files of it"),
        (address(tmp_path / "a.ndjson.gz"), "is compressed"),
        (address(tmp_path, pattern="*"), "is compressed"),
        (address(tmp_path / "pipe"), "is no file of which a range"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            listed(where)


def test_of_a_directory_the_files_that_match_count_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", ".c.txt", "_d.txt", "e.csv"):
        (tmp_path / name).write_bytes(b"12\n")
    (tmp_path / "f.txt").mkdir()
    found = listed(address(tmp_path, pattern="*.txt"))
    assert [(Path(each.path).name, each.begins, each.end) for each in found] == [
        ("a.txt", 0, 3),
        ("b.txt", 3, 6),
    ]


def test_an_address_says_all_and_others_are_refused(tmp_path: Path) -> None:
    for where in (
        address(tmp_path / "a,b=c"),
        address(tmp_path, pattern="*.txt", header=True, growing=False),
    ):
        assert files_of(where.text) == where
    for text in ("file:path=/a", "file:growing=2,header=0,max_line_bytes=1,pattern=,path=/a", "file:"):
        with pytest.raises(ConfigurationError, match="not one of files that this kcontrol knows"):
            files_of(text)

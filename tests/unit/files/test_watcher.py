"""How far files reach, as a node tells it, and what it says when they are not what they were."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from kcontrol.adapters.files import watcher as watching
from kcontrol.adapters.files.facts import files_end, files_kept
from kcontrol.adapters.files.lines import read_lines
from kcontrol.adapters.files.watcher import FileLooks, FileWatcher
from kcontrol.core.model import BadRecords, InputSlice, InputSpec
from kcontrol.errors import ConfigurationError, RetriableError
from kcontrol.wire.files import LINES_ID, FileAddress
from tests.support.patience import HANG_S


def address(path: Path, pattern: str = "", *, growing: bool = True) -> FileAddress:
    return FileAddress(str(path), pattern, growing, header=False, max_line_bytes=1_000)


def _item(file: Path) -> InputSpec:
    return InputSpec("orders", address(file).text, LINES_ID, (0,), (0,), "raw", BadRecords.HALT, "", "")


def slice_of(where: FileAddress, lo: int, hi: int) -> InputSlice:
    read = read_lines("orders", where.text, LINES_ID, [(0, lo, hi)])
    for _ in read:
        pass
    return InputSlice("orders", where.text, LINES_ID, 0, lo, hi, read.records, read.digest.hex)


def test_whole_lines_count_and_what_is_appended_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\ntw")
    looks = FileLooks("orders", address(file), 0, None)
    assert looks.look() == (LINES_ID, 4)
    with file.open("ab") as more:
        more.write(b"o\nthree\nfo")
    assert looks.look() == (LINES_ID, 14)
    assert looks.look() == (LINES_ID, 14)
    assert FileLooks("orders", address(file, growing=False), 0, None).look() == (LINES_ID, 16)


def test_in_a_directory_the_next_file_ends_the_one_before(tmp_path: Path) -> None:
    looks = FileLooks("orders", address(tmp_path, "*.txt"), 0, None)
    assert looks.look() == (LINES_ID, 0)
    (tmp_path / "1.txt").write_bytes(b"one\ntwo")
    assert looks.look() == (LINES_ID, 4)
    (tmp_path / "2.txt").write_bytes(b"three\n")
    assert looks.look() == (LINES_ID, 13)


def _shorter(file: Path) -> None:
    file.write_bytes(b"one\n")


def _other(file: Path) -> None:
    file.write_bytes(b"one\ntwx\nthree\n")


def _same_size(file: Path) -> None:
    file.write_bytes(b"one\ntwx\n")


def _gone(file: Path) -> None:
    file.unlink()


def _directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


CHANGES = [
    (_shorter, "has 4 bytes, and 8 were read"),
    (_other, "is not the file that it was"),
    (_same_size, "is not the file that it was"),
    (_gone, "is not there"),
    (_directory, "is a directory"),
]


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_a_file_that_changed_is_told_until_it_is_what_it_was(tmp_path: Path, change: Any, said: str) -> None:
    file, kept = tmp_path / "a.txt", tmp_path / "kept"
    file.write_bytes(b"one\ntwo\n")
    shutil.copy2(file, kept)
    looks = FileLooks("orders", address(file), 0, None)
    assert looks.look() == (LINES_ID, 8)
    change(file)
    wrong, end = looks.look()
    assert said in wrong
    assert str(file) in wrong
    assert end == 8
    if file.is_dir():
        file.rmdir()
    shutil.copy2(kept, file)
    assert looks.look() == (LINES_ID, 8)


@pytest.mark.parametrize(("change", "said"), CHANGES)
def test_a_process_that_was_not_there_finds_it_by_what_the_newest_step_read(
    tmp_path: Path, change: Any, said: str
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\ntwo\n")
    last = slice_of(address(file), 4, 8)
    assert FileLooks("orders", address(file), 8, last).look() == (LINES_ID, 8)
    change(file)
    wrong, end = FileLooks("orders", address(file), 8, last).look()
    assert wrong != LINES_ID
    assert said.partition(", and")[0] in wrong or "are not those that were read: they had 1 lines" in wrong
    assert end == 8


def test_names_in_a_directory_must_grow_and_files_stay(tmp_path: Path) -> None:
    for name in ("b", "c", "d"):
        (tmp_path / name).write_bytes(b"one\n")
    looks = FileLooks("orders", address(tmp_path, "*"), 0, None)
    assert looks.look() == (LINES_ID, 12)
    (tmp_path / "a").write_bytes(b"new\n")
    assert "/a has come before" in looks.look()[0]
    (tmp_path / "a").unlink()
    assert looks.look() == (LINES_ID, 12)
    (tmp_path / "b").rename(tmp_path / "bb")
    assert "/b is not there any more" in looks.look()[0]
    (tmp_path / "bb").rename(tmp_path / "b")
    with (tmp_path / "b").open("ab") as more:
        more.write(b"two\n")
    assert "/b has 8 bytes, and had 4 when it was read" in looks.look()[0]


def test_a_file_that_is_whole_must_not_grow(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\n")
    looks = FileLooks("orders", address(file, growing=False), 0, None)
    assert looks.look() == (LINES_ID, 4)
    with file.open("ab") as more:
        more.write(b"two\n")
    assert "growing=True is for files that are appended to" in looks.look()[0]


def test_arrivals_begin_at_once_and_come_with_each_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "ANSWER_S", HANG_S)
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\n")
    item = InputSpec("orders", address(file).text, LINES_ID, (0,), (0,), "raw", BadRecords.HALT, "", "")

    async def body() -> list[tuple[str, int, int]]:
        watcher = FileWatcher(item, {0: 2}, {})
        found = []
        async for [seen], size_bytes in watcher.arrivals():
            found.append((seen.topic_id, seen.to, size_bytes))
            if len(found) == 1:
                with file.open("ab") as more:
                    more.write(b"two\n")
            elif len(found) == 2:
                os.truncate(file, 4)
            else:
                break
        await watcher.close()
        return found

    first, second, third = asyncio.run(body())
    assert (first, second) == ((LINES_ID, 4, 2), (LINES_ID, 8, 6))
    assert "has 4 bytes, and 8 were read" in third[0]


def test_commands_ask_where_files_end_and_nothing_of_how_long_they_stay(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\ntwo\nth")
    text = address(file).text
    assert files_end("orders", text) == 8
    assert list(files_kept(["orders", text, "clock:every_ms=1"])) == [text]
    file.unlink()
    with pytest.raises(ConfigurationError, match=r"input 'orders': .*a.txt is not there"):
        files_end("orders", text)


def test_a_disk_that_hangs_holds_one_thread_however_often_it_is_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "a.txt"
    file.write_bytes(b"one\n")
    answers, looks, look = threading.Event(), [0], FileLooks.look

    def hangs(self: FileLooks) -> tuple[str, int]:
        looks[0] += 1
        answers.wait()
        return look(self)

    async def follow() -> int:
        watcher = FileWatcher(_item(file), {0: 0}, {})
        try:
            for _ in range(3):
                with pytest.raises(RetriableError, match="have not answered"):
                    await anext(watcher.arrivals())
        finally:
            answers.set()
        monkeypatch.setattr(watching, "ANSWER_S", HANG_S)
        (seen,), _ = await anext(watcher.arrivals())
        return seen.to

    monkeypatch.setattr(FileLooks, "look", hangs)
    monkeypatch.setattr(watching, "ANSWER_S", 0.05)
    assert (asyncio.run(follow()), looks[0]) == (4, 1)


def test_a_node_ends_while_a_look_at_a_disk_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that ends waits for the threads of its pool, without a limit."""
    answers, ended = threading.Event(), threading.Event()
    monkeypatch.setattr(FileLooks, "look", lambda self: answers.wait())
    monkeypatch.setattr(watching, "ANSWER_S", 0.05)

    async def follow() -> None:
        watcher = FileWatcher(_item(tmp_path / "a.txt"), {0: 0}, {})
        with pytest.raises(RetriableError, match="have not answered"):
            await anext(watcher.arrivals())
        await watcher.close()

    def run() -> None:
        asyncio.run(follow())
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        assert ended.wait(HANG_S)
    finally:
        answers.set()


def test_after_a_slow_look_comes_another_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 29 s was followed by none for ten minutes. What whoever listens makes of it is none of the disk's time."""
    file, waits, now_s = tmp_path / "a.txt", list[float](), [0.0]
    file.write_bytes(b"one\n")
    slow_s = iter([29.0, 0.001, 0.1])

    def look(self: FileLooks) -> tuple[str, int]:
        now_s[0] += next(slow_s, 0.0)
        return LINES_ID, int(now_s[0])

    async def follow() -> None:
        async def sleep(wait_s: float) -> None:
            waits.append(wait_s)

        loop = asyncio.get_running_loop()
        watcher = FileWatcher(_item(file), {0: 0}, {})
        monkeypatch.setattr("asyncio.sleep", sleep)
        monkeypatch.setattr(watching, "ANSWER_S", 10_000.0)
        monkeypatch.setattr(loop, "time", lambda: now_s[0])
        looks = watcher.arrivals()
        for _ in range(4):
            await anext(looks)
            now_s[0] += 7.0

    monkeypatch.setattr(FileLooks, "look", look)
    asyncio.run(follow())
    assert waits == [10.0, watching.PACE_S, pytest.approx(2.0)]

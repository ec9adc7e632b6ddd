"""The archive of Java's classes is begun once, in the background, and nothing that goes wrong with it matters."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcontrol.adapters.java import find_java
from kcontrol.adapters.spark.session import class_archive
from kcontrol.apps import own_archive
from kcontrol.errors import JavaError
from kcontrol.settings.locks import lock


class Begun:
    """In the place of a process: counts what is begun."""

    count = 0
    pid = 1

    def __init__(self) -> None:
        type(self).count += 1

    def wait(self) -> int:
        return 0


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(own_archive, "begin", Begun)
    monkeypatch.setattr(own_archive, "give_way", lambda _niceness: None)
    monkeypatch.setattr(Begun, "count", 0)
    path = class_archive.archive_path(find_java())
    path.parent.mkdir(parents=True)
    return path


def test_it_is_begun_where_there_is_none_and_not_again(archive: Path) -> None:
    own_archive.make_in_background()
    assert Begun.count == 1
    archive.write_bytes(b"classes")
    own_archive.make_in_background()
    assert Begun.count == 1


def test_a_directory_that_cannot_be_written_is_left_alone(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_archive.os, "access", lambda *_: False)
    own_archive.make_in_background()
    assert Begun.count == 0


def test_one_makes_it_at_a_time_and_what_failed_is_not_tried_at_each_start(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []

    def fail(_timeout_s: float) -> Path:
        made.append("tried")
        raise JavaError("no archive came of it")

    monkeypatch.setattr(own_archive, "make_archive", fail)
    with lock(archive.with_suffix(".lock")):
        own_archive.main()
    assert made == []
    own_archive.main()
    assert made == ["tried"]
    own_archive.make_in_background()
    assert Begun.count == 0
    assert "no archive came of it" in archive.with_suffix(".failed").read_text()

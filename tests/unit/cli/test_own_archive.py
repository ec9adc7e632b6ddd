"""The archive of Java's classes is begun once, in the background, and nothing that goes wrong with it matters."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from kcontrol.adapters.java import find_java
from kcontrol.adapters.spark.session import class_archive
from kcontrol.apps import own_archive
from kcontrol.apps.own_archive import AGAIN_AFTER_S
from kcontrol.errors import JavaError
from kcontrol.settings.locks import lock
from kcontrol.settings.scratch import LOCK
from tests.support.patience import HANG_S

FAILURES = [JavaError("not within 1800 s"), OSError(28, "No space left on device")]
KILLED = """
import os, signal
from kcontrol.apps import own_archive
own_archive.make_archive = lambda _timeout_s: os.kill(os.getpid(), signal.SIGKILL)
own_archive.main()
"""


class Begun:
    """In the place of a process: counts what is begun."""

    count = 0
    pid = 1
    ends: Callable[[], None] = staticmethod(lambda: None)
    """Called when it has ended; before that, somebody waits."""

    def __init__(self) -> None:
        type(self).count += 1

    def wait(self) -> int:
        type(self).ends()
        return 0


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(own_archive, "begin", Begun)
    monkeypatch.setattr(own_archive, "give_way", lambda _niceness: None)
    monkeypatch.setattr(Begun, "count", 0)
    own_archive._say_failed.cache_clear()
    path = class_archive.archive_path(find_java())
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Lets so many seconds pass."""
    passed = 0.0
    clock = time.time

    def let(seconds: float) -> None:
        nonlocal passed
        passed += seconds

    monkeypatch.setattr(own_archive.time, "time", lambda: clock() + passed)
    return let


def begun_now() -> int:
    """How often it has been begun, after one more node has started."""
    own_archive.make_in_background()
    return Begun.count


def fails_with(error: Exception, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    tried: list[str] = []

    def fail(_timeout_s: float) -> Path:
        tried.append("tried")
        raise error

    monkeypatch.setattr(own_archive, "make_archive", fail)
    return tried


def test_it_is_begun_where_there_is_none_and_not_again(archive: Path) -> None:
    assert begun_now() == 1
    archive.write_bytes(b"classes")
    assert begun_now() == 1


def test_a_directory_that_cannot_be_written_is_left_alone(
    archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_archive.os, "access", lambda *_: False)
    assert begun_now() == 0


def test_one_makes_it_at_a_time(archive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tried = fails_with(FAILURES[0], monkeypatch)
    with lock(archive.with_suffix(".lock")):
        own_archive.main()
        assert begun_now() == 0
    assert tried == []


@pytest.mark.parametrize("error", FAILURES)
def test_what_failed_is_tried_again_after_a_day_and_not_before(
    archive: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    later: Callable[[float], None],
    error: Exception,
) -> None:
    tried = fails_with(error, monkeypatch)
    own_archive.main()
    own_archive.main()
    assert tried == ["tried"]
    with caplog.at_level(logging.WARNING, "kcontrol.node"):
        assert (begun_now(), begun_now()) == (0, 0)
    [said] = caplog.messages
    assert f"was not made: {error} (" in said, "and it is said once"
    later(AGAIN_AFTER_S - 600)
    assert begun_now() == 0
    later(600)
    assert begun_now() == 1
    own_archive.main()
    assert tried == ["tried"] * 2


def test_the_node_that_has_begun_it_says_why_it_came_to_nothing(
    archive: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fails_with(FAILURES[0], monkeypatch)
    monkeypatch.setattr(Begun, "ends", own_archive.main)
    with caplog.at_level(logging.WARNING, "kcontrol.node"):
        own_archive._watch(own_archive.begin(), archive)
    assert "not within 1800 s" in caplog.text


def test_what_was_killed_is_not_begun_anew_by_each_start(
    archive: Path, later: Callable[[float], None]
) -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED], timeout=HANG_S, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert begun_now() == 0
    assert "did not come to its end" in own_archive._failed_lately(archive)
    later(AGAIN_AFTER_S)
    assert begun_now() == 1


def test_what_comes_about_leaves_no_word_of_an_earlier_failure(
    archive: Path, monkeypatch: pytest.MonkeyPatch, later: Callable[[float], None]
) -> None:
    fails_with(FAILURES[0], monkeypatch)
    own_archive.main()
    later(AGAIN_AFTER_S)
    monkeypatch.setattr(own_archive, "make_archive", lambda _timeout_s: archive)
    own_archive.main()
    assert not archive.with_suffix(".failed").exists()


def test_the_word_of_an_earlier_version_counts_for_a_day_too(
    archive: Path, later: Callable[[float], None]
) -> None:
    archive.with_suffix(".failed").write_text("Java's class archive could not be made\n")
    assert begun_now() == 0
    later(AGAIN_AFTER_S + 1)
    assert begun_now() == 1


def test_what_killed_makers_have_left_is_cleared_away(archive: Path) -> None:
    archive.write_bytes(b"classes")
    old, young, dead, alive = (
        archive.parent / name
        for name in ("classes-old", "classes-young", "kcontrol-classes-1", "kcontrol-classes-2")
    )
    for each in (old, young, dead, alive):
        each.mkdir()
        (each / LOCK).write_bytes(b"")
        (each / "classes.jsa").write_bytes(b"half of it")
    os.utime(old, (0, 0))
    with lock(alive / LOCK):
        own_archive.make_in_background()
    left = {each.name for each in archive.parent.iterdir() if each.is_dir()}
    assert left == {"classes-young", "kcontrol-classes-2"}, "what is being made stays"

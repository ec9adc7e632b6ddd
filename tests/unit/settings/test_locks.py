"""A lock keeps others out for as long as its holder lives, however that ends."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kcontrol.settings.locks import Holder, LockedError, holder_of, lock, newest_holder

HOLD = """
import sys, time
from pathlib import Path
from kcontrol.settings.locks import lock
file = lock(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    with lock(path), pytest.raises(LockedError, match="is held by process") as error:
        lock(path)
    assert error.value.holder.isdigit()
    lock(path).close()


def test_whoever_is_killed_holds_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True
    ) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(LockedError) as error:
                lock(path)
            assert error.value.holder == str(holder.pid)
        finally:
            holder.kill()
            holder.wait()
        lock(path).close()


def test_who_only_looks_sees_the_newest_holder_and_is_in_nobodys_way(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert holder_of(path) == ("", False)
    with lock(path):
        assert holder_of(path) == (str(os.getpid()), True)
    assert holder_of(path) == (str(os.getpid()), False)
    lock(path).close()


def test_a_look_at_the_wrong_moment_keeps_nobody_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "lock"
    path.touch()
    waited: list[float] = []
    with path.open("rb") as looks:

        def is_done(seconds: float) -> None:
            waited.append(seconds)
            fcntl.flock(looks, fcntl.LOCK_UN)

        fcntl.flock(looks, fcntl.LOCK_SH)
        monkeypatch.setattr("kcontrol.settings.locks.time.sleep", is_done)
        lock(path).close()
        assert len(waited) == 1
        fcntl.flock(looks, fcntl.LOCK_SH)
        monkeypatch.setattr("kcontrol.settings.locks.time.sleep", waited.append)
        with pytest.raises(LockedError):
            lock(path)
    assert 0 < sum(waited) < 1, "not for ever"


def test_a_holder_may_say_its_name_and_is_known_by_its_process_id_as_before(tmp_path: Path) -> None:
    path, name = tmp_path / "lock", "n" * 32
    assert newest_holder(path) == Holder("", "", False)
    with lock(path, name):
        assert newest_holder(path) == Holder(str(os.getpid()), name, True)
        with pytest.raises(LockedError) as error:
            lock(path)
        assert error.value.holder == str(os.getpid())
    assert holder_of(path) == (str(os.getpid()), False)
    assert path.read_bytes()[:20].strip() == str(os.getpid()).encode(), "as versions without names read it"
    lock(path).close()
    assert newest_holder(path) == Holder(str(os.getpid()), "", False)

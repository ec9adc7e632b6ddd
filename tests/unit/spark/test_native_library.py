"""Where a JVM's copy of RocksDB's library lies, and what becomes of one whose JVM was killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kcontrol.adapters.spark.session.native_library import PREFIX, VARIABLE, native_library_kept_apart


def test_what_killed_processes_have_left_is_cleared_away_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv(VARIABLE, raising=False)
    killed = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    killed.kill()
    killed.wait()
    for owner in (killed.pid, os.getppid(), "somebody"):
        (tmp_path / f"{PREFIX}{owner}").mkdir()
        (tmp_path / f"{PREFIX}{owner}" / "librocksdbjni.so").write_bytes(b"code")
    with native_library_kept_apart():
        place = Path(os.environ[VARIABLE])
        assert place.is_dir()
        assert not [*place.iterdir()]
    assert VARIABLE not in os.environ
    assert {each.name for each in tmp_path.iterdir()} == {
        f"{PREFIX}{owner}" for owner in (os.getpid(), os.getppid(), "somebody")
    }


def test_the_place_that_a_user_has_chosen_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv(VARIABLE, "/var/lib/native")
    with native_library_kept_apart():
        assert os.environ[VARIABLE] == "/var/lib/native"
    assert not [*tmp_path.iterdir()]

"""What becomes of a temporary directory whose maker was killed."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kcontrol.settings.locks import lock
from kcontrol.settings.scratch import LOCK, clear_left, scratch_directory

MAKES_ONE = """
import sys, tempfile
from kcontrol.settings.scratch import scratch_directory
tempfile.tempdir = sys.argv[1]
with scratch_directory("test") as directory:
    (directory / "left").write_text("x")
    print(directory, flush=True)
    input()
"""


def test_what_killed_processes_have_left_is_cleared_away_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "kcontrol-test-made-by-another-version").mkdir()
    with subprocess.Popen(
        [sys.executable, "-c", MAKES_ONE, str(tmp_path)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as maker:  # fmt: skip
        assert maker.stdout is not None
        left = Path(maker.stdout.readline().strip()) / "left"
        with scratch_directory("test") as own:
            assert not [*own.iterdir()]
            assert left.exists(), "its maker lives"
        assert not own.exists()
        maker.kill()
        maker.wait()
        assert left.exists()
        with scratch_directory("other"):
            assert left.exists(), "it is of another kind"
        with scratch_directory("test"):
            assert not left.exists()
    assert [each.name for each in tmp_path.iterdir()] == ["kcontrol-test-made-by-another-version"]


def test_it_is_deleted_when_its_block_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(FileNotFoundError), scratch_directory("test") as directory:
        (directory / "none" / "file").write_text("x")
    assert not [*tmp_path.iterdir()]


def test_it_may_lie_elsewhere_and_what_was_left_there_is_cleared_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    left = tmp_path / "here" / "kcontrol-test-left"
    with lock(left / LOCK):
        clear_left("test", left.parent)
        assert left.exists(), "its maker lives"
    with scratch_directory("test", left.parent) as directory:
        assert directory.parent.parent == left.parent
        assert not left.exists()
    assert not [*left.parent.iterdir()]

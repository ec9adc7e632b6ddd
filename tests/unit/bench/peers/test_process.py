"""A peer's processes end with the bench, and one that ends by itself is told with what it said."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bench.peers.process import started

UNTIL_INPUT_ENDS = "import sys; print('begun', flush=True); sys.stdin.read(); print('ended', flush=True)"


def test_they_end_when_their_input_does(tmp_path: Path) -> None:
    with started([(sys.executable, "-c", UNTIL_INPUT_ENDS)] * 2, tmp_path) as processes:
        processes.check()
    assert [path.read_text() for path in sorted(tmp_path.iterdir())] == ["begun\nended\n"] * 2


def test_one_that_ends_by_itself_is_told_with_what_it_said(tmp_path: Path) -> None:
    with started([(sys.executable, "-c", "raise SystemExit('no such topic')")], tmp_path) as processes:

        def watch() -> None:
            while True:
                processes.check()

        with pytest.raises(RuntimeError, match=r"ended by itself with exit code 1:\nno such topic"):
            watch()


def test_what_is_meant_for_another_python_does_not_reach_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    with started([(sys.executable, "-c", "import os; print(os.environ.get('PYTHONPATH'))")], tmp_path):
        pass
    assert (tmp_path / "peer-0.log").read_text() == "None\n"

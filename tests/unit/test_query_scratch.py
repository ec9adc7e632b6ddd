"""Scratch directories of questions go with their process, or are swept by the next one when it was killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kcontrol.apps.query_scratch import scratch
from kcontrol.errors import ConfigurationError
from tests.support.patience import HANG_S
from tests.support.processes import environment

HOLD = """
import sys
from pathlib import Path
from kcontrol.apps.query_scratch import scratch
with scratch(Path(sys.argv[1])) as directory:
    (directory / "state").write_text("x")
    print(directory, flush=True)
    sys.stdin.read()
"""


def test_a_directory_is_there_for_nobody_else_and_goes_at_the_end(tmp_path: Path) -> None:
    root = tmp_path / "query"
    with scratch(root) as directory:
        assert directory.stat().st_mode & 0o077 == 0
        (directory / "state").write_text("x")
        with scratch(root) as other:
            assert other != directory
            assert (directory / "state").is_file()
    assert list(root.iterdir()) == []


def test_what_a_killed_process_has_left_is_swept_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    root = tmp_path / "query"
    held = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD, str(root)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
        )
        for _ in range(2)
    ]  # fmt: skip
    try:
        places = [Path((each.stdout.readline() if each.stdout else "").strip()) for each in held]
        held[0].send_signal(signal.SIGKILL)
        held[0].wait(HANG_S)
        assert places[0].is_dir()
        with scratch(root):
            assert not places[0].exists()
            assert (places[1] / "state").is_file()
        held[1].communicate("", HANG_S)
        assert list(root.iterdir()) == []
    finally:
        for each in held:
            each.kill()
            each.wait()


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "query").write_text("")
    with pytest.raises(ConfigurationError, match=r"can't be used: .*--scratch"), scratch(tmp_path / "query"):
        pass

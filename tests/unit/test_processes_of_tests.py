"""What tests start is gone when it was killed, so that what it wrote to can be deleted."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.support import processes
from tests.support.processes import KcontrolProcess


class Stubborn:
    """Of psutil: a process that ends some looks after it was killed."""

    def __init__(self, looks: int) -> None:
        self.pid = 2**22 + 1
        self.killed = False
        self.looks = looks

    def wait(self, timeout: float) -> None:
        raise psutil.TimeoutExpired(timeout, self.pid)

    def kill(self) -> None:
        self.killed = True

    def is_running(self) -> bool:
        assert self.killed
        self.looks -= 1
        return self.looks > 0

    def status(self) -> str:
        return psutil.STATUS_RUNNING


def test_who_outlives_its_parent_is_killed_and_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "ENDS_S", 0.0)
    process, child = KcontrolProcess("steps", log=tmp_path / "log"), Stubborn(looks=3)
    process._family = [child]  # type: ignore[list-item]
    process.sweep()
    assert (child.killed, child.looks) == (True, 0)

"""A unit whose earlier process can't be ended on its host is run elsewhere."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest

from kcontrol.core.cluster.entries import ClusterEntry, SubmitJob, TaskFailed
from kcontrol.core.cluster.model import ClusterJob, TaskSpec, Unit
from kcontrol.core.model import AgentPlacement
from tests.support.patience import HANG_S
from tests.support.processes import until
from tests.unit.agent.test_coordinators import Now
from tests.unit.agent.test_endings import LOG, Ending, Life

STUCK_MS = 60_000
UNIT: Unit = ("job", "nodes", 0)
AGAIN: list[ClusterEntry] = [*LOG, SubmitJob("job", "r2", 1, "q", (TaskSpec("nodes", 1, 1),))]


class Sleeping(Ending):
    def __call__(self, job: ClusterJob, unit: Unit, placement: AgentPlacement) -> Sequence[str]:
        self.started += 1
        return ("sleep", "600")


def test_what_can_not_be_ended_is_the_failure_of_what_would_come_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As of another user's, since the agent is another one's by now; or what waits for a disk that does not answer."""
    life, now = Life(tmp_path, Sleeping(0)), Now()
    life.clock = life.session._clock = cast(Any, now)
    life.read()
    life.work()
    pid = life.processes.pids()[UNIT]

    def refused(*_: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    life.log = AGAIN
    life.read()
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING):
        patched.setattr(os, "killpg", refused)
        assert life.says() is None, "it has its time to end"
        now.at_ms += STUCK_MS
        assert life.says() is None, "and once it was killed"
        now.at_ms += 1_000
        said = life.says()
        assert isinstance(said, TaskFailed)
        assert (said.job, said.generation, said.useless) == ("job", 2, False)
        assert said.error == f"process {pid}, which ran it before, can't be ended here"
        life.work()
    assert [what for what in life.told if "can't be ended" in what] == [
        f"can't run job/nodes/0: {said.error}"
    ]
    assert caplog.text.count("can't be told to end") == 1, "however often it is told to"
    os.killpg(pid, signal.SIGKILL)
    until(lambda: not life.processes.tend(now.at_ms) and life.processes.is_free(UNIT), "it has ended", HANG_S)
    life.disk.close()

"""No entry that somebody has written ends an agent by what would have to be said of it, however much that is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from kcontrol.apps.agent.nodes import FILE, NodeCommands
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.core.cluster.entries import ClusterEntry, Prepare, SubmitJob, TaskFailed
from kcontrol.core.cluster.model import TaskSpec
from kcontrol.wire.cluster import MAX_ENTRY_BYTES, entry_bytes
from tests.support.patience import HANG_S
from tests.unit.agent.session import Log, Session
from tests.unit.agent.test_polling import NoSnapshots

OUTSIDE = f"{FILE}/x"
OPTIONS = SessionOptions(poll_ms=1, restart_ms=0)


class AsBytes(Log):
    """Takes no more than the real one does."""

    async def append(self, entry: ClusterEntry) -> None:
        assert entry_bytes(entry)
        await super().append(entry)


def submitted(job: str, package: str) -> SubmitJob:
    return SubmitJob(job, "r", 0, package, (TaskSpec("nodes", 1, 1),))


def failures(folder: Path, said: Callable[[list[TaskFailed]], bool], *jobs: SubmitJob) -> list[TaskFailed]:
    """What the agent has said of these jobs, once it has said so much."""
    entries: list[ClusterEntry] = [Prepare("a", "a-1", slots=len(jobs)), *jobs]
    assert all(entry_bytes(entry) for entry in entries), "anybody may write them"

    async def play() -> list[TaskFailed]:
        with Session(folder / "agent", log := AsBytes(entries), OPTIONS, store=NoSnapshots()) as life:
            life.session._command = NodeCommands(folder, "nobody:1", folder)
            running = asyncio.create_task(life.session.run())
            found: list[TaskFailed] = []
            async with asyncio.timeout(HANG_S):
                while not running.done() and not said(found):
                    await asyncio.sleep(0.01)
                    found = [entry for entry in log.written if isinstance(entry, TaskFailed)]
            assert not running.done(), f"it has ended: {running.exception()}"
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return found

    return asyncio.run(play())


@pytest.mark.parametrize("name", ["\x01", "\N{LINEAR B SYLLABLE B008 A}"])
def test_why_a_file_can_not_be_run_is_said_as_far_as_there_is_room(tmp_path: Path, name: str) -> None:
    package = f"{FILE}/{name * (60_000 if name.isascii() else 15_000)}"
    [said] = failures(tmp_path, bool, submitted("job", package))
    assert said.error.startswith("'/")
    assert len(said.error) == 4_000


def test_what_can_not_be_said_of_a_job_keeps_nothing_else_from_being_said(tmp_path: Path) -> None:
    """Its name alone leaves no room."""
    room = MAX_ENTRY_BYTES - len(entry_bytes(submitted("", OUTSIDE))) - 4
    jobs = submitted("a" * room, OUTSIDE), submitted("other", OUTSIDE)
    found = failures(tmp_path, bool, *jobs)
    assert {one.job for one in found} == {"other"}

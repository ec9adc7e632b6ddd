"""What an agent waits for holds up nothing else that it does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from kcontrol.apps.agent import resizing, warden
from kcontrol.apps.agent.snapshots import SnapshotStore
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    CompleteTask,
    Configure,
    Prepare,
    ProposeSnapshot,
    SubmitJob,
)
from kcontrol.core.cluster.model import ClusterPolicy, Mark, Replica, TaskSpec
from kcontrol.core.cluster.resize_wards import Resizing
from kcontrol.core.cluster.wards import Ward
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.unit.agent.session import Log, Part, Session

LOG: list[ClusterEntry] = [
    Prepare("a", "a-1", slots=0),
    SubmitJob("job", "r", 0, "p", (TaskSpec("nodes", 1, 1),)),
]
WARD = Ward("job", 1, "nodes")


async def until(session: Session, holds: Callable[[], bool]) -> None:
    """While the agent runs."""
    running = asyncio.create_task(session.session.run())
    try:
        async with asyncio.timeout(HANG_S):
            while not holds():
                assert not running.done(), running.exception()
                await asyncio.sleep(0.01)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def test_a_look_that_gets_no_answer_holds_up_no_other(tmp_path: Path) -> None:
    """Whichever it is."""
    acts = {"warden": "done", "resizes": "seen", "ends": "tell"}

    async def play(hangs: str) -> None:
        looked: list[str] = []

        async def hang(*_: Any) -> None:
            await asyncio.Event().wait()

        def seen(name: str) -> Callable[..., Any]:
            async def look(*_: Any) -> list[Any]:
                looked.append(name)
                return []

            return look

        parts: dict[str, Any] = {
            name: Part(**{act: hang if name == hangs else seen(name)}) for name, act in acts.items()
        }
        with Session(tmp_path / hangs, Log(LOG), **parts) as session:
            await until(session, lambda: {*looked} == {*acts} - {hangs})

    for hangs in acts:
        asyncio.run(play(hangs))


@pytest.mark.parametrize("kind", ["warden", "resizing"])
def test_pipelines_are_looked_at_side_by_side(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two, each look gets its answer once the other one is under way."""

    async def play() -> None:
        both, answered = asyncio.Barrier(2), 0

        class Logs:
            async def is_there(self) -> bool:
                nonlocal answered
                await both.wait()
                answered += 1
                return False

            async def is_heard(self, _clock: object) -> bool:
                return await self.is_there()

        @asynccontextmanager
        async def pipeline_logs(_settings: ClusterSettings, _pipeline: str) -> AsyncIterator[Logs]:
            yield Logs()

        settings = ClusterSettings(bootstrap_servers="nowhere:1")
        if kind == "warden":
            monkeypatch.setattr(warden, "pipeline_logs", pipeline_logs)
            one = warden.Warden(settings)
            assert await one.done([WARD, Ward("other", 2, "nodes")], 7) == []
            await one.close()
        else:
            monkeypatch.setattr(resizing, "pipeline_logs", pipeline_logs)
            asked = [Resizing(job, 1, 2, 9, 7, 9) for job in ("job", "other")]
            assert await resizing.ResizeWarden(settings, lambda: True).seen(asked) == []
        assert answered == 2

    asyncio.run(play())


class NoAnswer:
    """A topic of snapshots that is away. asked: for these."""

    def __init__(self) -> None:
        self.asked: list[Mark] = []
        self.answers = asyncio.Event()

    async def save(self, mark: Mark, _replica: Replica) -> None:
        self.asked.append(mark)
        await self.answers.wait()


def test_an_agent_says_what_it_has_to_say_while_its_snapshot_can_not_be_stored(tmp_path: Path) -> None:
    log = Log([*LOG, Configure(ClusterPolicy(digest_every=1, snapshot_every=1))])

    async def play() -> None:
        topic = NoAnswer()
        store = SnapshotStore(cast(Any, log), cast(Any, topic))

        def stored() -> bool:
            proposed = any(isinstance(one, ProposeSnapshot) for one in log.written)
            assert not proposed or topic.answers.is_set(), "what is not stored"
            if topic.asked:
                session.machine.task_done(WARD)
            if CompleteTask("job", 1, "nodes") in log.written:
                topic.answers.set()
            return proposed

        with Session(tmp_path, log, store=store) as session:
            await until(session, stored)

    asyncio.run(play())

"""A package that can't be read is no reason to wait in silence."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from kcontrol.adapters.kafka.logs.cluster_packages import SignedPackage
from kcontrol.apps.agent.nodes import NodeCommands
from kcontrol.apps.agent.packages import HostPackages
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.core.cluster.entries import ClusterEntry, Prepare, SubmitJob, TaskFailed
from kcontrol.core.cluster.model import TaskSpec
from kcontrol.core.cluster.troubles import AgentTroubles
from kcontrol.errors import AccessError, ClusterError, RetriableError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.packages import PACKAGE, package_of
from tests.support.patience import HANG_S
from tests.unit.agent.session import Beats, Log, Session
from tests.unit.agent.test_polling import NoSnapshots

CODE = package_of("p.py", {"p.py": b"pass\n"})
LOG: list[ClusterEntry] = [
    Prepare("a", "a-1"),
    SubmitJob("job", "r", 0, f"{PACKAGE}{CODE.name}", (TaskSpec("nodes", 1, 1),)),
]


class Told(Beats):
    """And what is said beside the beats."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[AgentTroubles] = []

    async def say(self, said: AgentTroubles) -> None:
        self.said.append(said)


class Unread(HostPackages):
    """Kafka answers so, each time."""

    def __init__(self, folder: Path, answer: Exception) -> None:
        super().__init__(ClusterSettings(bootstrap_servers="nobody:1"), folder)
        self._answer = answer

    async def _from_kafka(self, name: str) -> SignedPackage:
        raise self._answer


def play(folder: Path, answer: Exception, known: Callable[[Log, Told], Any]) -> Any:
    """What is known of an agent on which the node is placed, once anything is."""

    async def until_known() -> Any:
        options = SessionOptions(poll_ms=1, restart_ms=1, longest_restart_ms=4)
        with Session(folder / "agent", log := Log(LOG), options, store=NoSnapshots()) as life:
            packages = Unread(folder / "packages", answer)
            life.session._command = NodeCommands(None, "nobody:1", folder, packages)
            life.session._beats = cast(Any, told := Told())
            running = asyncio.create_task(life.session.run())
            found = None
            async with asyncio.timeout(HANG_S):
                while not found and not running.done():
                    await asyncio.sleep(0.01)
                    found = known(log, told)
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            return found

    return asyncio.run(until_known())


def failure(log: Log, _told: Told) -> TaskFailed | None:
    return next((entry for entry in log.written if isinstance(entry, TaskFailed)), None)


@pytest.mark.parametrize(
    "answer",
    [TopicError("there is no topic 'p.cluster.packages'"), AccessError("User:a may not read it")],
)
def test_a_topic_of_packages_that_is_gone_or_refused_is_a_failure_of_the_node(
    tmp_path: Path, answer: ClusterError
) -> None:
    said = play(tmp_path, answer, failure)
    assert (said.job, said.error, said.useless) == ("job", str(answer), False)


@pytest.mark.parametrize("answer", [RetriableError("reading from 0 to 9 did not succeed"), TimeoutError()])
def test_one_that_can_not_be_read_now_is_told_and_is_no_failure(tmp_path: Path, answer: Exception) -> None:
    def troubles(log: Log, told: Told) -> str | None:
        assert failure(log, told) is None, "another host would do no better"
        return next((why for one in told.said for why in one.troubles), None)

    why = str(answer) or "no answer"
    assert f"package {CODE.name} can't be read now: {why}" in play(tmp_path, answer, troubles)

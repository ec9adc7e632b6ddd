"""A child process of `kcontrol run` that lives and does nothing is found, ended and started again."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import threading
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.apps.supervisor.children import Child, Children
from kcontrol.core.model import Desired, DesiredMode
from kcontrol.sessions.health import HangLimits
from kcontrol.settings.cluster import ClusterSettings
from tests.support.orders import PIPELINE_FILE
from tests.support.processes import until

DEADLINE_S = 200.0
LIMITS = HangLimits(silence_ms=3_000)


def is_started_again(child: Child, says: str = "") -> None:
    """SIGSTOP, once it has shown that it works, and said so much; the next life begins its log anew. On a machine that is slow
    enough it may have been silent for so long before, too."""
    told: list[tuple[str, int | None]] = []
    stopped = threading.Event()

    async def run() -> None:
        again = asyncio.Event()

        def tell(name: str, what: str, process_id: int, code: int | None) -> None:
            told.append((what, code))
            if what == "started" and stopped.is_set():
                again.set()

        children = Children(tell, LIMITS)
        children.add(child)
        watching = asyncio.create_task(children.watch())
        try:
            await asyncio.to_thread(
                until, lambda: child.works and says in child.log.read_text(), "it works", DEADLINE_S
            )
            assert child.process is not None
            stopped.set()
            os.kill(child.process.pid, signal.SIGSTOP)
            await again.wait()
        finally:
            watching.cancel()
            await children.stop()

    asyncio.run(asyncio.wait_for(run(), DEADLINE_S))
    assert told[0] == ("started", None)
    lives = [told[at : at + 3] for at in range(1, len(told), 3)]
    assert lives[-1] == [("hung", None), ("ended", -signal.SIGKILL), ("started", None)]
    assert all([what for what, _ in each] == ["hung", "ended", "started"] for each in lives)


def test_a_coordinator_that_is_stopped_is_ended_and_started_again(
    settings: ClusterSettings, tmp_path: Path, unique: str
) -> None:
    arguments = ["coordinator", "--bootstrap-servers", settings.bootstrap_servers, "--instance", unique]
    is_started_again(Child("coordinator", arguments, tmp_path / "coordinator.log"))


def test_a_node_that_is_stopped_is_ended_and_started_again(
    settings: ClusterSettings, tmp_path: Path, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that stands by for its pipeline, so that it takes no Spark session."""
    pipeline = f"hung-{unique}"
    monkeypatch.setenv("ORDERS_PIPELINE", pipeline)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))

    async def stop() -> None:
        await asyncio.to_thread(ensure_topics, settings, pipeline)
        log = await KafkaControlLog.open(settings, pipeline)
        await log.append([Desired(pipeline, DesiredMode.STOPPED, secrets.token_hex(4))])
        await log.close()

    asyncio.run(stop())
    arguments = ["node", str(PIPELINE_FILE), "--node", "0", "--bootstrap-servers", settings.bootstrap_servers]
    child = Child("node-0", arguments, tmp_path / "node.log")
    is_started_again(child, "stands by: the pipeline is stopped")

"""An agent that is to leave leaves nothing running, be the cluster there or not."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from kcontrol.apps.agent.disk import AgentDisk
from kcontrol.apps.agent.processes import HostProcesses
from kcontrol.core.cluster.model import Unit
from kcontrol.errors import ClusterError
from tests.support.patience import HANG_S
from tests.support.processes import environment, until

UNIT: Unit = ("job", "nodes", 0)
KILL_AFTER_MS = 500
AGENT = """
import asyncio, sys
from pathlib import Path
from kcontrol.apps.agent.nodes import NodeCommands
from kcontrol.apps.agent.serve import AgentOptions, serve
from kcontrol.errors import KcontrolError
from kcontrol.settings.cluster import ClusterSettings

folder, kill_after_ms, leaves = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "leaves"
options = AgentOptions("a", 1, (), folder, kill_after_ms, leaves)
nowhere = ClusterSettings(bootstrap_servers="127.0.0.1:1")
try:
    asyncio.run(serve(nowhere, options, NodeCommands(folder, "127.0.0.1:1", folder), print))
except KcontrolError as error:
    print(error, flush=True)
    sys.exit(error.exit_code)
"""


def adopted(folder: Path) -> psutil.Process:
    """What an earlier life of the agent has started, and which does not end by itself: deaf to SIGTERM."""
    disk = AgentDisk(folder)
    ready = folder / "ready"
    deaf = ("sh", "-c", f"trap '' TERM; touch {ready}; while :; do sleep 600; done")
    pid = HostProcesses(disk.units, KILL_AFTER_MS).start(UNIT, 1, deaf)
    disk.close()
    until(ready.exists, "it has begun", HANG_S)
    return psutil.Process(pid)


def hears_signals(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    [caught] = [line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")]
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


@contextmanager
def running(folder: Path, leaves: bool) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", AGENT, str(folder), str(KILL_AFTER_MS), "leaves" if leaves else "stays"]
    agent = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment())
    try:
        until(lambda: hears_signals(agent.pid), "it hears signals", HANG_S)
        yield agent
    finally:
        agent.kill()
        agent.communicate()


@pytest.mark.parametrize("leaves", [True, False], ids=["leaves", "stays"])
def test_an_agent_without_kafka_ends_what_runs_if_it_is_to_leave(tmp_path: Path, leaves: bool) -> None:
    node = adopted(tmp_path)
    group = [node, *node.children(recursive=True)]
    with running(tmp_path, leaves) as agent:
        agent.send_signal(signal.SIGTERM)
        said, _ = agent.communicate(timeout=HANG_S)
    if leaves:
        assert agent.returncode == ClusterError.exit_code
        assert "has ended all that ran here, and could not say in time that it leaves" in said
        # What this process has started is gone once this process has heard of it.
        assert not [one for one in group if one.is_running() and one.status() != psutil.STATUS_ZOMBIE]
        assert not list(tmp_path.glob("units/*/process.json")), "nor is anything of it remembered"
    else:
        assert agent.returncode == 0
        assert node.is_running()
        assert json.loads(next(tmp_path.glob("units/*/process.json")).read_text())["pid"] == node.pid
        for one in group:
            one.kill()

"""An agent put together, and run until a signal or the cluster ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.groups import remove_members
from kcontrol.adapters.kafka.logs.cluster_log import KafkaBeats, KafkaClusterLog
from kcontrol.adapters.kafka.logs.cluster_snapshots import KafkaSnapshots
from kcontrol.apps.agent.burials import Burials
from kcontrol.apps.agent.commands import Commands
from kcontrol.apps.agent.disk import AgentDisk
from kcontrol.apps.agent.endings import EndTeller
from kcontrol.apps.agent.fitting import FitWarden
from kcontrol.apps.agent.processes import HostProcesses
from kcontrol.apps.agent.remembering import until_there_is_room
from kcontrol.apps.agent.resizing import ResizeWarden
from kcontrol.apps.agent.session import AgentSession
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.apps.agent.snapshots import SnapshotStore
from kcontrol.apps.agent.unit_log import LOG_BYTES
from kcontrol.apps.agent.warden import Warden
from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.model import FIRST_LEVEL, LATEST_LEVEL
from kcontrol.errors import ClusterError, ReplacedError
from kcontrol.settings.cluster import ClusterSettings

LIMITS = AgentLimits()
_LOOK_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """folder: what the agent remembers. kill_after_ms: from SIGTERM to SIGKILL. leaves: at the end it gives
    up its place and all that runs here. log_bytes: as of HostProcesses."""

    name: str
    slots: int
    tags: tuple[str, ...]
    folder: Path
    kill_after_ms: int
    leaves: bool
    session: SessionOptions = field(default_factory=SessionOptions)
    log_bytes: int = LOG_BYTES


async def serve(
    cluster: ClusterSettings,
    options: AgentOptions,
    command: Commands,
    tell: Callable[[str], None],
) -> None:
    """Until SIGTERM or SIGINT. Raises ReplacedError when the cluster ends it: with the reason; ClusterError if it was to leave
    and could not say so, though all that ran here has ended."""
    disk = await until_there_is_room(lambda: AgentDisk(options.folder), tell)
    earlier = disk.incarnations
    me = Identity(
        options.name,
        await until_there_is_room(lambda: disk.new_incarnation(options.name), tell),
        options.slots,
        options.tags,
        (FIRST_LEVEL, LATEST_LEVEL),
        earlier,
        began_ms=SystemClock().now_ms(),
    )
    before = earlier[-1] if earlier else ""
    machine = AgentMachine(me, LIMITS, SystemClock().monotonic_ms(), before, disk.left_out())
    log, beats, snapshots = KafkaClusterLog(cluster), KafkaBeats(cluster), KafkaSnapshots(cluster)
    warden = Warden(cluster)
    processes = HostProcesses(disk.units, options.kill_after_ms, log_bytes=options.log_bytes)

    def may_ask() -> bool:
        return machine.may_start(SystemClock().monotonic_ms())

    session = AgentSession(
        *(machine, disk, log, beats, SnapshotStore(log, snapshots), processes, warden),
        ResizeWarden(cluster, may_ask),
        FitWarden(cluster),
        EndTeller(cluster, may_ask),
        Burials(partial(remove_members, cluster)),
        *(command, tell, options.session, LIMITS),
    )
    try:
        await _until_ended(session, processes, options)
    finally:
        await log.close()
        await beats.close()
        await snapshots.close()
        await warden.close()
        disk.close()


async def _until_ended(session: AgentSession, processes: HostProcesses, options: AgentOptions) -> None:
    stop, left = asyncio.Event(), True
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    running, stopping = asyncio.create_task(session.run()), asyncio.create_task(stop.wait())
    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set() and options.leaves:
        left = await _leave(session, running, 2 * options.kill_after_ms / 1000)
    stopping.cancel()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    remain = () if left else await _end_all(processes, 2 * options.kill_after_ms)
    if not running.cancelled():
        raise ReplacedError(f"agent {options.name!r} ends: {running.result()}")
    if not left:
        ended = (
            f"could not end processes {', '.join(map(str, remain))}"
            if remain
            else "has ended all that ran here"
        )
        raise ClusterError(
            f"agent {options.name!r} {ended}, and could not say in time that it leaves: the cluster's log can't be read or "
            "written now, or does not know it yet. If it does, others take over once they have noticed that it is silent"
        )


async def _leave(session: AgentSession, running: asyncio.Task[str], timeout_s: float) -> bool:
    """Whether it was said, and all that ran here has ended."""
    leaving = asyncio.create_task(session.leave("asked to"))
    await asyncio.wait((leaving, running), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    left = leaving.done()
    leaving.cancel()
    return left


async def _end_all(processes: HostProcesses, timeout_ms: int) -> tuple[int, ...]:
    """Whatever runs here; back once none does. Process ids of those that could not be ended in time."""
    clock = SystemClock()
    deadline_ms = clock.monotonic_ms() + timeout_ms
    while (running := processes.running()) and clock.monotonic_ms() < deadline_ms:
        for one in running:
            processes.stop(one, clock.monotonic_ms())
        processes.tend(clock.monotonic_ms())
        await asyncio.sleep(_LOOK_EVERY_S)
    return tuple(sorted(processes.pids().values()))

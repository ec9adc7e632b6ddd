"""An agent put together, and run until a signal or the cluster ends it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.logs.cluster_log import KafkaBeats, KafkaClusterLog
from kcontrol.adapters.kafka.logs.cluster_snapshots import KafkaSnapshots
from kcontrol.apps.agent.disk import AgentDisk
from kcontrol.apps.agent.endings import EndTeller
from kcontrol.apps.agent.fitting import FitWarden
from kcontrol.apps.agent.processes import HostProcesses
from kcontrol.apps.agent.resizing import ResizeWarden
from kcontrol.apps.agent.session import AgentSession, Commands, SessionOptions
from kcontrol.apps.agent.snapshots import SnapshotStore
from kcontrol.apps.agent.warden import Warden
from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.model import FIRST_LEVEL, LATEST_LEVEL
from kcontrol.errors import ReplacedError
from kcontrol.settings.cluster import ClusterSettings

LIMITS = AgentLimits()


@dataclass(frozen=True, slots=True)
class AgentOptions:
    """folder: what the agent remembers. kill_after_ms: from SIGTERM to SIGKILL. leaves: at the end it gives
    up its place and all that runs here."""

    name: str
    slots: int
    tags: tuple[str, ...]
    folder: Path
    kill_after_ms: int
    leaves: bool
    session: SessionOptions = field(default_factory=SessionOptions)


async def serve(
    cluster: ClusterSettings,
    options: AgentOptions,
    command: Commands,
    tell: Callable[[str], None],
) -> None:
    """Until SIGTERM or SIGINT. Raises ReplacedError when the cluster ends it: with the reason."""
    disk = AgentDisk(options.folder)
    earlier = disk.incarnations
    me = Identity(
        options.name,
        disk.new_incarnation(options.name),
        options.slots,
        options.tags,
        (FIRST_LEVEL, LATEST_LEVEL),
        earlier,
        began_ms=SystemClock().now_ms(),
    )
    before = earlier[-1] if earlier else ""
    machine = AgentMachine(me, LIMITS, SystemClock().monotonic_ms(), before, disk.left_out())
    log, beats, snapshots = KafkaClusterLog(cluster), KafkaBeats(cluster), KafkaSnapshots(cluster)
    processes, warden = HostProcesses(disk.units, options.kill_after_ms), Warden(cluster)

    def may_ask() -> bool:
        return machine.may_start(SystemClock().monotonic_ms())

    session = AgentSession(
        *(machine, disk, log, beats, SnapshotStore(log, snapshots), processes, warden),
        ResizeWarden(cluster, may_ask),
        FitWarden(cluster),
        EndTeller(cluster, may_ask),
        *(command, tell, options.session, LIMITS),
    )
    try:
        await _until_ended(session, options)
    finally:
        await log.close()
        await beats.close()
        await snapshots.close()
        await warden.close()
        disk.close()


async def _until_ended(session: AgentSession, options: AgentOptions) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    running, stopping = asyncio.create_task(session.run()), asyncio.create_task(stop.wait())
    await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    if stop.is_set() and options.leaves:
        with suppress(TimeoutError):
            async with asyncio.timeout(2 * options.kill_after_ms / 1000):
                await session.leave("asked to")
    stopping.cancel()
    if running.done():
        raise ReplacedError(f"agent {options.name!r} ends: {running.result()}")
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)

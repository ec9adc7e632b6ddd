"""A session of an agent without Kafka, whose parts a test gives."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Any, cast

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.agent.burials import Burials
from kcontrol.apps.agent.disk import AgentDisk
from kcontrol.apps.agent.processes import HostProcesses
from kcontrol.apps.agent.session import AgentSession
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.agent_limits import AgentLimits
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import ClusterEntry
from kcontrol.core.cluster.liveness import Beat
from kcontrol.wire.cluster import StampedEntry

ME = Identity("a", "a-1", 1)
NAMES = ("store", "warden", "resizes", "fits", "ends")
"""Of the parts that do nothing where a test gives none."""


class Log:
    """What an agent reads and writes; what it writes others read only if it is put into `entries`."""

    def __init__(self, entries: Sequence[ClusterEntry] = ()) -> None:
        self.entries, self.read, self.written = list(entries), 0, list[ClusterEntry]()
        self.reading: Callable[[], None] = lambda: None

    async def read_to_end(self) -> list[StampedEntry]:
        self.reading()
        new = range(self.read, len(self.entries))
        self.read = max(self.read, len(self.entries))
        return [StampedEntry(offset, self.entries[offset]) for offset in new]

    def go_on_from(self, offset: int) -> None:
        self.read = offset

    async def append(self, entry: ClusterEntry) -> None:
        self.written.append(entry)


class Beats:
    """Each beat comes back."""

    def __init__(self) -> None:
        self.sent: list[Beat] = []
        self.read = 0

    async def append(self, beat: Beat) -> None:
        self.sent.append(beat)

    async def read_to_end(self) -> list[Beat]:
        new, self.read = self.sent[self.read :], len(self.sent)
        return new


class Part:
    """Whatever else a session has: each of its acts is done at once, and finds nothing."""

    def __init__(self, **acts: Callable[..., Awaitable[Any]]) -> None:
        self._acts = acts

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        async def nothing(*_: Any) -> list[Any]:
            return []

        return self._acts.get(name, nothing)


async def nobody_removed(_client_ids: Collection[str]) -> list[str]:
    """A group without members."""
    return []


class Session:
    """Of one agent. told: what its operator reads."""

    def __init__(self, folder: Path, log: Log, options: SessionOptions | None = None, **parts: Any) -> None:
        self.log, self.beats, self.told, self.disk = log, Beats(), list[str](), AgentDisk(folder)
        options = options or SessionOptions(poll_ms=1)
        limits = AgentLimits()
        self.machine = AgentMachine(ME, limits, SystemClock().monotonic_ms())
        processes = HostProcesses(self.disk.units, 1_000)
        part = {name: parts.get(name, Part()) for name in NAMES}
        self.session = AgentSession(
            *(self.machine, self.disk, cast(Any, log), cast(Any, self.beats), cast(Any, part["store"])),
            *(processes, cast(Any, part["warden"]), cast(Any, part["resizes"]), cast(Any, part["fits"])),
            *(cast(Any, part["ends"]), parts.get("burials") or Burials(nobody_removed)),
            *(cast(Any, None), self.told.append, options, limits),
        )

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.disk.close()

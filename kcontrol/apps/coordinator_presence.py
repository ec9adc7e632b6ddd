"""Coordinators of one cluster on one machine: each holds a lock for as long as it lives, and the others take one
that has died out of the group.

Kafka misses a member only after the session timeout, 6 s at least; the operating system knows at once. A
process that merely hangs keeps its lock, and is left to the session timeout. Should a member be taken out that
lives after all (its lock was on another file system), it joins again, and the claims in the log decide as always.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote
from uuid import uuid4

from kcontrol.backoff import Backoff
from kcontrol.errors import ClusterError, RetriableError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.locks import LockedError, holder_of, lock
from kcontrol.settings.places import data_home

_log = logging.getLogger("kcontrol.coordinator")

LOOK_EVERY_S = 0.1
TRIES = Backoff(first_ms=250, longest_ms=5_000)
"""At taking somebody out of a group that does not answer."""
_HIDDEN = "."
_CLIENT = "kcontrol-coordinator-"

Remove = Callable[[Collection[str]], Awaitable[list[str]]]
"""Takes the members with these client ids out of the group: those that were in it."""


def locks_of(settings: ClusterSettings) -> Path:
    """Where coordinators of this cluster and group hold their locks. Who names the cluster by other brokers
    does not see the others, and waits for the session timeout."""
    servers = sorted(each.strip() for each in settings.bootstrap_servers.split(","))
    cluster = hashlib.sha256("\n".join((settings.names().coordinator_group(), *servers)).encode()).hexdigest()
    return data_home() / "coordinators" / cluster[:16]


def client_id_of(instance: str) -> str:
    """The name in its group of a coordinator that is started as that static member."""
    return f"{_CLIENT}{quote(instance, safe='')}"


class CoordinatorPresence:
    """Of one coordinator process. `client_id` is its name in the group, and that of its lock.

    instance: of a static member. Kafka takes whoever joins under it for the same member, and goes on to show the client id
    of the first: so all of them have the same.
    """

    def __init__(
        self, directory: Path, instance: str | None = None, look_every_s: float = LOOK_EVERY_S
    ) -> None:
        own = f"{socket.gethostname()}-{os.getpid()}-{uuid4().hex[:8]}"
        self.client_id = f"{_CLIENT}{own}" if instance is None else client_id_of(instance)
        self._directory = directory
        self._look_every_s = look_every_s
        self._file: BinaryIO | None = None

    def show(self) -> None:
        """From now on, until `hide` or the end of the process. On a disk that can't be written nobody shows
        himself, and the session timeout decides alone."""
        hidden = self._directory / f"{_HIDDEN}{self.client_id}"
        try:
            # Nobody looks at it before it is held.
            self._file = lock(hidden)
            hidden.rename(self._directory / self.client_id)
        except (LockedError, OSError) as error:
            _log.warning("no lock for this coordinator, so that others learn of its death late: %s", error)

    def hide(self) -> None:
        """It ends by itself, and leaves the group by itself."""
        if self._file is not None:
            shown = self._directory / self.client_id
            with suppress(OSError):
                if os.path.samestat(os.fstat(self._file.fileno()), shown.stat()):  # Not its successor's.
                    shown.unlink()
            self._file.close()
            self._file = None

    def dead(self) -> list[str]:
        """The client ids of those that have died."""
        try:
            names = [each.name for each in self._directory.iterdir()]
        except OSError:
            return []
        others = (name for name in names if name != self.client_id and not name.startswith(_HIDDEN))
        return [name for name in others if not self._is_held(name)]

    def _is_held(self, name: str) -> bool:
        return holder_of(self._directory / name)[1]

    @asynccontextmanager
    async def watching(self, remove: Remove) -> AsyncIterator[None]:
        """While the block runs: whoever dies is taken out of the group."""
        watching = asyncio.create_task(self._watch(remove))
        try:
            yield
        finally:
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, remove: Remove) -> None:
        tries = TRIES.begin()
        while True:
            await asyncio.sleep(self._look_every_s)
            dead = self.dead()
            if not dead:
                continue
            try:
                self._bury(dead, await remove(dead))
                tries.succeeded()
            except (RetriableError, ClusterError) as error:
                _log.warning("a coordinator on this machine has died and is still in the group: %s", error)
                await tries.wait()

    def _bury(self, dead: list[str], removed: list[str]) -> None:
        """Their locks go when they are out of the group for certain."""
        for name in removed:
            _log.info("coordinator %s has died; its pipelines are shared out anew", name)
        for name in dead:
            with suppress(OSError):
                if not self._is_held(name):  # By who was started again under its name meanwhile.
                    (self._directory / name).unlink()

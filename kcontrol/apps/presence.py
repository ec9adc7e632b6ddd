"""A lock that a node's process holds for as long as it lives, so that others on its machine know at once when
it has died."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from kcontrol.apps.process_name import is_of, process_name
from kcontrol.core.model import NodeJoin
from kcontrol.settings.locks import Holder, LockedError, lock, newest_holder

TRY_EVERY_S = 0.5


class Presence:
    """Of one node of a pipeline, for all processes that work in `work_dir`."""

    def __init__(self, work_dir: Path, pipeline: str, node: int) -> None:
        self.path = work_dir / "locks" / pipeline / f"node-{node}"
        """Of the lock."""
        self._file: BinaryIO | None = None

    @asynccontextmanager
    async def shown(self) -> AsyncIterator[None]:
        """While the block runs, and no longer than this process lives. One that was replaced and has not ended
        yet may hold the lock: it is taken from the instant on at which that ends."""
        self._try()
        taking = asyncio.create_task(self._take())
        try:
            yield
        finally:
            taking.cancel()
            if self._file is not None:
                self._file.close()
                self._file = None

    @property
    def known(self) -> bool:
        """Whether some process has been this node here before."""
        return self.path.exists()

    @property
    def free(self) -> bool:
        """Whether nobody holds the lock."""
        return not newest_holder(self.path).holds

    def gone(self, join: NodeJoin) -> bool:
        """Whether the process that wrote this held the lock and has ended, or was this one, which has begun
        anew. False: it lives, or that can't be known here."""
        if join.host != socket.gethostname():
            return False
        newest = newest_holder(self.path)
        return (not newest.holds and _wrote(newest, join)) or is_of(join.uuid, process_name())

    def beside(self, join: NodeJoin) -> bool:
        """Whether the process that wrote this holds the lock: it lives, and works in this directory of this host."""
        newest = newest_holder(self.path)
        return join.host == socket.gethostname() and newest.holds and _wrote(newest, join)

    async def _take(self) -> None:
        while self._file is None:
            await asyncio.sleep(TRY_EVERY_S)
            self._try()

    def _try(self) -> None:
        """A disk that can't be written is no error here: not every pipeline needs one."""
        with suppress(LockedError, OSError):
            self._file = lock(self.path, process_name())


def _wrote(holder: Holder, join: NodeJoin) -> bool:
    """By the name of the process. One of an older version has none, and is known by its process id."""
    return is_of(join.uuid, holder.name) if holder.name else holder.process_id == str(join.process_id)

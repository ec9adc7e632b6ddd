"""What an agent has to remember over its lives is written even if its disk is full for a while: what runs on the host goes on
meanwhile, the operator hears of it, and nothing is done that rests on what could not be written."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable, Iterable
from typing import TypeVar

from kcontrol.apps.agent.disk import AgentDisk
from kcontrol.core.cluster.model import Agent
from kcontrol.core.cluster.unit_ends import LeftOut

AGAIN_S = 1.0
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_Made = TypeVar("_Made")


class Remembering:
    """Of one agent that is at work. Whatever the disk refuses may be tried again by the next call, after a moment."""

    def __init__(
        self, disk: AgentDisk, tell: Callable[[str], None], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._disk, self._tell, self._monotonic_s = disk, tell, monotonic_s
        self._failed_s: float | None = None

    def new_incarnation(self, name: str) -> str | None:
        """None: it is not on the disk, so nobody may hear of it."""
        return self._disk.incarnations[-1] if self._tried(lambda: self._disk.new_incarnation(name)) else None

    def see(self, known: Agent | None) -> None:
        """The cluster's value has this one by its name: perhaps itself, in whichever life."""
        if known is not None and known.incarnation in self._disk.incarnations:
            self._tried(lambda: self._disk.see(known.incarnation))

    def leave_out(self, units: Iterable[LeftOut]) -> bool:
        """Whether it is on the disk that these are not to be started again, and no others."""
        return self._tried(lambda: self._disk.leave_out(units))

    def _tried(self, write: Callable[[], object]) -> bool:
        now_s = self._monotonic_s()
        if self._failed_s is not None and now_s - self._failed_s < AGAIN_S:
            return False
        try:
            write()
        except OSError as error:
            if self._failed_s is None:
                self._tell(_CAN_NOT.format(error))
            self._failed_s = now_s
            return False
        if self._failed_s is not None:
            self._tell("can write down again what it has to remember")
            self._failed_s = None
        return True


_CAN_NOT = "can't write down what it has to remember: {}; what runs here goes on, and it tries again"


async def until_there_is_room(write: Callable[[], _Made], tell: Callable[[str], None]) -> _Made:
    """At the start of an agent, which nobody has heard of yet. Raises OSError for what does not pass by itself."""
    told = False
    while True:
        try:
            return write()
        except OSError as error:
            if error.errno not in _NO_ROOM:
                raise
            if not told:
                tell(_CAN_NOT.format(error))
            told = True
        await asyncio.sleep(AGAIN_S)

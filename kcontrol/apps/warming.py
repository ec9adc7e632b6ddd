"""When a process that stands by warms up: beside its looking, and again until what it runs agrees with the log.

What it stands by for may come at any moment, so whoever looks never waits for this, and leaves it as soon as it is needed.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum

from kcontrol.backoff import Backoff

_log = logging.getLogger("kcontrol.node")

TRIES = Backoff(first_ms=10_000, longest_ms=300_000)
"""No more often than this: each may take as much of the machine as a step does, beside the node that is at work."""


class Warmth(IntEnum):
    """How much of what the first step needs has run here."""

    COLD = 0
    """Nothing that is known of."""
    WARM = 1
    """A step, of which nobody can tell whether it is right."""
    COMPARED = 2
    """A committed step, which was compared with the log."""


@dataclass(frozen=True)
class WarmUp:
    """What came of one try. said: for people; '' where there is nothing new."""

    warmth: Warmth
    said: str


Try = Callable[[int, Warmth], Awaitable[WarmUp]]
"""Warms up by that committed step; told how warm the process is already."""


class Warming:
    """Of one process that stands by. Used by one event loop."""

    def __init__(
        self, try_: Try, say: Callable[[str], None], monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        """say: tells people how warm it is, whenever that changes."""
        self.warmth = Warmth.COLD
        self._try, self._say, self._monotonic_s = try_, say, monotonic_s
        self._tries = TRIES.begin()
        self._task: asyncio.Task[None] | None = None
        self._not_before_s = float("-inf")
        self._checkpoint = -1
        self._said = ""
        self._given_up = False

    def look(self, step: int, checkpoint: int) -> None:
        """Begin to warm up, if it is time to; returns at once. A process that is cold tries again after a while; one that
        could not compare what it ran does so at a newer checkpoint, from which there is less to be run.

        step: the newest that is committed; 0: none is. checkpoint: the step of the newest one that has state; 0: there is none.
        """
        runs = self._task is not None and not self._task.done()
        if not step or runs or self.warmth is Warmth.COMPARED or self._monotonic_s() < self._not_before_s:
            return
        if self.warmth is Warmth.WARM and checkpoint == self._checkpoint:
            return
        self._checkpoint = checkpoint
        self._task = asyncio.create_task(self._warm_up(step))

    def give_up(self) -> None:
        """Begin to end what is under way. What it says from now on is of no interest."""
        self._given_up = True
        if self._task is not None:
            self._task.cancel()

    async def over(self, timeout_s: float | None = None) -> None:
        """Return when nothing is under way any more, so that Spark can be used for something else.

        timeout_s: nor is it waited for longer than this; None: for ever.
        """
        if self._task is not None:
            await asyncio.wait([self._task], timeout=timeout_s)

    async def _warm_up(self, step: int) -> None:
        try:
            found = await self._try(step, self.warmth)
        except Exception as error:  # noqa: BLE001 - whatever Spark makes of it: the process is only colder
            found = WarmUp(Warmth.COLD, f"not warm: {error or type(error).__name__}")
        self._not_before_s = self._monotonic_s() + self._tries.failed() / 1000
        if self._given_up:
            return
        if found.warmth < self.warmth:
            _log.info("step %d could not be compared with the log: %s", step, found.said)
            return
        self.warmth = found.warmth
        if found.said and found.said != self._said:
            self._said = found.said
            self._say(found.said)

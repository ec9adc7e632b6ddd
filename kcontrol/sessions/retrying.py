"""Waiting out passing faults: the one place that says how often, how long and when to give up.

A broker that restarts is away for seconds, not for ever. Each session wraps its reads and writes in
`until_deadline`, so that a fault shorter than the deadline is a warning in the log and a longer one is an
error with the time it was waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from kcontrol.backoff import Backoff, Tries
from kcontrol.errors import RetriableError

_Result = TypeVar("_Result")

AWAY = Backoff(first_ms=50, longest_ms=2_000)
"""Between tries while Kafka is away."""
DEFAULT_DEADLINE_MS = 120_000
TOLD_AGAIN_S = 60.0
"""A fault that was told is told again no sooner: of several brokers that are away, each try names another one."""
_KEPT = 16
"""So many faults of a row are known by their sentences; those that were told last."""


async def until_deadline(
    action: Callable[[], Awaitable[_Result]],
    what: str,
    log: logging.Logger,
    deadline_ms: int = DEFAULT_DEADLINE_MS,
    quiet_ms: int = 0,
) -> _Result:
    """Run `action` again after each `RetriableError` until it succeeds or `deadline_ms`
    have passed since the first fault.

    quiet_ms: faults that are over within that are usual here, and told to nobody but a log at DEBUG.

    Raises: RetriableError, naming `what` and the deadline, when that has passed; anything else at once.
    """
    faults = _Faults(what, log, deadline_ms, quiet_ms)
    while True:
        try:
            result = await action()
        except RetriableError as fault:
            await faults.wait_out(fault)
        else:
            faults.are_over()
            return result


async def follow(
    stream: Callable[[], AsyncIterator[_Result]],
    take: Callable[[_Result], None],
    what: str,
    log: logging.Logger,
    deadline_ms: int = DEFAULT_DEADLINE_MS,
) -> None:
    """Hand everything that `stream()` yields to `take`, opening it again after each
    `RetriableError`; never returns.

    Raises: RetriableError, naming `what`, when nothing has come for `deadline_ms` since the first of a row of
    faults.
    """
    faults = _Faults(what, log, deadline_ms)
    while True:
        try:
            async for chunk in stream():
                faults.are_over()
                take(chunk)
        except RetriableError as fault:
            await faults.wait_out(fault)


class _Faults:
    """A row of faults of one thing: each sentence is told once a minute, and how many there were when they are over."""

    def __init__(self, what: str, log: logging.Logger, deadline_ms: int, quiet_ms: int = 0) -> None:
        self._what = what
        self._log = log
        self._deadline_ms = deadline_ms
        self._quiet_ms = quiet_ms
        self._loud_from = 0.0
        self._tries: Tries | None = None
        self._told: dict[str, float] = {}
        """When each sentence was told last, by the loop's clock; the newest last."""

    async def wait_out(self, fault: RetriableError) -> None:
        # By the loop's clock, which a test may run faster.
        now = asyncio.get_running_loop().time
        if self._tries is None:
            self._tries = AWAY.within(self._deadline_ms).begin(now)
            self._loud_from = now() + self._quiet_ms / 1000
        self._tries.check(self._what, fault)
        if now() < self._loud_from:
            self._log.debug("%s: %s; trying again", self._what, fault)
        else:
            self._tell(str(fault), now())
        await self._tries.wait()

    def _tell(self, fault: str, now_s: float) -> None:
        if now_s - self._told.get(fault, -TOLD_AGAIN_S) < TOLD_AGAIN_S:
            return
        self._told.pop(fault, None)
        self._told[fault] = now_s
        if len(self._told) > _KEPT:
            del self._told[next(iter(self._told))]
        self._log.warning("%s: %s; trying again", self._what, fault)

    def are_over(self) -> None:
        if self._tries is not None and self._told:
            self._log.info("%s: succeeded at try %d", self._what, self._tries.failures + 1)
        self._tries = None
        self._told.clear()

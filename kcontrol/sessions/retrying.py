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


async def until_deadline(
    action: Callable[[], Awaitable[_Result]],
    what: str,
    log: logging.Logger,
    deadline_ms: int = DEFAULT_DEADLINE_MS,
) -> _Result:
    """Run `action` again after each `RetriableError` until it succeeds or `deadline_ms`
    have passed since the first fault.

    Raises: RetriableError, naming `what` and the deadline, when that has passed; anything else at once.
    """
    tries: Tries | None = None
    while True:
        try:
            return await action()
        except RetriableError as fault:
            tries = tries or _since_now(deadline_ms)
            await _wait_out(fault, tries, what, log)


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
    tries: Tries | None = None
    while True:
        try:
            async for chunk in stream():
                tries = None
                take(chunk)
        except RetriableError as fault:
            tries = tries or _since_now(deadline_ms)
            await _wait_out(fault, tries, what, log)


def _since_now(deadline_ms: int) -> Tries:
    """By the loop's clock, which a test may run faster."""
    return AWAY.within(deadline_ms).begin(asyncio.get_running_loop().time)


async def _wait_out(fault: RetriableError, tries: Tries, what: str, log: logging.Logger) -> None:
    tries.check(what, fault)
    log.warning("%s: %s; trying again", what, fault)
    await tries.wait()

"""Waiting out passing faults: the one place that says how often, how long and when to give up.

A broker that restarts is away for seconds, not for ever. Each session wraps its reads and writes in `until_deadline`, so that
a fault shorter than the deadline is a warning in the log and a longer one is an error with the time it was waited for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

from kcontrol.errors import RetriableError

_Result = TypeVar("_Result")

FIRST_WAIT_MS = 50
LONGEST_WAIT_MS = 2_000
DEFAULT_DEADLINE_MS = 120_000


def waits_ms(first: int = FIRST_WAIT_MS, longest: int = LONGEST_WAIT_MS) -> Callable[[int], int]:
    """A function from the number of failures so far (1, 2, ...) to the wait before the next try: doubling, with a ceiling."""

    def wait_ms(failures: int) -> int:
        return min(longest, first << min(failures - 1, 20))

    return wait_ms


async def until_deadline(
    action: Callable[[], Awaitable[_Result]], what: str, log: logging.Logger, deadline_ms: int = DEFAULT_DEADLINE_MS
) -> _Result:
    """Run `action` again after each `RetriableError` until it succeeds or `deadline_ms` have passed since the first fault.

    Raises: RetriableError, naming `what` and the time waited, when the deadline has passed; anything else at once.
    """
    wait_ms = waits_ms()
    loop = asyncio.get_running_loop()
    first_fault: float | None = None
    failures = 0
    while True:
        try:
            return await action()
        except RetriableError as fault:
            failures += 1
            first_fault = first_fault if first_fault is not None else loop.time()
            waited_ms = round((loop.time() - first_fault) * 1000)
            if waited_ms >= deadline_ms:
                raise RetriableError(f"{what}: gave up after {waited_ms} ms and {failures} tries: {fault}") from fault
            log.warning("%s: %s; trying again", what, fault)
            await asyncio.sleep(wait_ms(failures) / 1000)


async def follow(
    stream: Callable[[], AsyncIterator[_Result]],
    take: Callable[[_Result], None],
    what: str,
    log: logging.Logger,
    deadline_ms: int = DEFAULT_DEADLINE_MS,
) -> None:
    """Hand everything that `stream()` yields to `take`, opening it again after each `RetriableError`; never returns.

    Raises: RetriableError, naming `what`, when nothing has come for `deadline_ms` since the first of a row of faults.
    """
    wait_ms = waits_ms()
    loop = asyncio.get_running_loop()
    first_fault: float | None = None
    failures = 0
    while True:
        try:
            async for chunk in stream():
                first_fault, failures = None, 0
                take(chunk)
        except RetriableError as fault:
            failures += 1
            first_fault = first_fault if first_fault is not None else loop.time()
            if loop.time() - first_fault >= deadline_ms / 1000:
                raise RetriableError(f"{what}: gave up after {failures} tries: {fault}") from fault
            log.warning("%s: %s; trying again", what, fault)
            await asyncio.sleep(wait_ms(failures) / 1000)

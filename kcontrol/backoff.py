"""How long to wait before the next try, and when to give up: the one rule under every loop that tries again.

A `Backoff` is a value: the first wait, the longest one, and perhaps a deadline. `begin` gives the `Tries` at
one thing, which count failures, wait, and raise once the deadline has passed. There is no jitter: the few
processes of a pipeline never wait for the same thing in step, and what waits the same time in every run can
be tested.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from kcontrol.errors import KcontrolError, RetriableError

_MOST_DOUBLINGS = 20
_Answer = TypeVar("_Answer")


class Deadline:
    """A point in time after which nobody waits any more."""

    def __init__(self, timeout_ms: float, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._timeout_ms = timeout_ms
        self._clock_s = clock_s
        self._at_s = clock_s() + timeout_ms / 1000

    @property
    def passed(self) -> bool:
        return self._clock_s() >= self._at_s

    def check(self, what: str, last: object = "", kind: type[KcontrolError] = RetriableError) -> None:
        """Raises `kind`, naming `what` and the `last` fault, once the time is over."""
        if self.passed:
            because = f": {last}" if str(last) else ""
            raise kind(f"{what} did not succeed within {self._timeout_ms:g} ms{because}")


@dataclass(frozen=True, slots=True)
class Backoff:
    """`first_ms` before the second try, twice as long before each further one, at most `longest_ms`.

    deadline_ms: for all tries together; None: for ever.
    """

    first_ms: int
    longest_ms: int
    deadline_ms: int | None = None

    def within(self, deadline_ms: int) -> Backoff:
        """The same waits with a deadline."""
        return replace(self, deadline_ms=deadline_ms)

    def wait_ms(self, failures: int) -> int:
        """The wait after so many failures (1, 2, ...)."""
        return min(self.longest_ms, self.first_ms << min(failures - 1, _MOST_DOUBLINGS))

    def begin(self, clock_s: Callable[[], float] = time.monotonic) -> Tries:
        """The tries at one thing; the deadline counts from now on."""
        return Tries(self, clock_s)

    def poll(self, ask: Callable[[], _Answer]) -> _Answer:
        """Ask, in a thread of its own, until the answer is neither None nor False or the deadline has passed.

        Returns the last answer.
        """
        tries = self.begin()
        while True:
            answer = ask()
            if (answer is not None and answer is not False) or tries.passed:
                return answer
            tries.wait_blocking()


class Tries:
    """What has failed so far of one thing, and for how long it may go on."""

    def __init__(self, backoff: Backoff, clock_s: Callable[[], float]) -> None:
        self._backoff = backoff
        self._deadline = None if backoff.deadline_ms is None else Deadline(backoff.deadline_ms, clock_s)
        self.failures = 0

    @property
    def passed(self) -> bool:
        """Whether the deadline has passed."""
        return self._deadline is not None and self._deadline.passed

    def check(self, what: str, last: object = "", kind: type[KcontrolError] = RetriableError) -> None:
        """Raises `kind`, naming `what` and the `last` fault, once the deadline has passed."""
        if self._deadline is not None:
            self._deadline.check(what, last, kind)

    def succeeded(self) -> None:
        """The next failure is a first one again."""
        self.failures = 0

    def failed(self) -> int:
        """Count a failure; how many ms to wait before the next try."""
        self.failures += 1
        return self._backoff.wait_ms(self.failures)

    async def wait(self) -> None:
        """Count a failure and wait until the next try is due."""
        await asyncio.sleep(self.failed() / 1000)

    def wait_blocking(self) -> None:
        """The same in a thread of its own."""
        time.sleep(self.failed() / 1000)

    async def again(self, what: str, last: object = "", kind: type[KcontrolError] = RetriableError) -> None:
        """After a failure: raises as `check` does, or waits until the next try is due."""
        self.check(what, last, kind)
        await self.wait()

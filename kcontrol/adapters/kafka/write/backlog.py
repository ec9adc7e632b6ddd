"""How much a writer has given to Kafka that is not acknowledged: the one thing that its
task and the event loop share."""

from __future__ import annotations

import threading


class Backlog:
    """Counts bytes; a task waits here when there are too many, and until there are none. A failure ends every
    wait."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._changed = threading.Condition()
        self._bytes = 0
        self._failure: BaseException | None = None

    def add(self, size_bytes: int) -> None:
        """Wait until there is room, or nothing else is waiting, then take it. Raises the failure."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._failure or not self._bytes or self._bytes + size_bytes <= self._limit_bytes
            )
            self._raise()
            self._bytes += size_bytes

    def done(self, size_bytes: int) -> None:
        """So much is acknowledged."""
        with self._changed:
            self._bytes -= size_bytes
            self._changed.notify_all()

    def grow(self, size_bytes: int) -> None:
        """What is under way has become so much more."""
        with self._changed:
            self._bytes += size_bytes

    def fail(self, failure: BaseException) -> None:
        """The first failure counts."""
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def check(self) -> None:
        """Raises the failure, if there is one."""
        with self._changed:
            self._raise()

    def wait_empty(self) -> None:
        """Until all is acknowledged. Raises the failure."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or not self._bytes)
            self._raise()

    def _raise(self) -> None:
        if self._failure is not None:
            raise self._failure

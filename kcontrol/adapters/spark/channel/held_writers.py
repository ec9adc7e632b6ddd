"""Writers of an attempt that was made ready for while the step before it was being committed: they get leave to write once
it has begun, which is when the node has read that."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

BEGIN_WAIT_S = 60.0
"""How long a writer waits; a task waits for its driver for longer."""


class HeldWriters:
    """Of one attempt, whose lock `changed` is: whoever waits holds it."""

    def __init__(self, changed: threading.Condition, begun: bool) -> None:
        self._changed, self._begun = changed, begun
        self._since_s: float | None = None
        self.held_ms = 0
        """For so long, from when the first of them came."""

    def wait(self, is_over: Callable[[], bool]) -> bool:
        """Until it has begun, or is over. False: neither came in time."""
        if not self._begun and self._since_s is None:
            self._since_s = time.monotonic()
        return self._changed.wait_for(lambda: self._begun or is_over(), BEGIN_WAIT_S)

    def begin(self) -> None:
        """They may write."""
        with self._changed:
            if not self._begun and self._since_s is not None:
                self.held_ms = round((time.monotonic() - self._since_s) * 1_000)
            self._begun = True
            self._changed.notify_all()

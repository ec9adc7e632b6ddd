"""Where the time of a step goes, as its node sees it: divided, written, committed, recorded. Logged at debug level."""

from __future__ import annotations

import logging
from collections.abc import Callable


class Timeline:
    """Durations between the phases of one step at a time.

    monotonic_ns: a clock that never goes back.
    """

    def __init__(self, log: logging.Logger, monotonic_ns: Callable[[], int]) -> None:
        self._log = log
        self._monotonic_ns = monotonic_ns
        self._step = 0
        self._marks: list[tuple[str, int]] = []

    def begin(self, step: int) -> None:
        """A step's work has arrived; whatever was known of an earlier attempt is forgotten."""
        self._step = step
        self._marks = [("begin", self._monotonic_ns())]

    def mark(self, step: int, phase: str) -> None:
        """The named phase of `step` has just ended; ignored for another step than the begun one."""
        if step == self._step and self._marks:
            self._marks.append((phase, self._monotonic_ns()))

    def end(self, step: int, phase: str) -> None:
        """As `mark`, and log the whole."""
        self.mark(step, phase)
        if step != self._step or len(self._marks) < 2:
            return
        spans = [
            f"{name} {(at - before) / 1e6:.1f} ms"
            for (_, before), (name, at) in zip(self._marks, self._marks[1:], strict=False)
        ]
        self._log.debug("step %d: %s", step, ", ".join(spans))
        self._marks = []

"""Where the time of a step goes, as its node sees it: written, committed, recorded.
Logged at debug level, and observed."""

from __future__ import annotations

import logging
from collections.abc import Callable

from kcontrol.sessions.observers import NodeObserver


class Timeline:
    """Durations between the phases of one step at a time.

    monotonic_ns: a clock that never goes back.
    """

    def __init__(self, log: logging.Logger, monotonic_ns: Callable[[], int], observer: NodeObserver) -> None:
        self._log = log
        self._monotonic_ns = monotonic_ns
        self._observer = observer
        self._replay = False
        self._step = 0
        self._marks: list[tuple[str, int]] = []

    def begin(self, step: int, replay: bool) -> None:
        """A step's work has arrived; whatever was known of an earlier attempt is forgotten."""
        self._step, self._replay = step, replay
        self._marks = [("begin", self._monotonic_ns())]

    def mark(self, step: int, phase: str) -> None:
        """The named phase of `step` has just ended; ignored for another step than the begun one."""
        if step == self._step and self._marks:
            self._marks.append((phase, self._monotonic_ns()))

    def add(self, phase: str, ms: int) -> None:
        """A phase of the last step that ended, known only later."""
        self._log.debug("the step before: %s %d ms", phase, ms)
        self._observer.took(phase, max(0, ms) / 1_000)

    def end(self, step: int) -> None:
        """Log the whole, as far as it is known."""
        if step != self._step or len(self._marks) < 2:
            return
        spans = [
            (name, at - before) for (_, before), (name, at) in zip(self._marks, self._marks[1:], strict=False)
        ]
        self._log.debug("step %d: %s", step, ", ".join(f"{name} {ns / 1e6:.1f} ms" for name, ns in spans))
        self._marks = []
        if self._replay:
            self._observer.replayed()
            return
        for name, ns in spans:
            self._observer.took(name, ns / 1e9)

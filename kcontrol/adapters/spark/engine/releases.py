"""Who follows the gate for a query that is planned once, while the query's own thread may be in a Spark job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from kcontrol.adapters.spark.channel.attempt import AttemptCancelledError, AttemptLedger
from kcontrol.adapters.spark.channel.link import Peer
from kcontrol.adapters.spark.channel.step_gate import StepGate


class Releases:
    """The attempts that the gate releases for one query, one after another, from `start` to the first error.

    peer: the name under which it waits at the gate. decided: called with each attempt whose step is committed, before the
    next is waited for. `released` may be called by any thread.
    """

    def __init__(
        self, gate: StepGate, peer: Peer, query: str, decided: Callable[[AttemptLedger], None] | None = None
    ) -> None:
        self._gate, self._peer, self._query = gate, peer, query
        self._on_decided = decided
        self._changed = threading.Condition()
        self._attempt: AttemptLedger | None = None
        self._ready: AttemptLedger | None = None
        self._error: Exception | None = None
        self._thread: threading.Thread | None = None

    def start(self, step: int) -> None:
        """Wait at the gate for the step after this one, and go on with those that follow."""
        name = f"kcontrol-gate-{self._query}"
        self._thread = threading.Thread(target=self._follow, args=(step,), name=name, daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Whether it has ended; the gate must have been told."""
        self._gate.dismiss(self._peer)
        if self._thread is not None:
            self._thread.join(timeout_s)
        return self._thread is None or not self._thread.is_alive()

    def make_ready(self, attempt: AttemptLedger) -> None:
        """It is not released yet, and will be."""
        with self._changed:
            self._ready = attempt
            self._changed.notify_all()

    def foreseen(self, step: int, timeout_s: float) -> AttemptLedger | None:
        """As `released`, or the attempt at exactly this step that was made ready for, and is not released yet."""
        with self._changed:
            self._changed.wait_for(lambda: self._foresees(step), timeout_s)
            ready = self._ready
            if (
                self._error is None
                and ready is not None
                and ready.work.step == step
                and ready.failure is None
            ):
                return ready
        return self.released(step, 0.0)

    def _foresees(self, step: int) -> bool:
        known = [each for each in (self._attempt, self._ready) if each is not None]
        return self._error is not None or any(each.work.step >= step for each in known)

    def released(self, step: int, timeout_s: float | None = None) -> AttemptLedger | None:
        """The attempt at a step, or at a later one where what lies between is void, once it is released; None: not in that
        time. Without a time it is waited for until the query is stopped.

        Raises what ended the waiting: AttemptCancelledError, or StepFailedError from the gate.
        """
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        with self._changed:
            while self._attempt is None or self._attempt.work.step < step:
                if self._error is not None:
                    raise self._error
                left_s = None if until_s is None else until_s - time.monotonic()
                if left_s is not None and left_s <= 0:
                    return None
                self._changed.wait(left_s)
            return self._attempt

    def _follow(self, step: int) -> None:
        try:
            while True:
                released = self._gate.next_step(self._peer, step)
                if released is None:
                    continue
                step = released
                attempt = self._gate.current()
                if attempt is None or attempt.work.step != step:
                    raise AttemptCancelledError(f"query {self._query!r}: step {step} is not released")
                with self._changed:
                    self._attempt = attempt
                    self._changed.notify_all()
                attempt.wait_decision()
                if self._on_decided is not None:
                    self._on_decided(attempt)
        except Exception as error:  # noqa: BLE001 - whoever waits must hear of it, whatever it is
            with self._changed:
                self._error = error
                self._changed.notify_all()

"""Where planner processes wait for steps: the gate that the engine opens for one attempt after another.

A planner that asks for the step after `start` is proof that Spark has recorded the batch of `start`: so its
arrival is also how the engine learns, without polling files, that a query is open or that a batch is
finished. A planner does not know which query it serves, and a query asks its sources one after another: so
exactly one planner of each query waits at any time, and it is enough to count them.
"""

from __future__ import annotations

import threading
import time

from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.link import Peer
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError

LONG_POLL_S = 30.0
"""A planner's question is answered at least this often, so that both sides notice when the other is gone."""


class StepGate:
    """The current attempt, and who waits for which step. Every method may be called by any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._session = 0
        self._queries = 0
        self._attempt: AttemptLedger | None = None
        self._ready: AttemptLedger | None = None
        """The attempt at the step after, whose tasks may be at work."""
        self._asked: dict[Peer, tuple[int, float]] = {}
        """The last step that a planner's query has recorded, and by the monotonic clock
        since when it waits for the next."""
        self._dismissed: set[Peer] = set()
        self._trouble: StepFailedError | None = None
        self._ended = False

    def begin_session(self, session: int, queries: int) -> None:
        """So many queries are about to start anew: whoever belongs to an older session is sent away."""
        with self._changed:
            self._session = session
            self._queries = queries
            self._attempt = self._ready = None
            self._asked.clear()
            self._dismissed.clear()
            self._trouble = None
            self._ended = False
            self._changed.notify_all()

    def dismiss(self, peer: Peer) -> None:
        """Who waits for a step under that name is sent away, as if its query belonged to an older session."""
        with self._changed:
            self._dismissed.add(peer)
            self._asked.pop(peer, None)
            self._changed.notify_all()

    def release(self, attempt: AttemptLedger) -> None:
        """Let every planner that waits for this attempt's step go. Raises what ended a query meanwhile."""
        with self._changed:
            if self._trouble is not None:
                raise self._trouble
            self._attempt, self._ready = attempt, None
            self._changed.notify_all()

    def make_ready(self, attempt: AttemptLedger) -> None:
        """Its tasks are known from now on, beside those of the current one, which are all done."""
        with self._changed:
            self._ready = attempt

    def current(self) -> AttemptLedger | None:
        """The attempt that was released last."""
        return self._attempt

    def attempt(self, serial: int) -> AttemptLedger:
        """The attempt a task belongs to. Raises StepFailedError when it is not the current one."""
        for attempt in (self._attempt, self._ready):
            if attempt is not None and attempt.serial == serial:
                return attempt
        raise StepFailedError(FailureKind.LOST, "this task belongs to an attempt that is over")

    def query_ended(self, session: int, error: StepFailedError) -> bool:
        """A query ended by itself: nobody shall wait for it any more. False if it belonged to an older
        session."""
        with self._changed:
            if session != self._session:
                return False
            self._trouble = self._trouble or error
            self._ended = True
            # What was made ready for may have ended it: nothing is wrong then with what was written before.
            failed = self._ready is not None and self._ready.failure is not None
            if self._attempt is not None and not failed:
                self._attempt.fail(error.kind, str(error))
            self._changed.notify_all()
            return True

    @property
    def has_ended(self) -> bool:
        """A query of this session has ended by itself: what it was to record it may not have."""
        return self._ended

    def give_up(self, error: StepFailedError) -> None:
        """Whoever waits for the queries shall wait no longer; holds until the next session begins."""
        with self._changed:
            self._trouble = self._trouble or error
            self._changed.notify_all()

    def next_step(self, peer: Peer, start: int, timeout_s: float = LONG_POLL_S) -> int | None:
        """Wait until the step after `start` is released; None: not yet, ask again.

        Raises StepFailedError when the caller's query is being stopped or asks for a step that is not next.
        """
        with self._changed:
            if self._is_expected(peer):
                known, since_s = self._asked.get(peer, (None, 0.0))
                self._asked[peer] = (start, since_s if known == start else time.monotonic())
                self._changed.notify_all()
            self._changed.wait_for(
                lambda: (
                    not self._is_expected(peer)
                    or (self._attempt is not None and self._attempt.work.step > start)
                ),
                timeout=timeout_s,
            )
            if not self._is_expected(peer):
                raise StepFailedError(FailureKind.LOST, "this query is being stopped")
            if self._attempt is None or self._attempt.work.step <= start:
                return None
            if self._attempt.after != start:
                raise self._attempt.fail(
                    FailureKind.LOST, f"a query is at step {start} where {self._attempt.after} was expected"
                )
            return self._attempt.work.step

    def wait_queries(self, step: int, timeout_s: float, queries: int | None = None) -> float:
        """Block until every query, or so many of them, wait for the step after `step`;
        since when, by the monotonic clock.

        Raises what ended a query, or StepFailedError (LOST) when it takes too long.
        """
        with self._changed:
            wanted = self._queries if queries is None else queries
            done = self._changed.wait_for(
                lambda: self._trouble is not None or len(self._waiting(step)) >= wanted, timeout=timeout_s
            )
            if self._trouble is not None:
                raise self._trouble
            waiting = self._waiting(step)
            if not done:
                raise StepFailedError(
                    FailureKind.LOST,
                    f"{wanted - len(waiting)} of {wanted} queries did not reach step {step} within "
                    f"{timeout_s:.0f} s",
                )
            return max(waiting)

    def wait_recorded(self, step: int, timeout_s: float) -> None:
        """Block until every query has recorded `step`, or one has ended, or it takes too long.

        Unlike `wait_queries` it is not ended by `give_up`: who gave up may want to know what is on disk all
        the same.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._ended or len(self._waiting(step)) >= self._queries, timeout=timeout_s
            )

    def _is_expected(self, peer: Peer) -> bool:
        return peer.session == self._session and peer not in self._dismissed

    def _waiting(self, step: int) -> list[float]:
        return [since_s for start, since_s in self._asked.values() if start == step]

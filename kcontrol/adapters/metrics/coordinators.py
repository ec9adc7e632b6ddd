"""Metrics that only a coordinator knows: how long its phases take, what becomes of
attempts, how long recovery takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from prometheus_client import CollectorRegistry

from kcontrol.adapters.metrics import catalogue
from kcontrol.adapters.metrics.making import make_counter, make_gauge, make_histogram
from kcontrol.core.coordinator.decide import CoordinatorState
from kcontrol.core.coordinator.table import State

_PHASES = (State.FENCING, State.READING, State.ADDING, State.ATTEMPTING, State.COMMITTING)
_RESTS = (State.PAUSED, State.STOPPING, State.STOPPED, State.HALTED, State.RESIGNED)
_NOT_IN_CHARGE = (State.IDLE, State.CLAIMING, State.RESIGNED)

TAKEOVER = "takeover"
ATTEMPT = "attempt"
REPLACED = "replaced"


class CoordinatorMetrics:
    """A CoordinatorObserver. monotonic_s: a clock that never goes back."""

    def __init__(
        self, registry: CollectorRegistry, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        self._monotonic_s = monotonic_s
        self._active = make_gauge(catalogue.ACTIVE, registry)
        self._phase = make_histogram(catalogue.COORDINATOR_PHASE, registry)
        self._opened = make_gauge(catalogue.TRANSACTION_OPENED, registry)
        self._attempts = make_counter(catalogue.ATTEMPTS, registry)
        self._aborted = make_counter(catalogue.ABORTED, registry)
        self._recovery = make_histogram(catalogue.RECOVERY, registry)
        self._since: dict[str, float] = {}
        self._recovering: dict[tuple[str, str], float] = {}
        self._turn = Lock()

    def began(self, pipeline: str) -> None:
        with self._turn:
            now_s = self._monotonic_s()
            self._since[pipeline] = self._recovering[pipeline, TAKEOVER] = now_s
            self._active.labels(pipeline).set(0)

    def moved(self, before: CoordinatorState, after: CoordinatorState) -> None:
        with self._turn:
            now_s = self._monotonic_s()
            if after.at is not before.at:
                self._left(before, after, now_s)
            self._opened.labels(after.pipeline).set(_opened_ms(after) / 1000)
            self._look_at_attempts(before, after, now_s)
            self._look_at_recovery(before, after, now_s)

    def ended(self, pipeline: str) -> None:
        with self._turn:
            self._active.labels(pipeline).set(0)
            self._opened.labels(pipeline).set(0)
            self._forget(pipeline)

    def _left(self, before: CoordinatorState, after: CoordinatorState, now_s: float) -> None:
        began_s = self._since.get(after.pipeline, now_s)
        if before.at in _PHASES:
            self._phase.labels(after.pipeline, before.at.value).observe(now_s - began_s)
        self._since[after.pipeline] = now_s
        self._active.labels(after.pipeline).set(after.at not in _NOT_IN_CHARGE)

    def _look_at_attempts(self, before: CoordinatorState, after: CoordinatorState, now_s: float) -> None:
        begun = after.current.attempts > before.current.attempts
        if begun:
            self._attempts.labels(after.pipeline).inc()
        if (begun or before.at is State.ATTEMPTING) and after.at not in (State.ATTEMPTING, State.COMMITTING):
            self._aborted.labels(after.pipeline, _reason(after)).inc()
            self._recovering.setdefault((after.pipeline, ATTEMPT), now_s)

    def _look_at_recovery(self, before: CoordinatorState, after: CoordinatorState, now_s: float) -> None:
        if after.at in _RESTS:
            self._forget(after.pipeline)
        if after.nodes.assembled:
            self._recovered(after.pipeline, TAKEOVER, now_s)
        if after.steps.step > before.steps.step:
            self._recovered(after.pipeline, ATTEMPT, now_s)

    def _recovered(self, pipeline: str, cause: str, now_s: float) -> None:
        began_s = self._recovering.pop((pipeline, cause), None)
        if began_s is not None:
            self._recovery.labels(pipeline, cause).observe(now_s - began_s)

    def _forget(self, pipeline: str) -> None:
        for cause in (TAKEOVER, ATTEMPT):
            self._recovering.pop((pipeline, cause), None)


def _opened_ms(after: CoordinatorState) -> int:
    """When the transaction of the attempt under way was opened; 0 while there is none."""
    under_way = after.at in (State.ATTEMPTING, State.COMMITTING)
    return (
        after.wall(after.current.attempt.opened_ms) if under_way and after.current.attempt is not None else 0
    )


def _reason(after: CoordinatorState) -> str:
    if after.at is State.RESIGNED or after.trouble.failure is None:
        return REPLACED
    return after.trouble.failure.kind.value

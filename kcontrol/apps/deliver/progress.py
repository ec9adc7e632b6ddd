"""How a delivery is, for its metrics and for whoever is told of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from kcontrol.core.step.following import Delivered, StepVerdict


class DeliveryState(StrEnum):
    """Of a delivery."""

    STARTING = "starting"
    STANDING_BY = "standing_by"
    """Another process has it."""
    RUNNING = "running"
    AWAY = "away"
    """The target, or Kafka, can't be reached."""
    STOPPED = "stopped"
    HALTED = "halted"
    """A person has to decide."""


@dataclass(frozen=True, slots=True)
class DeliveryProgress:
    """step: the last one that was applied; -1: not known yet. since_ms: when the state began. Counts are of this process."""

    state: DeliveryState = DeliveryState.STARTING
    step: int = -1
    steps: int = 0
    rows: int = 0
    bad_rows: int = 0
    errors: int = 0
    reason: str = ""
    since_ms: int = 0


class DeliveryObserver(Protocol):
    """Counts what happens."""

    def applied(self, rows: int, bad_rows: int) -> None:
        """A step."""
        ...

    def failed(self) -> None:
        """A try."""
        ...


class Progress:
    """Written by the delivery, read by others."""

    def __init__(self, clock_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._observer: DeliveryObserver | None = None
        self._lock, self._clock_ms = threading.Lock(), clock_ms
        self.facts = DeliveryProgress(since_ms=clock_ms())

    def observe(self, observer: DeliveryObserver) -> None:
        """From now on it is told."""
        self._observer = observer

    def running(self, step: int) -> None:
        """It has its turn. step: the last one that the target holds. After a fault it is away still, until it is `back`."""
        is_away = self.facts.state is DeliveryState.AWAY
        self._set(state=DeliveryState.AWAY if is_away else DeliveryState.RUNNING, step=step)

    def standing_by(self) -> None:
        """Another process has the delivery."""
        self._set(state=DeliveryState.STANDING_BY)

    def delivered(self, step: int, done: Delivered) -> None:
        """The target holds a step."""
        facts = self.facts
        if done.verdict is StepVerdict.NEXT:
            self._set(
                steps=facts.steps + 1,
                rows=facts.rows + done.rows,
                bad_rows=facts.bad_rows + done.bad_rows,
                step=step,
            )
            if self._observer is not None:
                self._observer.applied(done.rows, done.bad_rows)
        else:
            self._set(step=step)

    def away(self, reason: str) -> bool:
        """A try has failed; whether that is news."""
        news = (self.facts.state, self.facts.reason) != (DeliveryState.AWAY, reason)
        self._failed(DeliveryState.AWAY, reason)
        return news

    def back(self) -> None:
        """The fault is over."""
        self._set(
            reason="", **({"state": DeliveryState.RUNNING} if self.facts.state is DeliveryState.AWAY else {})
        )

    def stopped(self) -> None:
        """It was told to end."""
        self._set(state=DeliveryState.STOPPED)

    def halted(self, reason: str) -> None:
        """A person has to decide."""
        self._failed(DeliveryState.HALTED, reason)

    def _failed(self, state: DeliveryState, reason: str) -> None:
        self._set(state=state, reason=reason, errors=self.facts.errors + 1)
        if self._observer is not None:
            self._observer.failed()

    def _set(self, **changes: object) -> None:
        with self._lock:
            if changes.get("state", self.facts.state) is not self.facts.state:
                changes["since_ms"] = self._clock_ms()
            self.facts = replace(self.facts, **changes)  # type: ignore[arg-type]

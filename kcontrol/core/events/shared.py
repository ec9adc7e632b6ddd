"""What every state machine hears, and may want done."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model import ControlRecord, Logged, LoggedStep


@dataclass(frozen=True, slots=True)
class Tick:
    """Both clocks. Sent at least every 100 ms, and when a wait that a `WakeAt` named is over."""

    now_ms: int
    wall_ms: int
    """Milliseconds since the Unix epoch, by this machine; may have been set, forward or back, since the last
    tick."""


@dataclass(frozen=True, slots=True)
class ControlSeen:
    """A record of the control partition, in offset order, each offset once."""

    logged: Logged
    now_ms: int


@dataclass(frozen=True, slots=True)
class StepSeen:
    """A committed record of the steps topic, in offset order, each offset once."""

    logged: LoggedStep
    now_ms: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Append records to the control partition, in order, with an idempotent producer.
    `forget` are keys to tombstone."""

    records: tuple[ControlRecord, ...]
    forget: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Ask for a `Tick` no later than this."""

    at_ms: int

"""What is said about a pipeline that is held for a while, so that several come to one moment: asked for by whoever drains
them, told by coordinators."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model.words import HoldPhase


@dataclass(frozen=True, slots=True)
class ReadLimit:
    """No step reads this partition from here on."""

    topic: str
    partition: int
    to: int


@dataclass(frozen=True, slots=True)
class Hold:
    """`p/hold`: read no further than these limits, and make no step once all of them are reached.

    It is an order, not a wish: the newest counts, whoever has written it, and the coordinator gives it up by itself when it
    was not written again in time; so whoever drains and dies holds nobody.
    """

    pipeline: str
    holder: str
    """Who holds it, for people."""
    number: int
    """Of the drain that it belongs to."""
    limits: tuple[ReadLimit, ...]
    """(): no further step at all. Of a topic that is named, nothing is read of partitions that are not."""
    released: bool
    """It goes on as if there were no hold."""
    timeout_ms: int
    """How long it counts from when a coordinator takes note of it, by that one's monotonic clock."""
    request_id: str
    """Each time that it is written another one."""


@dataclass(frozen=True, slots=True)
class HoldStatus:
    """How far a pipeline is with the newest `Hold`."""

    request_id: str
    phase: HoldPhase
    step: int
    """Held: the step at which it stands. Else 0."""

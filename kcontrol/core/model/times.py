"""When things happened in a step, so that people see where its time goes. Nothing is ever decided by it.

Each time is by the clock of the process that it happened in; 0 is said where it is not known. Times of one
process can be subtracted; those of two processes only as far as their clocks agree.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WorkTimes:
    """One node's work at an attempt, in this order."""

    begun_ms: int
    """The command was taken up, which may be before the step before was committed."""
    planned_ms: int
    """Spark had planned the batch of every query; tasks could begin."""
    ran_ms: int
    """The last task had ended."""
    written_ms: int
    """The node said what it has written."""
    held_ms: int = 0
    """Of that time, how long writers waited for the step before to be committed, from when the first of them came."""


@dataclass(frozen=True, slots=True)
class EndTimes:
    """What one node did once its work was committed."""

    seen_ms: int
    """It read the boundary."""
    recorded_ms: int
    """Spark had recorded the batch of every query; the node could begin the next step."""


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step ended, after its boundary was written: what that boundary can't hold, and so the next one
    does."""

    answered_ms: int
    """Kafka told the coordinator that the transaction is committed."""
    nodes: tuple[EndTimes, ...]
    """By node number."""

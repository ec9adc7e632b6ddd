"""What a log gives back."""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.core.model.control import ControlRecord
from kcontrol.core.model.exchanges import EventTimes, ExchangeSlice, ExchangeTaken
from kcontrol.core.model.steps import StepRecord
from kcontrol.core.model.values import InputSlice, LateRows, OutputSlice, Skipped


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A key without a value: the record of that key is forgotten."""

    key: str


@dataclass(frozen=True, slots=True)
class Logged:
    """A control record with the offset that Kafka gave it."""

    offset: int
    timestamp_ms: int
    record: ControlRecord | Tombstone


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A record of the steps topic with its offset."""

    offset: int
    record: StepRecord | Tombstone


@dataclass(frozen=True, slots=True)
class StepResult:
    """What a Spark application found and wrote in one attempt, or recomputed in a replay.

    Of an attempt of several stages the result of the last one counts: it says all of all of them, but for `sent`, which each
    says of itself.
    """

    inputs: tuple[InputSlice, ...]
    outputs: tuple[OutputSlice, ...]
    skipped: tuple[Skipped, ...]
    watermark_moved: bool
    plan_ms: int = 0
    """From the call until Spark had planned the batch of every query."""
    run_ms: int = 0
    """From the call until the last task had ended."""
    held_ms: int = 0
    """Of that, how long writers waited for the step before to be committed."""
    recorded_ms: int | None = None
    """From the call until Spark had recorded the step before; less than 0 if it had by
    then. None: it was not run before."""
    late_rows: tuple[LateRows, ...] = ()
    """Of each query with state and a watermark."""
    sent: tuple[ExchangeSlice, ...] = ()
    """In the stage that it is the result of; in a replay, by all senders that were run again, one slice for each of their
    tasks, those that sent nothing too."""
    taken: tuple[ExchangeTaken, ...] = ()
    """From each exchange that was read."""
    event_times: tuple[EventTimes, ...] = ()
    """Of each query that the spec names a watermark of."""

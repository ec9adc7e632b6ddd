"""Deadlines and retries: every wait of a pipeline has one, each can be set, none is infinite."""

from __future__ import annotations

from dataclasses import KW_ONLY, fields
from typing import Annotated

from pydantic import Field

from kcontrol.core.model import LimitsSpec
from kcontrol.definition.durations import PositiveDuration, duration_ms
from kcontrol.definition.errors import definition
from kcontrol.errors import ConfigurationError

MAX_TRANSACTION_TIMEOUT_MS = 15 * 60_000
"""The default of the broker's `transaction.max.timeout.ms`."""

MIN_HEARTBEAT_TIMEOUT_MS = 2_000

Count = Annotated[int, Field(ge=1, le=1_000_000)]


@definition
class Limits:
    """Deadlines and retries of a pipeline.

    max_attempts: attempts at one step that may fail by the query before the pipeline halts.
    max_lost: the same for attempts that failed because a Spark task, worker or executor was lost.
    backoff: wait before the second attempt; doubles with each. max_backoff: the longest such wait.
    heartbeat_timeout: a node that is silent for so long is dead.
    open_timeout: for opening a node. step_timeout: for one attempt. replay_timeout: for each step of a
    replay.
    transaction_timeout: after this the broker aborts a step that nobody ended; longer than step_timeout, and
        at most the broker's transaction.max.timeout.ms.
    pin_timeout: how long the next step waits for nodes to hold fast what a checkpoint needs; then it is given
    up.
    save_timeout: for copying a checkpoint, beside the steps; and for a node to look which ones it can open.
    stop_save_timeout: how long a stop waits for the checkpoint of the last step; then it goes on without, and
    says so.
    max_forgotten: most steps that are dropped from the log in one transaction.
    silence_timeout: a node that has been silent for so long is told to end, so that whoever watches it starts
        it anew; longer than heartbeat_timeout, so that a pause that is soon over costs an attempt and no
        restart. How long else a process may hang follows from it.
    clock_tolerance: how far the time of a step may be ahead of what the log's timestamps say, whatever the
        coordinator's wall clock shows.
    """

    _: KW_ONLY
    max_attempts: Count = 5
    max_lost: Count = 20
    backoff: PositiveDuration = "200 ms"
    max_backoff: PositiveDuration = "10 s"
    heartbeat_timeout: PositiveDuration = "10 s"
    open_timeout: PositiveDuration = "120 s"
    step_timeout: PositiveDuration = "50 s"
    replay_timeout: PositiveDuration = "120 s"
    transaction_timeout: PositiveDuration = "60 s"
    pin_timeout: PositiveDuration = "10 s"
    save_timeout: PositiveDuration = "10 min"
    max_forgotten: Annotated[int, Field(ge=1, le=10_000)] = 10_000
    stop_save_timeout: PositiveDuration = "2 min"
    silence_timeout: PositiveDuration = "60 s"
    clock_tolerance: PositiveDuration = "60 s"

    def __post_init__(self) -> None:
        if duration_ms(self.backoff) > duration_ms(self.max_backoff):
            raise ConfigurationError(
                f"Limits: backoff = {self.backoff!r} is longer than max_backoff = {self.max_backoff!r}"
            )
        if duration_ms(self.heartbeat_timeout) < MIN_HEARTBEAT_TIMEOUT_MS:
            raise ConfigurationError(
                f"Limits: heartbeat_timeout = {self.heartbeat_timeout!r} is too short: nodes report each "
                "second; give 2 s or more"
            )
        if duration_ms(self.silence_timeout) <= duration_ms(self.heartbeat_timeout):
            raise ConfigurationError(
                f"Limits: silence_timeout = {self.silence_timeout!r} must be longer than heartbeat_timeout = "
                f"{self.heartbeat_timeout!r}: first the attempt is given up, then the process"
            )
        if duration_ms(self.step_timeout) >= duration_ms(self.transaction_timeout):
            raise ConfigurationError(
                f"Limits: step_timeout = {self.step_timeout!r} must be shorter than transaction_timeout = "
                f"{self.transaction_timeout!r}, or the broker would abort a step that is still being written"
            )
        if duration_ms(self.transaction_timeout) > MAX_TRANSACTION_TIMEOUT_MS:
            raise ConfigurationError(
                f"Limits: transaction_timeout = {self.transaction_timeout!r} is longer than 15 min, "
                "which is the longest that a broker allows by default"
            )

    def to_spec(self) -> LimitsSpec:
        """The same with every duration in milliseconds."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        counts = {name: given.pop(name) for name in ("max_attempts", "max_lost", "max_forgotten")}
        return LimitsSpec(**counts, **{f"{name}_ms": duration_ms(value) for name, value in given.items()})

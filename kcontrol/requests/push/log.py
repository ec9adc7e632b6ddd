"""Rows that are to be pushed, and whoever writes them: the port between a request and Kafka."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from kcontrol.core.model import InputSpec
from kcontrol.errors import ConfigurationError, RetriableError
from kcontrol.requests.push.bodies import InputRow
from kcontrol.requests.push.limits import SLACK_MS
from kcontrol.wire.pushed import PushedRequest

MAX_ID_CHARACTERS = 255


class OtherRowsError(ConfigurationError):
    """A request of that id has pushed other rows."""


class TooMuchError(RetriableError):
    """More waits than may. retry_after_s: when there may be room again."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TooManyRememberedError(TooMuchError):
    """As many requests are remembered as may be."""


@dataclass(frozen=True, slots=True)
class Push:
    """Rows for an input, all or none. request_id: by which the same request is known when it comes again. input: as the spec in
    force has it."""

    pipeline: str
    input: InputSpec
    request_id: str
    rows: Sequence[InputRow]


@dataclass(frozen=True, slots=True)
class Pushed:
    """The rows are committed. replayed: they were before. Until `request.until_ms` a request of that id pushes nothing, whoever
    is asked."""

    request: PushedRequest
    replayed: bool


def counts(until_ms: int, now_ms: int) -> bool:
    """Whether a request that somebody was told is remembered until then may still count, by whatever clock."""
    return until_ms + SLACK_MS > now_ms


def always() -> None:
    """There is room for any request."""


class PushLog(Protocol):
    """Where rows are pushed to."""

    async def push(self, push: Push, check_room: Callable[[], None] = always) -> Pushed:
        """Returns when they are committed, whoever has committed them.

        check_room: raises if there is no room for these rows. Asked before they are written, and not of a request that is
        known, which has its answer however much waits.

        Raises RetriableError: it is not known whether they are; the same push may be asked for again, of anybody.
        OtherRowsError, OversizedPushError, TooMuchError, TopicError, InputGoneError, AccessError: nothing of this push is
        written.
        """
        ...

    def remembered(self) -> int:
        """How many requests are remembered in this process now."""
        ...

    async def close(self) -> None: ...


def check_request_id(request_id: str) -> str:
    """Returns it. Raises ConfigurationError."""
    if (
        not 1 <= len(request_id) <= MAX_ID_CHARACTERS
        or not request_id.isascii()
        or not request_id.isprintable()
    ):
        raise ConfigurationError(
            f"the id of a request must be 1 to {MAX_ID_CHARACTERS} printable ASCII characters, and is "
            f"{request_id[:40]!r} ({len(request_id)} characters): a UUID for each body will do"
        )
    return request_id

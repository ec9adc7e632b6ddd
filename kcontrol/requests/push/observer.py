"""What is told of requests that push rows: to whoever counts them."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from kcontrol.errors import ConfigurationError
from kcontrol.requests.push.bodies import BadRowsError
from kcontrol.requests.push.limits import OversizedPushError
from kcontrol.requests.push.log import OtherRowsError, TooManyRememberedError, TooMuchError


class Refusal(StrEnum):
    """Why nothing of a request was written."""

    QUEUE = "queue"
    REMEMBERED = "remembered"
    SIZE = "size"
    ROWS = "rows"
    OTHER_ROWS = "other_rows"
    REQUEST = "request"


_REFUSALS: tuple[tuple[type[Exception], Refusal], ...] = (
    (TooManyRememberedError, Refusal.REMEMBERED),
    (TooMuchError, Refusal.QUEUE),
    (OversizedPushError, Refusal.SIZE),
    (BadRowsError, Refusal.ROWS),
    (OtherRowsError, Refusal.OTHER_ROWS),
    (ConfigurationError, Refusal.REQUEST),
)


def refusal_of(error: BaseException) -> Refusal | None:
    """None: it is not for the request that this came, but for Kafka, or nobody waited for longer."""
    return next((refusal for kind, refusal in _REFUSALS if isinstance(error, kind)), None)


class PushObserver(Protocol):
    """Is told and never asked. pipeline, input_name: of those that there are, whatever a request names."""

    def pushed(self, pipeline: str, input_name: str, rows: int, size: int) -> None:
        """They are committed. size: bytes of keys and values."""
        ...

    def replayed(self, pipeline: str, input_name: str) -> None:
        """A request that is known had its answer again."""
        ...

    def refused(self, pipeline: str, input_name: str, reason: Refusal) -> None:
        """Nothing was written."""
        ...

    def failed(self, pipeline: str, input_name: str) -> None:
        """Kafka has not taken it, or not in time."""
        ...


class Unseen:
    """Nobody is told."""

    def pushed(self, pipeline: str, input_name: str, rows: int, size: int) -> None:
        pass

    def replayed(self, pipeline: str, input_name: str) -> None:
        pass

    def refused(self, pipeline: str, input_name: str, reason: Refusal) -> None:
        pass

    def failed(self, pipeline: str, input_name: str) -> None:
        pass


UNSEEN = Unseen()

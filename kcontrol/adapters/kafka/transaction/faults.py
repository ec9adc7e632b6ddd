"""What ends a step's transaction, as errors of ours: the codes that repeating does not help against."""

from __future__ import annotations

from typing import NoReturn

from kcontrol.adapters.kafka.client.codes import Verdict, describe_code, verdict_of
from kcontrol.errors import AccessError, ConfigurationError, FencedError, RetriableError, TopicError


def raise_for(what: str, code: int) -> NoReturn:
    """Raise the error of ours for a code that repeating does not help against. `what`: the request and its
    object."""
    said = f"{what}: {describe_code(code)}"
    match verdict_of(code):
        # A sequence number out of order: the epoch was written under already, its transaction is over.
        case Verdict.FENCED | Verdict.OUT_OF_ORDER:
            raise FencedError(f"{said}; somebody newer owns the transaction, or it is over")
        case Verdict.OTHER_LEADER | Verdict.MAYBE_GONE:
            raise TopicError(f"{said}; a topic or partition that the step needs is not there")
        case Verdict.TOO_LARGE:
            raise TopicError(f"{said}; raise max.message.bytes of the topic")
        case Verdict.DENIED:
            raise AccessError(f"{said}; give this client the rights")
        case Verdict.BAD_TIMEOUT:
            raise ConfigurationError(
                f"{said}; the broker's transaction.max.timeout.ms is less than the transaction timeout"
            )
        case _:
            raise RetriableError(said)

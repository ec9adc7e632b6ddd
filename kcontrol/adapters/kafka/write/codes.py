"""What each Kafka error code means for one batch of a step's output, as one table beside that of the transaction."""

from __future__ import annotations

from enum import Enum, auto

from kcontrol.adapters.kafka.transaction.codes import Verdict, verdict_of


class Outcome(Enum):
    """What to do about a batch."""

    WRITTEN = auto()
    AGAIN = auto()
    """The same bytes again, soon."""
    ELSEWHERE = auto()
    """The same bytes to whoever leads the partition now."""
    TOO_LARGE = auto()
    REFUSED = auto()
    """The records are such that this topic does not take them: the query must change, or the topic."""
    SECOND_WRITER = auto()
    """Its sequence number is not the next one: somebody else writes under the same producer id and epoch."""
    FINAL = auto()
    """Repeating does not help: see `transaction_codes.raise_for`."""


_OUTCOMES = {
    0: Outcome.WRITTEN,
    -1: Outcome.AGAIN,  # UNKNOWN_SERVER_ERROR
    2: Outcome.AGAIN,  # CORRUPT_MESSAGE: damaged on its way
    13: Outcome.ELSEWHERE,  # NETWORK_EXCEPTION
    32: Outcome.REFUSED,  # INVALID_TIMESTAMP
    45: Outcome.SECOND_WRITER,  # OUT_OF_ORDER_SEQUENCE_NUMBER
    # A batch that is sent again is known by its sequence number and acknowledged as written; only one that is older than the
    # last five gives this, and we never have more than one under way.
    46: Outcome.SECOND_WRITER,  # DUPLICATE_SEQUENCE_NUMBER
    56: Outcome.ELSEWHERE,  # KAFKA_STORAGE_ERROR
    76: Outcome.REFUSED,  # UNSUPPORTED_COMPRESSION_TYPE
    87: Outcome.REFUSED,  # INVALID_RECORD
}
_BY_VERDICT = {
    Verdict.PASSING: Outcome.AGAIN,
    Verdict.COORDINATOR_MOVED: Outcome.AGAIN,
    Verdict.LEADER_MOVED: Outcome.ELSEWHERE,
    Verdict.TOO_LARGE: Outcome.TOO_LARGE,
}


def outcome_of(code: int) -> Outcome:
    """What a broker's error code for a produced batch asks for."""
    return _OUTCOMES.get(code) or _BY_VERDICT.get(verdict_of(code), Outcome.FINAL)

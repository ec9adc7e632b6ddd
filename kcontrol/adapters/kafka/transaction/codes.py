"""What each Kafka error code means for a step's transaction, as one table (seen on Kafka 4.3)."""

from __future__ import annotations

from enum import Enum, auto
from typing import NoReturn

from kcontrol.adapters.kafka.client.rpc import describe_code
from kcontrol.errors import AccessError, ConfigurationError, FencedError, RetriableError, TopicError


class Verdict(Enum):
    """What to do about an error code."""

    FENCED = auto()
    """Somebody newer owns the transaction, or it is over: this attempt is over too."""
    PASSING = auto()
    """Over in milliseconds: the same request again."""
    COORDINATOR_MOVED = auto()
    """Ask who coordinates the transaction, then the same request again."""
    LEADER_MOVED = auto()
    """Ask who leads the partition, then the same request again."""
    NOT_ATTEMPTED = auto()
    """Nothing was done because of another partition of the request; alone it is passing."""
    DUPLICATE = auto()
    """The broker has this very batch already: it was written."""
    TOO_LARGE = auto()
    FORBIDDEN = auto()
    BAD_TIMEOUT = auto()
    OTHER = auto()


_VERDICTS = {
    3: Verdict.LEADER_MOVED,  # UNKNOWN_TOPIC_OR_PARTITION
    5: Verdict.LEADER_MOVED,  # LEADER_NOT_AVAILABLE
    6: Verdict.LEADER_MOVED,  # NOT_LEADER_OR_FOLLOWER
    7: Verdict.PASSING,  # REQUEST_TIMED_OUT
    10: Verdict.TOO_LARGE,  # MESSAGE_TOO_LARGE
    14: Verdict.COORDINATOR_MOVED,  # COORDINATOR_LOAD_IN_PROGRESS
    15: Verdict.COORDINATOR_MOVED,  # COORDINATOR_NOT_AVAILABLE
    16: Verdict.COORDINATOR_MOVED,  # NOT_COORDINATOR
    18: Verdict.TOO_LARGE,  # RECORD_LIST_TOO_LARGE
    19: Verdict.PASSING,  # NOT_ENOUGH_REPLICAS: also while the broker verifies a transaction's writers (KIP-890)
    20: Verdict.PASSING,  # NOT_ENOUGH_REPLICAS_AFTER_APPEND
    29: Verdict.FORBIDDEN,  # TOPIC_AUTHORIZATION_FAILED
    31: Verdict.FORBIDDEN,  # CLUSTER_AUTHORIZATION_FAILED
    45: Verdict.FENCED,  # OUT_OF_ORDER_SEQUENCE_NUMBER: the epoch was written under already, its transaction is over
    46: Verdict.DUPLICATE,  # DUPLICATE_SEQUENCE_NUMBER
    47: Verdict.FENCED,  # INVALID_PRODUCER_EPOCH
    48: Verdict.FENCED,  # INVALID_TXN_STATE
    49: Verdict.FENCED,  # INVALID_PRODUCER_ID_MAPPING
    50: Verdict.BAD_TIMEOUT,  # INVALID_TRANSACTION_TIMEOUT
    51: Verdict.PASSING,  # CONCURRENT_TRANSACTIONS
    53: Verdict.FORBIDDEN,  # TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    55: Verdict.NOT_ATTEMPTED,  # OPERATION_NOT_ATTEMPTED
    59: Verdict.FENCED,  # UNKNOWN_PRODUCER_ID
    90: Verdict.FENCED,  # PRODUCER_FENCED
}


def verdict_of(code: int) -> Verdict:
    """The verdict on an error code; OTHER for one that is not expected here."""
    return _VERDICTS.get(code, Verdict.OTHER)


def raise_for(what: str, code: int) -> NoReturn:
    """Raise the error of ours for a code that repeating does not help against. `what`: the request and its object."""
    said = f"{what}: {describe_code(code)}"
    match verdict_of(code):
        case Verdict.FENCED:
            raise FencedError(f"{said}; somebody newer owns the transaction, or it is over")
        case Verdict.LEADER_MOVED:
            raise TopicError(f"{said}; a topic or partition that the step needs is not there")
        case Verdict.TOO_LARGE:
            raise TopicError(f"{said}; raise max.message.bytes of the topic")
        case Verdict.FORBIDDEN:
            raise AccessError(f"{said}; give this client the rights")
        case Verdict.BAD_TIMEOUT:
            raise ConfigurationError(f"{said}; the broker's transaction.max.timeout.ms is less than the transaction timeout")
        case _:
            raise RetriableError(said)

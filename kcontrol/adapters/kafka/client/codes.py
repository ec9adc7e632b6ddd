"""Kafka's error codes by name, and what each asks of whoever gets it: one table for reads, writes and
transactions.

Names and numbers are those of Kafka's protocol. What a verdict means for a read, a batch or a transaction is
for the caller to say, where it differs; which verdict a code has is said here alone (seen on Kafka 4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum, IntEnum, auto
from types import MappingProxyType

from aiokafka import errors as kafka_errors


class ErrorCode(IntEnum):
    """Those that kcontrol tells apart."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    REQUEST_TIMED_OUT = 7
    REPLICA_NOT_AVAILABLE = 9
    MESSAGE_TOO_LARGE = 10
    NETWORK_EXCEPTION = 13
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    NOT_COORDINATOR = 16
    RECORD_LIST_TOO_LARGE = 18
    NOT_ENOUGH_REPLICAS = 19
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    CLUSTER_AUTHORIZATION_FAILED = 31
    INVALID_TIMESTAMP = 32
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    DUPLICATE_SEQUENCE_NUMBER = 46
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    UNKNOWN_PRODUCER_ID = 59
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    OFFSET_NOT_AVAILABLE = 78
    INVALID_RECORD = 87
    PRODUCER_FENCED = 90
    UNKNOWN_TOPIC_ID = 100


class Verdict(Enum):
    """What to do about an error code."""

    FINE = auto()
    PASSING = auto()
    """Over in milliseconds: the same request again."""
    OTHER_LEADER = auto()
    """Ask who leads the partition, then the same request again."""
    MAYBE_GONE = auto()
    """This broker knows of no such topic or partition: ask as for another leader, and whether it is there at
    all."""
    OUT_OF_RANGE = auto()
    """There is no such offset, or none yet in the replica that was asked."""
    OTHER_COORDINATOR = auto()
    """Ask who coordinates the transaction, then the same request again."""
    NOT_ATTEMPTED = auto()
    """Nothing was done because of another partition of the request; alone it is passing."""
    UNCERTAIN = auto()
    """Nobody knows what became of the request. A batch may be sent again, since its sequence number tells; a
    commit may not."""
    DENIED = auto()
    FENCED = auto()
    """Somebody newer owns the transaction, or it is over: this attempt is over too."""
    OUT_OF_ORDER = auto()
    """The sequence number is not the next one: somebody else has written under the same producer id and
    epoch."""
    DUPLICATE = auto()
    """The broker has this very batch already: it was written. Where only one batch is under way, it is one
    that is older than the last five, which nobody has sent again."""
    TOO_LARGE = auto()
    REFUSED = auto()
    """The records are such that this topic does not take them: the query must change, or the topic."""
    BAD_TIMEOUT = auto()
    UNEXPECTED = auto()


VERDICTS: Mapping[ErrorCode, Verdict] = MappingProxyType(
    {
        ErrorCode.NONE: Verdict.FINE,
        ErrorCode.UNKNOWN_SERVER_ERROR: Verdict.UNCERTAIN,
        ErrorCode.OFFSET_OUT_OF_RANGE: Verdict.OUT_OF_RANGE,
        ErrorCode.CORRUPT_MESSAGE: Verdict.UNCERTAIN,  # damaged on its way
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: Verdict.MAYBE_GONE,
        ErrorCode.LEADER_NOT_AVAILABLE: Verdict.OTHER_LEADER,
        ErrorCode.NOT_LEADER_OR_FOLLOWER: Verdict.OTHER_LEADER,
        ErrorCode.REQUEST_TIMED_OUT: Verdict.PASSING,
        ErrorCode.REPLICA_NOT_AVAILABLE: Verdict.OTHER_LEADER,
        ErrorCode.MESSAGE_TOO_LARGE: Verdict.TOO_LARGE,
        ErrorCode.NETWORK_EXCEPTION: Verdict.OTHER_LEADER,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.OTHER_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.OTHER_COORDINATOR,
        ErrorCode.NOT_COORDINATOR: Verdict.OTHER_COORDINATOR,
        ErrorCode.RECORD_LIST_TOO_LARGE: Verdict.TOO_LARGE,
        # also while the broker verifies a transaction's writers (KIP-890)
        ErrorCode.NOT_ENOUGH_REPLICAS: Verdict.PASSING,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Verdict.PASSING,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED: Verdict.DENIED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED: Verdict.DENIED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED: Verdict.DENIED,
        ErrorCode.INVALID_TIMESTAMP: Verdict.REFUSED,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER: Verdict.OUT_OF_ORDER,
        ErrorCode.DUPLICATE_SEQUENCE_NUMBER: Verdict.DUPLICATE,
        ErrorCode.INVALID_PRODUCER_EPOCH: Verdict.FENCED,
        ErrorCode.INVALID_TXN_STATE: Verdict.FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING: Verdict.FENCED,
        ErrorCode.INVALID_TRANSACTION_TIMEOUT: Verdict.BAD_TIMEOUT,
        ErrorCode.CONCURRENT_TRANSACTIONS: Verdict.PASSING,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: Verdict.DENIED,
        ErrorCode.OPERATION_NOT_ATTEMPTED: Verdict.NOT_ATTEMPTED,
        ErrorCode.KAFKA_STORAGE_ERROR: Verdict.OTHER_LEADER,
        ErrorCode.UNKNOWN_PRODUCER_ID: Verdict.FENCED,
        ErrorCode.FENCED_LEADER_EPOCH: Verdict.OTHER_LEADER,
        ErrorCode.UNKNOWN_LEADER_EPOCH: Verdict.OTHER_LEADER,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE: Verdict.REFUSED,
        ErrorCode.OFFSET_NOT_AVAILABLE: Verdict.OTHER_LEADER,
        ErrorCode.INVALID_RECORD: Verdict.REFUSED,
        ErrorCode.PRODUCER_FENCED: Verdict.FENCED,
        ErrorCode.UNKNOWN_TOPIC_ID: Verdict.MAYBE_GONE,
    }
)

_BY_NUMBER: Mapping[int, Verdict] = MappingProxyType(
    {int(code): verdict for code, verdict in VERDICTS.items()}
)

LOOK_AGAIN = frozenset({Verdict.OTHER_LEADER, Verdict.MAYBE_GONE})
"""For a read: this broker knows of no such topic or partition, or is not (yet) its leader: ask for the
metadata and try again."""

DENIED_CODES = frozenset(int(code) for code, verdict in VERDICTS.items() if verdict is Verdict.DENIED)


def verdict_of(code: int) -> Verdict:
    """The verdict on an error code; UNEXPECTED for one that kcontrol knows nothing about."""
    return _BY_NUMBER.get(code, Verdict.UNEXPECTED)


def describe_code(code: int) -> str:
    """Name and number of a Kafka error code."""
    if code in _BY_NUMBER:
        return f"{ErrorCode(code).name} (error {code})"
    kind = kafka_errors.for_code(code)
    return f"{getattr(kind, 'message', kind.__name__)} (error {code})"

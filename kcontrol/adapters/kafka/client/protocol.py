"""The two Kafka requests that aiokafka's own versions of are too old for us: Metadata
and Fetch that know topic ids.

Answers of these, of ListOffsets and of Produce are read by field name: each named tuple has the fields of its
layout, in order.

A topic that was deleted and recreated has the same name and other records. Only requests by topic id
(KIP-516) can't mix the two up, so everything that kcontrol reads is fetched by id. Layouts are those of
Kafka's `MetadataRequest.json` version 12 and `FetchRequest.json` version 13, both understood by every broker
since 3.1.
"""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any, NamedTuple

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import (
    AbstractType,
    Boolean,
    CompactArray,
    CompactBytes,
    CompactString,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

READ_UNCOMMITTED = 0
READ_COMMITTED = 1

_NO_TAGS: dict[int, bytes] = {}
_NO_SESSION = 0
_FINAL_EPOCH = -1
_CONSUMER = -1
_UNKNOWN = -1
_ONE_BYTE = 1


class Uuid(AbstractType):  # type: ignore[misc]
    """Sixteen bytes."""

    @classmethod
    def encode(cls, value: uuid.UUID) -> bytes:
        return value.bytes

    @classmethod
    def decode(cls, data: BytesIO) -> uuid.UUID:
        return uuid.UUID(bytes=data.read(16))


def topic_id_text(topic_id: uuid.UUID) -> str:
    """A topic id as Kafka's tools show it: URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")


_TEXT = CompactString("utf-8")


class MetadataResponse(Response):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 12
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "brokers",
            CompactArray(
                ("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), ("tags", TaggedFields)
            ),
        ),
        ("cluster_id", _TEXT),
        ("controller_id", Int32),
        (
            "topics",
            CompactArray(
                ("error_code", Int16),
                ("name", _TEXT),
                ("topic_id", Uuid),
                ("is_internal", Boolean),
                (
                    "partitions",
                    CompactArray(
                        ("error_code", Int16),
                        ("partition", Int32),
                        ("leader", Int32),
                        ("leader_epoch", Int32),
                        ("replicas", CompactArray(Int32)),
                        ("in_sync", CompactArray(Int32)),
                        ("offline", CompactArray(Int32)),
                        ("tags", TaggedFields),
                    ),
                ),
                ("authorized_operations", Int32),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class MetadataStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 3
    API_VERSION = 12
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = MetadataResponse
    SCHEMA = Schema(
        ("topics", CompactArray(("topic_id", Uuid), ("name", _TEXT), ("tags", TaggedFields))),
        ("allow_auto_topic_creation", Boolean),
        ("include_authorized_operations", Boolean),
        ("tags", TaggedFields),
    )


class TopicMetadataRequest(Request[MetadataStruct]):  # type: ignore[misc]
    """Metadata of one topic by name. Never creates it."""

    API_KEY = 3

    def __init__(self, topic: str) -> None:
        self._topic = topic

    def build(self, request_struct_class: type[MetadataStruct]) -> MetadataStruct:
        return request_struct_class([(uuid.UUID(int=0), self._topic, _NO_TAGS)], False, False, _NO_TAGS)


class FetchResponse(Response):  # type: ignore[misc]
    API_KEY = 1
    API_VERSION = 13
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("session_id", Int32),
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("high_watermark", Int64),
                        ("last_stable_offset", Int64),
                        ("log_start_offset", Int64),
                        (
                            "aborted",
                            CompactArray(
                                ("producer_id", Int64), ("first_offset", Int64), ("tags", TaggedFields)
                            ),
                        ),
                        ("preferred_read_replica", Int32),
                        ("records", CompactBytes),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class BrokerAnswer(NamedTuple):
    """A broker in a metadata response; those of aiokafka's own versions have no tags."""

    node_id: int
    host: str
    port: int
    rack: str | None
    tags: Any = None


class TopicAnswer(NamedTuple):
    """A topic in a metadata response; `partitions` as `PartitionAnswer`."""

    error_code: int
    name: str
    topic_id: uuid.UUID
    is_internal: bool
    partitions: Any
    authorized_operations: int
    tags: Any


class PartitionAnswer(NamedTuple):
    """A partition of a topic in a metadata response."""

    error_code: int
    partition: int
    leader: int
    leader_epoch: int
    replicas: Any
    in_sync: Any
    offline: Any
    tags: Any


class FetchedPartition(NamedTuple):
    """A partition in a fetch response. aborted: of read_committed only."""

    partition: int
    error_code: int
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    aborted: Any
    preferred_read_replica: int
    records: bytes | None
    tags: Any

    @property
    def data(self) -> bytes:
        """Its record batches; the last one may be cut off."""
        return self.records or b""

    @property
    def aborted_transactions(self) -> tuple[tuple[int, int], ...]:
        """(producer id, first offset) of each transaction that was aborted."""
        return tuple((each[0], each[1]) for each in self.aborted or ())


class ListedOffset(NamedTuple):
    """A partition in a response to ListOffsets."""

    partition: int
    error_code: int
    timestamp: int
    offset: int


def fetched(response: Any, positions: Iterable[FetchPosition]) -> list[FetchedPartition]:
    """The partitions of a fetch response, which is of one topic; those of `positions` with its error code if
    it has one of its own; none where the broker had nothing to say (it throttles this client)."""
    if response.error_code:
        return [
            FetchedPartition(each.partition, response.error_code, -1, -1, -1, (), -1, None, {})
            for each in positions
        ]
    return [FetchedPartition._make(part) for _, partitions, _ in response.topics for part in partitions]


def listed(response: Any) -> Iterator[tuple[str, ListedOffset]]:
    """By topic, the partitions of a response to ListOffsets."""
    for topic, partitions in response.topics:
        for part in partitions:
            yield topic, ListedOffset._make(part)


def described(response: Any) -> tuple[TopicAnswer, dict[int, PartitionAnswer]]:
    """The one topic of a metadata response, and its partitions by number."""
    topic = TopicAnswer._make(response.topics[0])
    return topic, {each.partition: each for each in map(PartitionAnswer._make, topic.partitions)}


class FetchStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 1
    API_VERSION = 13
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = FetchResponse
    SCHEMA = Schema(
        ("replica_id", Int32),
        ("max_wait_ms", Int32),
        ("min_bytes", Int32),
        ("max_bytes", Int32),
        ("isolation_level", Int8),
        ("session_id", Int32),
        ("session_epoch", Int32),
        (
            "topics",
            CompactArray(
                ("topic_id", Uuid),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("current_leader_epoch", Int32),
                        ("fetch_offset", Int64),
                        ("last_fetched_epoch", Int32),
                        ("log_start_offset", Int64),
                        ("partition_max_bytes", Int32),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        (
            "forgotten",
            CompactArray(("topic_id", Uuid), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)),
        ),
        ("rack_id", _TEXT),
        ("tags", TaggedFields),
    )


@dataclass(frozen=True, slots=True)
class FetchPosition:
    """From where one partition is read, and how much of it at most in one answer (a
    single larger batch still comes)."""

    partition: int
    offset: int
    max_bytes: int


class FetchByIdRequest(Request[FetchStruct]):  # type: ignore[misc]
    """Fetch of partitions of one topic by its id, without a fetch session; the broker
    waits `max_wait_ms` for a byte.

    epochs: by partition, of the metadata that the reader goes by (KIP-320): a broker that leads by an
    older one, or by a newer, refuses.
    """

    API_KEY = 1

    def __init__(
        self,
        topic_id: uuid.UUID,
        positions: Sequence[FetchPosition],
        epochs: Mapping[int, int],
        isolation: int,
        max_wait_ms: int,
        max_bytes: int,
    ) -> None:
        self._topic_id = topic_id
        self._positions = positions
        self._epochs = epochs
        self._isolation = isolation
        self._max_wait_ms = max_wait_ms
        self._max_bytes = max_bytes

    @property
    def held_ms(self) -> int:
        """How long the broker may wait before it answers."""
        return self._max_wait_ms

    def build(self, request_struct_class: type[FetchStruct]) -> FetchStruct:
        partitions = [
            (
                each.partition,
                self._epochs[each.partition],
                each.offset,
                _UNKNOWN,
                _UNKNOWN,
                each.max_bytes,
                _NO_TAGS,
            )
            for each in self._positions
        ]
        waits = (self._max_wait_ms, _ONE_BYTE, self._max_bytes)
        topics: list[Any] = [(self._topic_id, partitions, _NO_TAGS)]
        return request_struct_class(
            _CONSUMER, *waits, self._isolation, _NO_SESSION, _FINAL_EPOCH, topics, [], "", _NO_TAGS
        )

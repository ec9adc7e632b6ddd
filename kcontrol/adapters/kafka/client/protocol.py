"""The two Kafka requests that aiokafka's own versions of are too old for us: Metadata and Fetch that know topic ids.

A topic that was deleted and made again has the same name and other records. Only requests by topic id (KIP-516) can't mix
the two up, so everything that kcontrol reads is fetched by id. Layouts are those of Kafka's `MetadataRequest.json` version 12
and `FetchRequest.json` version 13, both understood by every broker since 3.1.
"""

from __future__ import annotations

import base64
import uuid
from dataclasses import dataclass
from io import BytesIO
from typing import Any

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
            CompactArray(("node_id", Int32), ("host", _TEXT), ("port", Int32), ("rack", _TEXT), ("tags", TaggedFields)),
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
                        ("aborted", CompactArray(("producer_id", Int64), ("first_offset", Int64), ("tags", TaggedFields))),
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


def only_partition(response: Any) -> Any:
    """The one partition of a fetch response, or None where the broker had nothing to say (it throttles this client)."""
    return response.topics[0][1][0] if response.topics else None


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
    """From where one partition is read, and how much of it at most in one answer (a single larger batch still comes)."""

    partition: int
    offset: int
    max_bytes: int
    leader_epoch: int = _UNKNOWN
    """Of the metadata that the reader goes by (KIP-320): a broker that leads by an older one, or by a newer, refuses."""


class FetchByIdRequest(Request[FetchStruct]):  # type: ignore[misc]
    """Fetch of partitions of one topic by its id, without a fetch session; the broker waits `max_wait_ms` for `min_bytes`."""

    API_KEY = 1

    def __init__(
        self,
        topic_id: uuid.UUID,
        positions: list[FetchPosition],
        isolation: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
    ) -> None:
        self._topic_id = topic_id
        self._positions = positions
        self._isolation = isolation
        self._max_wait_ms = max_wait_ms
        self._min_bytes = min_bytes
        self._max_bytes = max_bytes

    @property
    def held_ms(self) -> int:
        """How long the broker may wait before it answers."""
        return self._max_wait_ms

    def build(self, request_struct_class: type[FetchStruct]) -> FetchStruct:
        partitions = [
            (each.partition, each.leader_epoch, each.offset, _UNKNOWN, _UNKNOWN, each.max_bytes, _NO_TAGS)
            for each in self._positions
        ]
        waits = (self._max_wait_ms, self._min_bytes, self._max_bytes)
        topics: list[Any] = [(self._topic_id, partitions, _NO_TAGS)]
        return request_struct_class(_CONSUMER, *waits, self._isolation, _NO_SESSION, _FINAL_EPOCH, topics, [], "", _NO_TAGS)

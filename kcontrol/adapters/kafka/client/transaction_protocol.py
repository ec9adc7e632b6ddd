"""What Kafka's transactions of version 2 (KIP-890) need and aiokafka has not: the end of a transaction whose
answer says under which epoch the next one is, and the question whether a cluster has such transactions.

Layouts are those of Kafka's `EndTxnRequest.json` version 5 and `ApiVersionsRequest.json` version 3.
"""

from __future__ import annotations

from io import BytesIO
from typing import NamedTuple

from aiokafka.protocol.api import Request, RequestStruct, Response, ResponseHeader_v0
from aiokafka.protocol.types import (
    Boolean,
    CompactArray,
    CompactString,
    Int16,
    Int32,
    Int64,
    Schema,
    TaggedFields,
)

from kcontrol.version import __version__

_TEXT = CompactString("utf-8")
_NO_TAGS: dict[int, bytes] = {}
_FINALIZED_FEATURES = 2
"""The tag of what all brokers of the cluster go by."""
_TRANSACTION_VERSION = "transaction.version"
_AN_EPOCH_EACH = 2
"""From this `transaction.version` on every transaction has an epoch of its own."""


class EndTxnResponseV5(Response):  # type: ignore[misc]
    API_KEY = 26
    API_VERSION = 5
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("tags", TaggedFields),
    )


class EndTxnStructV5(RequestStruct):  # type: ignore[misc]
    API_KEY = 26
    API_VERSION = 5
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = EndTxnResponseV5
    SCHEMA = Schema(
        ("transactional_id", _TEXT),
        ("producer_id", Int64),
        ("producer_epoch", Int16),
        ("committed", Boolean),
        ("tags", TaggedFields),
    )


class CommitAndBumpRequest(Request[EndTxnStructV5]):  # type: ignore[misc]
    """Commits; the answer has the producer id and epoch of the next transaction."""

    API_KEY = 26

    def __init__(self, transactional_id: str, producer_id: int, producer_epoch: int) -> None:
        self._what = transactional_id, producer_id, producer_epoch

    def build(self, request_struct_class: type[EndTxnStructV5]) -> EndTxnStructV5:
        return request_struct_class(*self._what, True, _NO_TAGS)


class FeaturesResponse(Response):  # type: ignore[misc]
    API_KEY = 18
    API_VERSION = 3
    SCHEMA = Schema(
        ("error_code", Int16),
        (
            "api_versions",
            CompactArray(
                ("api_key", Int16), ("min_version", Int16), ("max_version", Int16), ("tags", TaggedFields)
            ),
        ),
        ("throttle_time_ms", Int32),
        ("tags", TaggedFields),
    )


class FeaturesStruct(RequestStruct):  # type: ignore[misc]
    API_KEY = 18
    API_VERSION = 3
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = FeaturesResponse
    SCHEMA = Schema(
        ("client_software_name", _TEXT), ("client_software_version", _TEXT), ("tags", TaggedFields)
    )

    def parse_response_header(self, read_buffer: BytesIO | bytes) -> ResponseHeader_v0:
        """The one answer whose header is never flexible: it tells which versions there are."""
        return ResponseHeader_v0.decode(read_buffer)


_FEATURES = CompactArray(("name", _TEXT), ("most", Int16), ("least", Int16), ("tags", TaggedFields))


class FeaturesRequest(Request[FeaturesStruct]):  # type: ignore[misc]
    """ApiVersions, for the features of the cluster."""

    API_KEY = 18

    def build(self, request_struct_class: type[FeaturesStruct]) -> FeaturesStruct:
        return request_struct_class("kcontrol", __version__, _NO_TAGS)


class _Feature(NamedTuple):
    name: str
    most: int
    least: int
    tags: dict[int, bytes]


def has_epoch_for_each(response: FeaturesResponse) -> bool:
    """Whether every transaction of the cluster has an epoch of its own, which the end of the one before
    tells."""
    found = response.tags.get(_FINALIZED_FEATURES)
    if response.error_code or found is None:
        return False
    features = [_Feature._make(each) for each in _FEATURES.decode(BytesIO(found)) or ()]
    return any(each.name == _TRANSACTION_VERSION and each.most >= _AN_EPOCH_EACH for each in features)

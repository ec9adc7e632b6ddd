"""Moves replicas as `kafka-reassign-partitions.sh` does, which no client of ours offers: KIP-455."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Schema, TaggedFields

from kcontrol.adapters.kafka.client.codes import describe_code
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.errors import RetriableError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S

TIMEOUT_S = HANG_S
_AGAIN_S = 0.2
_TEXT = CompactString("utf-8")
_NO_TAGS: dict[int, bytes] = {}


class _Answer(Response):  # type: ignore[misc]
    API_KEY = 45
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        ("error_code", Int16),
        ("error_message", _TEXT),
        (
            "topics",
            CompactArray(
                ("name", _TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32),
                        ("error_code", Int16),
                        ("error_message", _TEXT),
                        ("tags", TaggedFields),
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _Struct(RequestStruct):  # type: ignore[misc]
    API_KEY = 45
    API_VERSION = 0
    FLEXIBLE_VERSION = True
    RESPONSE_TYPE = _Answer
    SCHEMA = Schema(
        ("timeout_ms", Int32),
        (
            "topics",
            CompactArray(
                ("name", _TEXT),
                (
                    "partitions",
                    CompactArray(
                        ("partition", Int32), ("replicas", CompactArray(Int32)), ("tags", TaggedFields)
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _Reassign(Request[_Struct]):  # type: ignore[misc]
    API_KEY = 45

    def __init__(self, replicas: Mapping[tuple[str, int], Sequence[int]]) -> None:
        self._topics: dict[str, list[Any]] = defaultdict(list)
        for (topic, partition), wanted in replicas.items():
            self._topics[topic].append((partition, list(wanted), _NO_TAGS))

    def build(self, request_struct_class: type[_Struct]) -> _Struct:
        topics = [(name, partitions, _NO_TAGS) for name, partitions in self._topics.items()]
        return request_struct_class(round(TIMEOUT_S * 1000), topics, _NO_TAGS)


async def reassign(settings: ClusterSettings, replicas: Mapping[tuple[str, int], Sequence[int]]) -> None:
    """Ask for these replicas, the preferred leader first, by (topic, partition). Tried
    until the controller takes it.

    Raises RetriableError with its word when it does not in time.
    """
    deadline = time.monotonic() + TIMEOUT_S
    rpc = KafkaRpc(settings)
    try:
        while True:
            refused = await _refusal(rpc, replicas)
            if not refused:
                return
            if time.monotonic() > deadline:
                raise RetriableError(f"the reassignment was not taken: {refused}")
            await asyncio.sleep(_AGAIN_S)
    finally:
        await rpc.close()


async def _refusal(rpc: KafkaRpc, replicas: Mapping[tuple[str, int], Sequence[int]]) -> str:
    try:
        answer = await rpc.send((await rpc.nodes())[0], _Reassign(replicas))
    except RetriableError as error:
        return str(error)
    codes = {answer.error_code, *(code for _, parts, *_ in answer.topics for _, code, *_ in parts)} - {0}
    return ", ".join(describe_code(code) for code in sorted(codes))

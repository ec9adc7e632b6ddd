"""A broker of topics of one partition, as requests see it: what happens before any of them a test decides. Behind the
connections, so all else that reads and writes is what runs."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.protocol.admin import DeleteRecordsRequest_v0
from aiokafka.protocol.offset import OffsetRequest, OffsetRequest_v2
from aiokafka.protocol.produce import ProduceRequest_v8
from aiokafka.protocol.transaction import InitProducerIdRequest

from kcontrol.adapters.kafka.client.codes import ErrorCode
from kcontrol.adapters.kafka.client.connections import Lane
from kcontrol.adapters.kafka.client.delete_protocol import DeleteBeforeRequest
from kcontrol.adapters.kafka.client.leaders import TopicInfo
from kcontrol.adapters.kafka.client.produce_protocol import ProduceRecordsRequest
from kcontrol.adapters.kafka.client.protocol import FetchByIdRequest, FetchStruct
from kcontrol.adapters.kafka.client.rights import Operation, Right
from kcontrol.adapters.kafka.logs import appender, cluster_log, cluster_snapshots
from kcontrol.errors import TopicError


@dataclass
class FakeTopic:
    """batches: base offset, number of records, bytes."""

    id: uuid.UUID = field(default_factory=uuid.uuid4)
    start: int = 0
    batches: list[tuple[int, int, bytes]] = field(default_factory=list)

    @property
    def end(self) -> int:
        return self.batches[-1][0] + self.batches[-1][1] if self.batches else 0

    def write(self, batch: bytes) -> int:
        base, count = self.end, struct.unpack_from(">i", batch, 23)[0] + 1
        self.batches.append((base, count, struct.pack(">q", base) + bytes(batch[8:])))
        return base

    def read(self, offset: int) -> bytes | None:
        """None: it is out of range."""
        if not self.start <= offset <= self.end:
            return None
        return b"".join(data for base, count, data in self.batches if base + count > offset)

    def delete_before(self, offset: int) -> int:
        if offset > self.end:
            return ErrorCode.OFFSET_OUT_OF_RANGE
        self.start = max(self.start, offset)
        return ErrorCode.NONE


async def at_once(_: str) -> None:
    pass


class OneBroker:
    """topics: by name; one that is replaced was deleted and made anew."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
        self.topics = {name: FakeTopic() for name in names}
        self.before: Callable[[str], Awaitable[None]] = at_once
        """Of each request, by its kind."""
        for module in (appender, cluster_log, cluster_snapshots):
            monkeypatch.setattr(module, "KafkaRpc", lambda _: self)

    async def topic(self, name: str, _wanted: Operation = Operation.READ) -> TopicInfo:
        await self.before("topic")
        if name not in self.topics:
            raise TopicError(f"no topic {name}")
        return TopicInfo(name, self.topics[name].id, {0: 1}, {0: 1})

    async def send_any(self, request: InitProducerIdRequest) -> Any:
        assert isinstance(request, InitProducerIdRequest)
        await self.before("producer")
        return SimpleNamespace(error_code=0, producer_id=1, producer_epoch=0)

    async def send(self, _node: int, request: Any, _lane: Lane = Lane.PROMPT) -> Any:
        if isinstance(request, FetchByIdRequest):
            await self.before("fetch")
            return self._fetched(request.build(FetchStruct))
        if isinstance(request, OffsetRequest):
            await self.before("offsets")
            ((name, _),) = request.build(OffsetRequest_v2).topics
            return SimpleNamespace(topics=[(name, [(0, 0, -1, self.topics[name].start)])])
        if isinstance(request, ProduceRecordsRequest):
            await self.before("produce")
            ((name, ((_, batch),)),) = request.build(ProduceRequest_v8).topics
            base = self.topics[name].write(batch)
            return SimpleNamespace(topics=[(name, [(0, 0, base, -1, 0, [], None)])])
        assert isinstance(request, DeleteBeforeRequest)
        await self.before("delete")
        ((name, ((_, offset),)),) = request.build(DeleteRecordsRequest_v0).topics
        return SimpleNamespace(topics=[(name, [(0, offset, self.topics[name].delete_before(offset))])])

    def _fetched(self, asked: Any) -> Any:
        ((topic_id, ((_, _, offset, *_),), _),) = asked.topics
        topic = next((one for one in self.topics.values() if one.id == topic_id), None)
        if topic is None:
            return SimpleNamespace(error_code=int(ErrorCode.UNKNOWN_TOPIC_ID))
        data = topic.read(offset)
        code = ErrorCode.OFFSET_OUT_OF_RANGE if data is None else ErrorCode.NONE
        part = (0, int(code), topic.end, topic.end, topic.start, [], -1, data, {})
        return SimpleNamespace(error_code=0, topics=[(topic_id, [part], {})])

    def raise_if_denied(self, _code: int, _right: Right, _doing: str = "") -> None:
        pass

    async def close(self) -> None:
        pass

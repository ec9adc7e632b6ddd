"""One fetch of one partition from an offset on, tried until there is something, the range is known to be empty, or it is gone.

Fetching is by topic id (KIP-516), so that a topic that was deleted and made again under its name can't give other records.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import uuid
from collections.abc import Iterable
from dataclasses import dataclass

from aiokafka.protocol.offset import OffsetRequest

from kcontrol.adapters.kafka.client.background import RawClient
from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED, FetchByIdRequest, FetchPosition
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import LOST_GRACE_MS, Deadline, TopicInfo, describe_code
from kcontrol.errors import ConfigurationError, InputGoneError, RetriableError, TopicError

_OFFSET_OUT_OF_RANGE = 1
_UNKNOWN_TOPIC_OR_PARTITION = 3
_UNKNOWN_TOPIC_ID = 100
_MAYBE_GONE = frozenset({_UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN_TOPIC_ID})
_RETRY_S = 0.01
_RECONNECT_S = 0.05
_EARLIEST, _LATEST = -2, -1
_ANY_REPLICA = -1
WAIT_MS = 500
"""How long a broker holds a fetch for which there is nothing yet."""


@dataclass(frozen=True, slots=True)
class RangeId:
    """Offsets [from_, to) of one partition of an input."""

    input: str
    topic: str
    topic_id: uuid.UUID
    partition: int
    from_: int
    to: int

    @property
    def where(self) -> str:
        return f"input {self.input!r}, topic {self.topic!r}, partition {self.partition}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a fetch brought. `records` is empty only when there is nothing from `position` up to the end of the range."""

    position: int
    records: bytes
    aborted: tuple[tuple[int, int], ...]


def parse_topic_id(text: str) -> uuid.UUID:
    """The inverse of `topic_id_text`. Raises ConfigurationError."""
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (binascii.Error, ValueError) as error:
        raise ConfigurationError(f"{text!r} is not a Kafka topic id") from error


def aborted_of(found: Iterable[tuple[int, int, object]] | None) -> tuple[tuple[int, int], ...]:
    """Aborted transactions, (producer id, first offset), as a fetch response lists them."""
    return tuple((producer_id, first) for producer_id, first, _ in found or ())


class RangeFetcher:
    """Fetches chunks of one range. `max_bytes`: of one answer, unless a single batch is larger."""

    def __init__(self, client: RawClient, wanted: RangeId, max_bytes: int, deadline_ms: int) -> None:
        self._client = client
        self._wanted = wanted
        self._max_bytes = max_bytes
        self._deadline_ms = deadline_ms

    async def fetch(self, position: int) -> Chunk:
        """The next whole batches from `position` (which lies in the range) on.

        Raises InputGoneError: these offsets are not there any more. AccessError: not allowed. RetriableError: nothing came
        before the deadline.
        """
        deadline, lost = Deadline(self._deadline_ms), Deadline(LOST_GRACE_MS)
        what = f"{self._wanted.where}: reading offsets {position} to {self._wanted.to}"
        while True:
            try:
                part = await self._fetch_once(position)
            except RetriableError as error:
                await self._recover(deadline, what, error)
                continue
            if part is None:
                deadline.check(what, "the partition has no leader, or the broker holds back answers")
                await asyncio.sleep(_RETRY_S)
                continue
            code, last_stable_offset, aborted, records = part
            if code:
                await self._handle(code, position, lost.passed or deadline.passed)
                deadline.check(what, describe_code(code))
                await asyncio.sleep(_RETRY_S)
            elif records or last_stable_offset >= self._wanted.to:
                return Chunk(position, records or b"", aborted)
            else:
                deadline.check(what, f"committed records reach only to offset {last_stable_offset}")

    async def _fetch_once(self, position: int) -> tuple[int, int, tuple[tuple[int, int], ...], bytes | None] | None:
        wanted = self._wanted
        # Leader and epoch of one answer: of two, they could be those of different terms.
        info = await self._topic_info()
        leader = info.leaders[wanted.partition]
        if leader < 0:
            self._client.forget_topic(wanted.topic)
            return None
        positions = [FetchPosition(wanted.partition, position, self._max_bytes, info.epochs[wanted.partition])]
        request = FetchByIdRequest(wanted.topic_id, positions, READ_COMMITTED, WAIT_MS, 1, self._max_bytes)
        response = await self._client.rpc.send(leader, request)
        if response.error_code:
            return response.error_code, -1, (), None
        if not response.topics:
            return None
        _, code, _, last_stable_offset, _, aborted, _, records, _ = response.topics[0][1][0]
        return code, last_stable_offset, aborted_of(aborted), records

    async def _topic_info(self) -> TopicInfo:
        """Of the very topic that is wanted, with the partition. Raises InputGoneError."""
        wanted = self._wanted
        try:
            info = await self._client.topic(wanted.topic, partitions=[wanted.partition])
            if info.topic_id != wanted.topic_id:
                # What is known may be older than the topic.
                self._client.forget_topic(wanted.topic)
                info = await self._client.topic(wanted.topic)
        except TopicError as error:
            raise InputGoneError(f"{wanted.where}: {error} Offsets {wanted.from_} to {wanted.to} were to be read.") from error
        if info.topic_id != wanted.topic_id:
            raise InputGoneError(
                f"{wanted.where}: the topic was recreated: it was deleted and made again since offsets {wanted.from_} to "
                f"{wanted.to} were recorded, and holds other records now."
            )
        if wanted.partition not in info.leaders:
            raise InputGoneError(f"{wanted.where}: there is no such partition; the topic has {len(info.leaders)}.")
        return info

    async def _handle(self, code: int, position: int, given_up: bool) -> None:
        """given_up: there is no time left in which a broker that is behind could be told from a log that has lost its end."""
        wanted = self._wanted
        if code == _OFFSET_OUT_OF_RANGE:
            first, end = await self._bound(_EARLIEST), await self._bound(_LATEST)
            if not given_up and (first is None or position >= first):
                self._client.forget_topic(wanted.topic)
                return
            raise InputGoneError(
                f"{wanted.where}: offsets {wanted.from_} to {wanted.to} are wanted, but only {_text(first)} to "
                f"{_text(end)} are there. "
                "Retention has deleted the rest, or it was lost: raise retention.ms or retention.bytes of the topic."
            )
        self._client.rpc.raise_if_denied(code, topic_right(wanted.topic, Operation.READ), wanted.where)
        self._client.forget_topic(wanted.topic)
        if code in _MAYBE_GONE:
            await self._topic_info()

    async def _bound(self, which: int) -> int | None:
        request = OffsetRequest(_ANY_REPLICA, 0, [(self._wanted.topic, [(self._wanted.partition, which)])])
        try:
            info = await self._topic_info()
            response = await self._client.rpc.send(info.leaders[self._wanted.partition], request)
        except RetriableError:
            return None
        _, code, _, offset = response.topics[0][1][0]
        return None if code else int(offset)

    async def _recover(self, deadline: Deadline, what: str, error: RetriableError) -> None:
        if deadline.passed:
            await self._client.reconnect()
        deadline.check(what, error)
        self._client.forget_topic(self._wanted.topic)
        await asyncio.sleep(_RECONNECT_S)


def _text(offset: int | None) -> str:
    return "?" if offset is None else str(offset)

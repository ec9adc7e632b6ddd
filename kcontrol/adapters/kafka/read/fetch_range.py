"""One fetch of one partition from an offset on, tried until there is something, the range is
known to be empty, or it is gone.

Fetching is by topic id (KIP-516), so that a topic that was deleted and recreated under its
name can't give other records.
"""

from __future__ import annotations

import base64
import binascii
import uuid
from dataclasses import dataclass

from kcontrol.adapters.kafka.client.background import RawClient
from kcontrol.adapters.kafka.client.codes import Verdict, describe_code, verdict_of
from kcontrol.adapters.kafka.client.leaders import NoPartitionError, TopicInfo
from kcontrol.adapters.kafka.client.partitions import HELD_BACK, Bound
from kcontrol.adapters.kafka.client.protocol import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FetchedPartition,
    FetchPosition,
)
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import LOST_GRACE_MS, SETTLING
from kcontrol.backoff import Deadline, Tries
from kcontrol.errors import ConfigurationError, InputGoneError, RetriableError, TopicError

WAIT_MS = 500
"""How long a broker holds a fetch for which there is nothing yet."""


@dataclass(frozen=True, slots=True)
class RangeId:
    """Offsets [from_, to) of one partition of an input, or of something else (`what`) that is read by ranges.

    isolation: READ_UNCOMMITTED for what is read before its transaction ends. remedy: what to do so that such
    records are there the next time.
    """

    input: str
    topic: str
    topic_id: uuid.UUID
    partition: int
    from_: int
    to: int
    isolation: int = READ_COMMITTED
    what: str = "input"
    remedy: str = "raise retention.ms or retention.bytes of the topic."

    @property
    def name(self) -> str:
        return f"{self.what} {self.input!r}"

    @property
    def where(self) -> str:
        return f"{self.name}, topic {self.topic!r}, partition {self.partition}"


@dataclass(frozen=True, slots=True)
class Chunk:
    """What a fetch brought. `records` is empty only when there is nothing from
    `position` up to the end of the range."""

    position: int
    records: bytes
    aborted: tuple[tuple[int, int], ...]


def parse_topic_id(text: str) -> uuid.UUID:
    """The inverse of `topic_id_text`. Raises ConfigurationError."""
    try:
        return uuid.UUID(bytes=base64.urlsafe_b64decode(text + "=="))
    except (binascii.Error, ValueError) as error:
        raise ConfigurationError(f"{text!r} is not a Kafka topic id") from error


class RangeFetcher:
    """Fetches chunks of one range. `max_bytes`: of one answer, unless a single batch is larger."""

    def __init__(self, client: RawClient, wanted: RangeId, max_bytes: int, deadline_ms: int) -> None:
        self._client = client
        self._wanted = wanted
        self._max_bytes = max_bytes
        self._deadline_ms = deadline_ms

    async def fetch(self, position: int) -> Chunk:
        """The next whole batches from `position` (which lies in the range) on.

        Raises InputGoneError: these offsets are not there any more. AccessError: not allowed. RetriableError:
        nothing came before the deadline.
        """
        tries, lost = SETTLING.within(self._deadline_ms).begin(), Deadline(LOST_GRACE_MS)
        what = f"{self._wanted.where}: reading offsets {position} to {self._wanted.to}"
        while True:
            try:
                part = await self._fetch_once(position)
            except RetriableError as error:
                await self._recover(tries, what, error)
                continue
            if part is None:
                await tries.again(what, HELD_BACK)
            elif part.error_code:
                await self._handle(part.error_code, position, lost.passed or tries.passed)
                await tries.again(what, describe_code(part.error_code))
            elif part.data or self._is_empty(part):
                return Chunk(position, part.data, part.aborted_transactions)
            else:
                tries.check(what, self._reach(part))

    def _is_empty(self, part: FetchedPartition) -> bool:
        """Whether there surely is nothing from the position on. What is not committed yet is neither hidden
        nor compacted away: all that was acknowledged comes."""
        return self._wanted.isolation == READ_COMMITTED and part.last_stable_offset >= self._wanted.to

    def _reach(self, part: FetchedPartition) -> str:
        if self._wanted.isolation == READ_COMMITTED:
            return f"committed records reach only to offset {part.last_stable_offset}"
        return f"records reach only to offset {part.high_watermark}"

    async def _fetch_once(self, position: int) -> FetchedPartition | None:
        """None: the broker holds back answers."""
        info = await self._topic_info()
        leader = info.leader(self._wanted.partition)
        asked = [FetchPosition(self._wanted.partition, position, self._max_bytes)]
        return next(
            iter(
                await self._client.partitions.fetch(
                    info, leader, asked, WAIT_MS, self._max_bytes, self._wanted.isolation
                )
            ),
            None,
        )

    async def _topic_info(self) -> TopicInfo:
        """Of the very topic that is wanted, with the partition. Raises InputGoneError."""
        wanted = self._wanted
        try:
            info = await self._client.partitions.topic(wanted.topic, partitions=[wanted.partition])
            if info.topic_id != wanted.topic_id:
                # What is known may be older than the topic.
                self._client.partitions.forget(wanted.topic)
                info = await self._client.partitions.topic(wanted.topic)
        except TopicError as error:
            raise InputGoneError(
                f"{wanted.where}: {error} Offsets {wanted.from_} to {wanted.to} were to be read."
            ) from error
        if info.topic_id != wanted.topic_id:
            raise InputGoneError(
                f"{wanted.where}: the topic was deleted and recreated since offsets {wanted.from_} to "
                f"{wanted.to} were recorded, and holds other records now."
            )
        try:
            info.led([wanted.partition])
        except NoPartitionError as error:
            raise InputGoneError(f"{wanted.name}, {error}") from error
        return info

    async def _handle(self, code: int, position: int, given_up: bool) -> None:
        """given_up: there is no time left in which a broker that is behind could be told
        from a log that has lost its end."""
        wanted = self._wanted
        verdict = verdict_of(code)
        if verdict is Verdict.OUT_OF_RANGE:
            first, end = await self._bound(Bound.EARLIEST), await self._bound(Bound.LATEST)
            if not given_up and (first is None or position >= first):
                self._client.partitions.forget(wanted.topic)
                return
            raise InputGoneError(
                f"{wanted.where}: offsets {wanted.from_} to {wanted.to} are wanted, but only {_text(first)} "
                f"to {_text(end)} are there. Retention has deleted the rest, or it was lost: {wanted.remedy}"
            )
        self._client.rpc.raise_if_denied(code, topic_right(wanted.topic, Operation.READ), wanted.where)
        self._client.partitions.forget(wanted.topic)
        if verdict is Verdict.MAYBE_GONE:
            await self._topic_info()

    async def _bound(self, which: Bound) -> int | None:
        partition = self._wanted.partition
        try:
            info = await self._topic_info()
            return (await self._client.partitions.offsets(info, [partition], which, READ_UNCOMMITTED))[
                partition
            ]
        except RetriableError:
            return None

    async def _recover(self, tries: Tries, what: str, error: RetriableError) -> None:
        if tries.passed:
            await self._client.reconnect()
        self._client.partitions.forget(self._wanted.topic)
        await tries.again(what, error)


def _text(offset: int | None) -> str:
    return "?" if offset is None else str(offset)

"""The first chunks of ranges that will be read one after the other, in one request to each broker.

A small step has a few records in each of many partitions; a request for each would cost more than its
records. What this brings is a gift: whatever is missing, for whatever reason, is fetched by `RangeFetcher`,
which tries again and names what is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from kcontrol.adapters.kafka.client.background import RawClient
from kcontrol.adapters.kafka.client.fetch_size import SMALLEST_FETCH_BYTES
from kcontrol.adapters.kafka.client.leaders import TopicInfo
from kcontrol.adapters.kafka.client.protocol import FetchPosition
from kcontrol.adapters.kafka.read.fetch_range import WAIT_MS, Chunk, RangeId
from kcontrol.errors import KcontrolError
from kcontrol.wire.batches import begins_whole

_NOTHING: Mapping[RangeId, Chunk] = {}


class FetchAhead:
    """First chunks of `ranges`, which all are of one topic and isolation, have records to read, and will be
    wanted in this order."""

    def __init__(self, client: RawClient, ranges: Sequence[RangeId], max_bytes: int) -> None:
        """max_bytes: of all that is held at a time, about: a broker may send one batch more."""
        self._client = client
        self._waiting = list(reversed(ranges))
        self._max_bytes = max_bytes
        self._held: dict[RangeId, Chunk] = {}
        self._coming: Future[Mapping[RangeId, Chunk]] | None = None

    def start(self) -> None:
        """Ask for the next ranges' first chunks, unless some are held or on their way."""
        if self._waiting and not self._held and self._coming is None:
            most = max(1, self._max_bytes // SMALLEST_FETCH_BYTES)
            self._coming = self._client.start(
                _fetch(self._client, self._waiting[: -most - 1 : -1], self._max_bytes)
            )

    def take(self, wanted: RangeId) -> Chunk | None:
        """The first chunk of the next range, which has to be `wanted`; None if it did not
        come, or if it is the only one."""
        if wanted not in self._held and len(self._waiting) > 1:
            self.start()
        if self._coming is not None:
            self._held.update(self._coming.result())
            self._coming = None
        self._waiting.pop()
        return self._held.pop(wanted, None)

    def close(self) -> None:
        if self._coming is not None:
            self._coming.cancel()


async def _fetch(client: RawClient, ranges: Sequence[RangeId], max_bytes: int) -> Mapping[RangeId, Chunk]:
    of_partition = {each.partition: each for each in ranges}
    try:
        info = await client.partitions.topic(ranges[0].topic, partitions=list(of_partition))
        if info.topic_id != ranges[0].topic_id:
            return _NOTHING
        by_node = info.led(of_partition).by_node
        share = max_bytes // max(1, len(by_node))
        wanted = ([of_partition[number] for number in led] for led in by_node.values())
    except KcontrolError:
        return _NOTHING
    answers = await asyncio.gather(
        *(_fetch_from(client, info, node, own, share) for node, own in zip(by_node, wanted, strict=True))
    )
    return {wanted: chunk for answer in answers for wanted, chunk in answer.items()}


async def _fetch_from(
    client: RawClient, info: TopicInfo, node: int, ranges: Sequence[RangeId], max_bytes: int
) -> Mapping[RangeId, Chunk]:
    of_partition = {each.partition: each for each in ranges}
    share = max(max_bytes // len(ranges), SMALLEST_FETCH_BYTES)
    size = client.fetch_size(info.name)
    positions = [
        FetchPosition(each.partition, each.from_, size.for_offsets(each.to - each.from_, share))
        for each in ranges
    ]
    try:
        parts = await client.partitions.fetch(info, node, positions, WAIT_MS, max_bytes, ranges[0].isolation)
    except KcontrolError:
        return _NOTHING
    found = {}
    for part in parts:
        if not part.error_code and begins_whole(
            part.data
        ):  # Only the first partition of an answer is sure to (KIP-74).
            wanted = of_partition[part.partition]
            found[wanted] = Chunk(wanted.from_, part.data, part.aborted_transactions)
    return found

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
from kcontrol.adapters.kafka.client.leaders import TopicInfo
from kcontrol.adapters.kafka.client.protocol import FetchPosition
from kcontrol.adapters.kafka.read.fetch_range import WAIT_MS, Chunk, RangeId
from kcontrol.errors import KcontrolError
from kcontrol.wire.batches import first_batch_bytes

_NOTHING: Mapping[RangeId, Chunk] = {}


class FetchAhead:
    """First chunks of `ranges`, which all are of one topic and isolation, have records to read, and will be
    wanted in this order. Those that fit into half of `max_bytes` come together, and the next ones while these are decoded."""

    def __init__(self, client: RawClient, ranges: Sequence[RangeId], max_bytes: int) -> None:
        """max_bytes: of all that is held at a time, about: a broker may send one batch more."""
        self._client = client
        self._ranges = ranges
        self._taken = 0
        """How many of the ranges have been taken."""
        self._asked = 0
        """How many of them have been taken or asked for."""
        self._most_bytes = max_bytes // 2
        self._held: dict[RangeId, Chunk] = {}
        self._coming: Future[Mapping[RangeId, Chunk]] | None = None

    def start(self) -> None:
        """Ask for the next ranges' first chunks, unless some are on their way or too many are held."""
        self._asked = max(self._asked, self._taken)
        held_bytes = sum(len(chunk.records) for chunk in self._held.values())
        if self._coming is None and self._asked < len(self._ranges) and held_bytes <= self._most_bytes:
            together = _together(self._client, self._ranges[self._asked :], self._most_bytes)
            self._asked += len(together)
            self._coming = self._client.start(_fetch(self._client, together))

    def take(self, wanted: RangeId) -> Chunk | None:
        """The first chunk of the next range, which has to be `wanted`; None if it did not
        come, or if it is the only one."""
        if wanted not in self._held and len(self._ranges) > self._taken + 1:
            self.start()
        if self._coming is not None and wanted not in self._held:
            self._held.update(self._coming.result())
            self._coming = None
            self.start()
        self._taken += 1
        return self._held.pop(wanted, None)

    def close(self) -> None:
        if self._coming is not None:
            self._coming.cancel()


def _together(client: RawClient, ranges: Sequence[RangeId], most_bytes: int) -> Sequence[tuple[RangeId, int]]:
    """The first ranges whose first chunks have `most_bytes` together, at least one; each with how many bytes to ask for."""
    size, found, total = client.fetch_size(ranges[0].topic), list[tuple[RangeId, int]](), 0
    for each in ranges:
        wanted = size.for_offsets(each.to - each.from_, most_bytes)
        total += wanted
        if found and total > most_bytes:
            break
        found.append((each, wanted))
    return found


async def _fetch(client: RawClient, ranges: Sequence[tuple[RangeId, int]]) -> Mapping[RangeId, Chunk]:
    """ranges: with bytes to ask for."""
    of_partition = {each.partition: (each, size) for each, size in ranges}
    first, _ = ranges[0]
    try:
        info = await client.partitions.topic(first.topic, partitions=list(of_partition))
        if info.topic_id != first.topic_id:
            return _NOTHING
        by_node = info.led(of_partition).by_node
    except KcontrolError:
        return _NOTHING
    answers = await asyncio.gather(
        *(
            _fetch_from(client, info, node, [of_partition[number] for number in led])
            for node, led in by_node.items()
        )
    )
    return {wanted: chunk for answer in answers for wanted, chunk in answer.items()}


async def _fetch_from(
    client: RawClient, info: TopicInfo, node: int, ranges: Sequence[tuple[RangeId, int]]
) -> Mapping[RangeId, Chunk]:
    of_partition = {each.partition: each for each, _ in ranges}
    positions = [FetchPosition(each.partition, each.from_, size) for each, size in ranges]
    most_bytes, isolation = sum(size for _, size in ranges), ranges[0][0].isolation
    try:
        parts = await client.partitions.fetch(info, node, positions, WAIT_MS, most_bytes, isolation)
    except KcontrolError:
        return _NOTHING
    found = {}
    for part in parts:
        size_bytes = None if part.error_code else first_batch_bytes(part.data)
        if size_bytes is None:
            continue
        if len(part.data) < size_bytes:  # Only the first partition of an answer is sure to be whole (KIP-74).
            client.fetch_size(info.name).learn_of_larger(size_bytes)
            continue
        wanted = of_partition[part.partition]
        found[wanted] = Chunk(wanted.from_, part.data, part.aborted_transactions)
    return found

"""The first chunks of ranges that will be read one after the other, in one request to each broker.

A small step has a few records in each of many partitions; a request for each would cost more than its records. What this brings
is a gift: whatever is missing, for whatever reason, is fetched by `RangeFetcher`, which tries again and names what is wrong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import Future

from kcontrol.adapters.kafka.client.background import RawClient
from kcontrol.adapters.kafka.client.fetch_size import SMALLEST_FETCH_BYTES
from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED, FetchByIdRequest, FetchPosition
from kcontrol.adapters.kafka.read.fetch_range import WAIT_MS, Chunk, RangeId, aborted_of
from kcontrol.errors import KcontrolError
from kcontrol.wire.batches import begins_whole

_NOTHING: Mapping[RangeId, Chunk] = {}


class FetchAhead:
    """First chunks of `ranges`, which all are of one topic, have records to read, and will be wanted in this order."""

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
            self._coming = self._client.start(_fetch(self._client, self._waiting[: -most - 1 : -1], self._max_bytes))

    def take(self, wanted: RangeId) -> Chunk | None:
        """The first chunk of the next range, which has to be `wanted`; None if it did not come, or if it is the only one."""
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
    try:
        info = await client.topic(ranges[0].topic, partitions=[each.partition for each in ranges])
    except KcontrolError:
        return _NOTHING
    by_leader: dict[int, list[RangeId]] = {}
    for each in ranges:
        leader = info.leaders.get(each.partition, -1)
        if leader >= 0 and info.topic_id == each.topic_id:
            by_leader.setdefault(leader, []).append(each)
    share = max_bytes // max(1, len(by_leader))
    answers = await asyncio.gather(*(_fetch_from(client, leader, own, share, info.epochs) for leader, own in by_leader.items()))
    return {wanted: chunk for answer in answers for wanted, chunk in answer.items()}


async def _fetch_from(
    client: RawClient, leader: int, ranges: Sequence[RangeId], max_bytes: int, epochs: Mapping[int, int]
) -> Mapping[RangeId, Chunk]:
    of_partition = {each.partition: each for each in ranges}
    own = of_partition.values()
    share = max(max_bytes // len(own), SMALLEST_FETCH_BYTES)
    size = client.fetch_size(ranges[0].topic)
    positions = [
        FetchPosition(each.partition, each.from_, size.for_offsets(each.to - each.from_, share), epochs[each.partition])
        for each in own
    ]
    request = FetchByIdRequest(ranges[0].topic_id, positions, READ_COMMITTED, WAIT_MS, 1, max_bytes)
    try:
        response = await client.rpc.send(leader, request)
    except KcontrolError:
        return _NOTHING
    if response.error_code or not response.topics:
        return _NOTHING
    found = {}
    for partition, code, _, _, _, aborted, _, records, _ in response.topics[0][1]:
        if not code and begins_whole(records or b""):  # Only the first partition of an answer is sure to (KIP-74).
            wanted = of_partition[partition]
            found[wanted] = Chunk(wanted.from_, records, aborted_of(aborted))
    return found

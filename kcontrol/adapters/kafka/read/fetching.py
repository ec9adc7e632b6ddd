"""All fetches of one range, one after the other: the next is under way while the one before is decoded."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import Future
from dataclasses import dataclass

from kcontrol.adapters.kafka.client.background import RawClient
from kcontrol.adapters.kafka.read.fetch_ahead import FetchAhead
from kcontrol.adapters.kafka.read.fetch_range import Chunk, RangeFetcher, RangeId
from kcontrol.adapters.kafka.read.kept_chunks import kept_chunks
from kcontrol.errors import RetriableError
from kcontrol.wire.batches import Fetched

_LARGEST_FETCH_BYTES = 1 << 30


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """fetch_max_bytes: of one fetch; about nine times as much memory is in use.
    run_bytes: of one Arrow batch, about. together_bytes: runs of less are decoded with those of the next ranges, until
    they have as much together.
    deadline_ms: a fetch that has brought nothing by then has failed."""

    fetch_max_bytes: int = 8 << 20
    run_bytes: int = 32 << 20
    together_bytes: int = 1 << 20
    deadline_ms: int = 30_000


def fetches(
    client: RawClient, wanted: RangeId, ahead: FetchAhead, limits: ReadLimits, first: Chunk | None = None
) -> Generator[tuple[Chunk, Fetched], None, None]:
    """What a range's fetches bring, in order, until its end is reached: each reads on where the one before
    ended. ahead: has the first chunk, perhaps; is told when it may go on. first: that chunk, where it was kept; then
    `ahead` knows nothing of this range.

    Raises as `RangeFetcher.fetch` does, and DamagedRecordError.
    """
    position, size = wanted.from_, client.fetch_size(wanted.topic)
    max_bytes = size.for_offsets(wanted.to - position, limits.fetch_max_bytes)
    chunk = ahead.take(wanted) if first is None else first
    pending: Future[Chunk] | None = None

    def start() -> Future[Chunk]:
        return client.start(RangeFetcher(client, wanted, max_bytes, limits.deadline_ms).fetch(position))

    try:
        while True:
            if chunk is None:
                chunk = (pending or start()).result()
            fetched = Fetched(chunk.records, wanted.where)
            position = fetched.next_offset(position) if chunk.records else wanted.to
            if chunk.records and not fetched.batches:
                max_bytes = _larger(max_bytes, wanted)
            else:
                size.learn(fetched.batches)
                max_bytes = size.for_offsets(wanted.to - position, limits.fetch_max_bytes)
            # What comes next is fetched while this chunk is decoded.
            pending = start() if position < wanted.to else None
            if pending is None:
                ahead.start()
                kept_chunks(client).keep(wanted, chunk, position)
            yield chunk, fetched
            if pending is None:
                return
            chunk = None
    finally:
        if pending is not None:
            pending.cancel()


def _larger(max_bytes: int, wanted: RangeId) -> int:
    """Brokers return a first batch whole, whatever its size (KIP-74); this is for one that does not."""
    if max_bytes >= _LARGEST_FETCH_BYTES:
        raise RetriableError(f"{wanted.where}: a fetch of {max_bytes} bytes brought no whole batch")
    return min(2 * max_bytes, _LARGEST_FETCH_BYTES)

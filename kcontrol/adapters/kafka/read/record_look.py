"""The RecordLook port on Kafka: one fetch of the batch that an offset is in, with the list of aborted
transactions."""

from __future__ import annotations

import asyncio

from kcontrol.adapters.kafka.client.background import client_for
from kcontrol.adapters.kafka.read.fetch_range import Chunk, RangeFetcher, RangeId, parse_topic_id
from kcontrol.adapters.kafka.read.fetching import ReadLimits
from kcontrol.adapters.kafka.read.ranges import RangeReader
from kcontrol.core.model import InputSpec
from kcontrol.errors import InputGoneError, KcontrolError
from kcontrol.sessions.ports import Held
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import Fetched, default_codec

_DEADLINE_MS = 5_000
_ONE_BATCH_BYTES = 1
"""A broker gives the first batch whole, however large."""
_CHUNK_BYTES = 1 << 20


class KafkaRecordLook:
    """Looks with the connections of this process, which are kept."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings

    async def holds(self, item: InputSpec, partition: int, offset: int) -> Held | str:
        """As the port says."""
        try:
            wanted = RangeId(
                item.name, item.topic, parse_topic_id(item.topic_id), partition, offset, offset + 1
            )
            client = client_for(self._settings)
            fetcher = RangeFetcher(client, wanted, _ONE_BATCH_BYTES, _DEADLINE_MS)
            return _held(await asyncio.wrap_future(client.start(fetcher.fetch(offset))), offset, wanted.where)
        except InputGoneError:
            return Held.GONE
        except KcontrolError as error:
            return str(error)

    async def records(self, item: InputSpec, partition: int, from_: int, to: int) -> int | str:
        """As the port says."""
        try:
            return await asyncio.to_thread(self._count, item, partition, from_, to)
        except KcontrolError as error:
            return str(error)

    def _count(self, item: InputSpec, partition: int, from_: int, to: int) -> int:
        limits = ReadLimits(fetch_max_bytes=_CHUNK_BYTES, run_bytes=_CHUNK_BYTES, deadline_ms=_DEADLINE_MS)
        read = RangeReader(self._settings, limits).read(
            item.name, item.topic, item.topic_id, partition, from_, to
        )
        return sum(rows.num_rows for rows in read)


def _held(chunk: Chunk, offset: int, where: str) -> Held:
    fetched = Fetched(chunk.records, where)
    batch = next((each for each in fetched.batches if each.base_offset <= offset < each.next_offset), None)
    if batch is None or not batch.records:
        return Held.GONE
    if batch.control:
        return Held.MARKER
    if all(each.start != batch.start for each in fetched.visible(chunk.aborted)):
        return Held.ABORTED
    runs = fetched.decode(default_codec(), chunk.aborted, offset, offset + 1)
    return Held.RECORD if sum(run.rows.num_rows for run in runs) else Held.GONE

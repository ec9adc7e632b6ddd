"""The RegionLog port on Kafka: a topic of one partition and a transactional id of the same name.

Whoever takes it fences whoever had it, and then reads it to its end, so it knows all that counts, and nobody can write
another record in ignorance of it. What a broker calls the end may be old (decision 005): so a record proves by the offset that
it comes to lie at that nothing unseen lies before it, or its transaction is given up.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.adapters.kafka.transaction.boundary_write import TransactionalWrite
from kcontrol.adapters.kafka.transaction.requests import OwnedTransaction
from kcontrol.core.regions.log_view import RegionLogged, RegionTombstone
from kcontrol.core.regions.records import RegionRecord
from kcontrol.errors import DamagedRecordError, FencedError, RetriableError, UnseenRecordError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.regions import region_pair, region_record

_log = logging.getLogger("kcontrol.regions")

TRANSACTION_TIMEOUT_MS = 15_000
"""So long a controller that died in the middle may keep its record from readers; whoever takes the log ends it at once."""
DEADLINE_MS = 10_000
"""Of each request to Kafka with its repetitions."""

_PARTITION = 0
_MARKER = 1

Producer = tuple[int, int]


class KafkaRegionLog:
    """One call at a time."""

    def __init__(self, settings: ClusterSettings, region: str) -> None:
        names = settings.names()
        self._topic = names.region_log_topic(region)
        self._owned = OwnedTransaction(settings, names.region_transactional_id(region), DEADLINE_MS)
        self._reader = PartitionReader(self._owned.rpc, self._topic, _PARTITION, READ_COMMITTED)
        self._producer: Producer | None = None
        self._at_least = 0

    async def read(self) -> list[RegionLogged]:
        """As the port says."""
        return self._decoded(await self._reader.read_to_end())

    async def take(self) -> list[RegionLogged]:
        """As the port says."""
        self._producer = None
        producer = await self._owned.init_producer(TRANSACTION_TIMEOUT_MS)
        found = self._decoded(await self._reader.read_settled(self._at_least, DEADLINE_MS))
        self._producer = producer
        return found

    async def write(self, records: Sequence[RegionRecord], forget: Sequence[str] = ()) -> None:
        """As the port says."""
        producer, self._producer = self._producer, None
        if producer is None:
            raise FencedError(
                f"the log of a region, topic {self._topic!r}, is written by whoever has taken it"
            )
        await self._owned.add_partitions(*producer, [(self._topic, _PARTITION)])
        pairs = [*map(region_pair, records), *((key.encode(), None) for key in forget)]
        await self._send(producer, pairs)
        following = await self._owned.commit(*producer)
        self._reader.position += len(pairs) + _MARKER
        self._at_least = self._reader.position
        self._producer = following or await self._following()

    async def _following(self) -> Producer | None:
        """Where Kafka does not tell it with the commit. What was written is written: without one the next write is refused, and
        the log has to be taken again. It is not asked for then: somebody newer may have taken the log by that time."""
        try:
            return await self._owned.init_producer(TRANSACTION_TIMEOUT_MS)
        except (RetriableError, FencedError) as error:
            _log.info("%s: no producer for what is written next: %s", self._reader.where, error)
            return None

    async def close(self) -> None:
        await self._owned.close()

    async def _send(self, producer: Producer, pairs: Sequence[tuple[bytes, bytes | None]]) -> None:
        owned = self._owned
        write = TransactionalWrite(
            owned.partitions, owned.id, producer, DEADLINE_MS, what="what became of a region"
        )
        offset = await write.send(self._topic, _PARTITION, pairs)
        if offset != self._reader.position:
            self._at_least = max(self._at_least, offset)
            raise UnseenRecordError(
                f"{self._reader.where}: a record came to lie at offset {offset}, but what was read ended at "
                f"{self._reader.position}: something is there that was not seen. Nothing of it is committed"
            )

    def _decoded(self, records: Sequence[RawRecord]) -> list[RegionLogged]:
        return [self._decode(record) for record in records]

    def _decode(self, record: RawRecord) -> RegionLogged:
        where = f"topic {self._topic!r}, offset {record.offset}"
        if record.value is None:
            return RegionTombstone((record.key or b"").decode(errors="replace"))
        found = region_record(record.value, where)
        if not isinstance(found, RegionRecord):
            raise DamagedRecordError(f"{where} is a {type(found).__name__}, which belongs elsewhere")
        return found

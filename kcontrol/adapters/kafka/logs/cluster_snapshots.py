"""Snapshots of the cluster of agents on Kafka, in a topic of one partition: parts of a value, and that it was
confirmed.

Whoever proposes a snapshot has written its parts before; whoever confirms it has read them; and before the log
is cut a third record says here, where a reader looks who can't read the log, that it was confirmed.
"""

from __future__ import annotations

from dataclasses import dataclass

from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.core.cluster.model import Mark, Replica
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.cluster_snapshot import parts_of, snapshot_bytes
from kcontrol.wire.stored_snapshots import StoredSnapshots, confirmed_key, part_key


@dataclass(frozen=True, slots=True)
class NeedlessSnapshots:
    """Records of the topic, as it was read."""

    topic: PartitionReader
    before: int

    async def delete(self) -> None:
        """Raises TopicError if it is another topic by now, RetriableError, AccessError."""
        await self.topic.delete_before(self.before)


class KafkaSnapshots:
    """All methods raise RetriableError when Kafka is away, AccessError and TopicError."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._topic = settings.names().cluster_snapshots_topic()
        self._rpc = KafkaRpc(settings)
        self._appender = Appender(settings, self._topic, 0)

    async def save(self, mark: Mark, replica: Replica) -> None:
        """Before it is proposed. Raises ValueError for a value that is too large."""
        parts = parts_of(snapshot_bytes(replica))
        for number, part in enumerate(parts):
            await self._appender.append([(part_key(mark, number, len(parts)), part)])

    async def holds(self, mark: Mark) -> bool:
        """Whether it can be read from Kafka, whole and as its digest says."""
        return (await self._read(self._reader())).holds(mark)

    async def newest_confirmed(self) -> Replica | None:
        """From which whoever can't read the log's beginning goes on; None if there is none that this version can
        read."""
        return (await self._read(self._reader())).newest_confirmed()

    async def confirm(self, mark: Mark) -> NeedlessSnapshots | None:
        """Say that it was confirmed, so that the log before it may be cut; what is needless here then. None if it can't be
        read, or is not the newest: then nothing may be cut."""
        reader = self._reader()
        before = (await self._read(reader)).needless_before(mark)
        if before is None:
            return None
        await self._appender.append([(confirmed_key(mark), b"")])
        return NeedlessSnapshots(reader, before)

    def _reader(self) -> PartitionReader:
        return PartitionReader(self._rpc, self._topic, 0, READ_UNCOMMITTED)

    async def _read(self, reader: PartitionReader) -> StoredSnapshots:
        found = StoredSnapshots()
        for record in await reader.read_all():
            found.add(record.offset, record.key or b"", record.value)
        return found

    async def close(self) -> None:
        await self._appender.close()
        await self._rpc.close()

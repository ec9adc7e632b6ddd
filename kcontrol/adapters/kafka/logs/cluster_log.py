"""The log of the cluster of agents and their beats on Kafka: one partition each, read to its end again and
again, written idempotently."""

from __future__ import annotations

from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.core.cluster.entries import ClusterEntry
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import Replica
from kcontrol.core.cluster.troubles import AgentTroubles
from kcontrol.errors import KcontrolError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.cluster import (
    StampedEntry,
    beat_bytes,
    beat_of,
    entry_bytes,
    entry_of,
    troubles_bytes,
    troubles_of,
)

OF_ANOTHER_LOG = (
    "no entry of the cluster's log has confirmed the snapshot at offset {}, so that is of another log, which was deleted: end "
    "all agents, and delete the topics of the log and of its snapshots both"
)


NEWEST_BEATS = 20_000
"""Whoever begins to look reads so many records at most, however many there are: all who live have said some of them."""


class LogCutError(KcontrolError):
    """What should be read next was deleted from the log, after a snapshot: that is to be read instead. begin: where the log
    begins."""

    def __init__(self, begin: int) -> None:
        super().__init__(f"the cluster's log begins at offset {begin}")
        self.begin = begin

    def is_bridged_by(self, snapshot: Replica | None, known: Replica) -> bool:
        """Whether whoever knows this much can go on with the log from that snapshot."""
        return snapshot is not None and snapshot.offset >= max(known.offset, self.begin - 1)


class KafkaClusterLog:
    """One process's view of the log, from its beginning, or from behind a snapshot."""

    def __init__(self, settings: ClusterSettings) -> None:
        topic = settings.names().cluster_topic()
        self._rpc = KafkaRpc(settings)
        self._reader = PartitionReader(self._rpc, topic, 0, READ_UNCOMMITTED)
        self._appender = Appender(settings, topic, 0)
        self._began = False

    def go_on_from(self, offset: int) -> None:
        """With this entry, as a snapshot has all before it."""
        self._reader.position, self._began = offset, True

    async def read_to_end(self) -> list[StampedEntry]:
        """What is new since the last call. Raises LogCutError, RetriableError, AccessError, TopicError."""
        if not self._began:
            await self._look_where_it_begins()
            self._began = True
        try:
            found = await self._reader.read_to_end()
        except TopicError:
            await self._look_where_it_begins()
            raise
        return [entry_of(record.offset, record.value, record.timestamp_ms) for record in found]

    async def _look_where_it_begins(self) -> None:
        begin = await self._reader.begin()
        if begin > self._reader.position:
            raise LogCutError(begin)

    async def check(self) -> None:
        """Raises TopicError if it is not the log any more that was read, RetriableError, AccessError."""
        await self._reader.check_topic()

    async def delete_before(self, offset: int) -> None:
        """Delete the entries before an offset of the log that was read, and of no other. Raises as `check`."""
        await self._reader.delete_before(offset)

    async def append(self, entry: ClusterEntry) -> int:
        """Its offset. Raises RetriableError: it may or may not have been written."""
        (offset,) = await self._appender.append([(b"", entry_bytes(entry))])
        return offset

    async def close(self) -> None:
        await self._appender.close()
        await self._rpc.close()


class KafkaBeats:
    """Beats from when this was made on, in their order; one's own among them. troubles: what was said beside them, the newest
    by agent."""

    def __init__(self, settings: ClusterSettings, newest_beats: int = NEWEST_BEATS) -> None:
        topic = settings.names().cluster_beats_topic()
        self.troubles: dict[str, AgentTroubles] = {}
        self._newest_beats = newest_beats
        self._rpc = KafkaRpc(settings)
        self._reader = PartitionReader(self._rpc, topic, 0, READ_UNCOMMITTED)
        self._appender = Appender(settings, topic, 0)
        self._began = False

    async def read_to_end(self, newest: bool = False) -> list[Beat]:
        """What is new since the last call. newest: at the first call, the newest beats as well."""
        if not self._began:
            self._reader.position = begin = await self._reader.begin()
            end = await self._reader.end()
            self._reader.position = max(begin, end - self._newest_beats) if newest else end
            self._began = True
        beats = []
        for record in await self._reader.read_to_end():
            beat, said = beat_of(record.value), troubles_of(record.value)
            if beat is not None:
                beats.append(beat)
            elif said is not None:
                self.troubles[said.agent] = said
        return beats

    async def append(self, beat: Beat) -> None:
        """Raises RetriableError: it may or may not have been written."""
        await self._appender.append([(beat.agent.encode(), beat_bytes(beat))])

    async def say(self, said: AgentTroubles) -> None:
        """Beside the beats. Raises as `append`."""
        await self._appender.append([(f"{said.agent}/troubles".encode(), troubles_bytes(said))])

    async def close(self) -> None:
        await self._appender.close()
        await self._rpc.close()

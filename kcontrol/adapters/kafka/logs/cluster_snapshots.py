"""Snapshots of the cluster of agents on Kafka, in a topic of one partition: parts of a value, and that it was
confirmed.

Whoever proposes a snapshot has written its parts before; whoever confirms it has read them; and before the log
is cut a third record says here, where a reader looks who can't read the log, that it was confirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.model import Mark, Replica
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.cluster_snapshot import parts_of, replica_of, snapshot_bytes

_CONFIRMED = "confirmed"


@dataclass
class _Stored:
    """What is there of one snapshot. first: offset in this topic of its first part."""

    first: int
    count: int = 0
    parts: dict[int, bytes] = field(default_factory=dict)
    confirmed: bool = False

    @property
    def value(self) -> Replica | None:
        """None unless it is whole."""
        if not self.count or self.parts.keys() != set(range(self.count)):
            return None
        return replica_of(b"".join(self.parts[part] for part in range(self.count)))


class KafkaSnapshots:
    """All methods raise RetriableError when Kafka is away, AccessError and TopicError."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._topic = settings.names().cluster_snapshots_topic()
        self._rpc = KafkaRpc(settings)
        self._appender = Appender(settings, self._topic, 0)

    async def save(self, mark: Mark, replica: Replica) -> None:
        """Before it is proposed. Raises ValueError for a value that is too large."""
        parts = parts_of(snapshot_bytes(replica))
        key = f"{mark.offset}/{mark.digest}"
        for number, part in enumerate(parts):
            await self._appender.append([(f"{key}/{number}/{len(parts)}".encode(), part)])

    async def holds(self, mark: Mark) -> bool:
        """Whether it can be read from Kafka, whole and as its digest says."""
        stored = (await self._read()).get(mark)
        return stored is not None and _is_right(mark, stored)

    async def newest_confirmed(self) -> Replica | None:
        """From which whoever can't read the log's beginning goes on; None if there is none that this version can
        read."""
        stored = await self._read()
        for mark in sorted(stored, key=lambda one: -one.offset):
            if stored[mark].confirmed and _is_right(mark, stored[mark]):
                return stored[mark].value
        return None

    async def confirm(self, mark: Mark) -> int | None:
        """Say that it was confirmed, so that the log before it may be cut; the offset in this topic at which it
        begins. None if it can't be read: then nothing may be cut."""
        stored = (await self._read()).get(mark)
        if stored is None or not _is_right(mark, stored):
            return None
        await self._appender.append([(f"{mark.offset}/{mark.digest}/{_CONFIRMED}".encode(), b"")])
        return stored.first

    async def _read(self) -> dict[Mark, _Stored]:
        reader = PartitionReader(self._rpc, self._topic, 0, READ_UNCOMMITTED)
        found: dict[Mark, _Stored] = {}
        for mark, what, record in _known(await reader.read_all()):
            stored = found.setdefault(mark, _Stored(record.offset))
            if what == [_CONFIRMED]:
                stored.confirmed = True
            elif len(what) == 2 and all(one.isdecimal() for one in what) and record.value is not None:
                stored.parts[int(what[0])], stored.count = record.value, int(what[1])
        return found

    async def close(self) -> None:
        await self._appender.close()
        await self._rpc.close()


def _is_right(mark: Mark, stored: _Stored) -> bool:
    value = stored.value
    return value is not None and value.offset == mark.offset and digest(value) == mark.digest


def _known(records: Iterable[RawRecord]) -> Iterator[tuple[Mark, list[str], RawRecord]]:
    """By the key: of which snapshot, and what of it; what nobody knows is left out."""
    for record in records:
        offset, _, rest = (record.key or b"").decode(errors="replace").partition("/")
        sha, _, what = rest.partition("/")
        if offset.isdecimal() and what:
            yield Mark(int(offset), sha), what.split("/"), record

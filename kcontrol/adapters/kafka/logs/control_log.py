"""The ControlLog port on Kafka: one partition of the control topic, read by waiting
fetches and written idempotently."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from uuid import uuid4

from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.control_decoder import ControlDecoder
from kcontrol.adapters.kafka.logs.partition_reader import READ_TIMEOUT_MS, PartitionReader
from kcontrol.core.log.keys import barrier_key, key_of
from kcontrol.core.model import ControlRecord, Logged
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.codec import RecordCodec
from kcontrol.wire.names import control_partition


async def reach_control_topic(settings: ClusterSettings) -> tuple[KafkaRpc, str, int]:
    """A client, which the caller closes, the name of the control topic, and how many partitions it has.

    Raises TopicError: there is none. RetriableError: Kafka can't be reached. The client is closed then.
    """
    topic = settings.names().control_topic()
    rpc = KafkaRpc(settings)
    try:
        return rpc, topic, len((await rpc.topic(topic)).leaders)
    except BaseException:
        await rpc.close()
        raise


class KafkaControlLog:
    """One process's view of one control partition, from its beginning. Made by `open`."""

    def __init__(
        self, rpc: KafkaRpc, reader: PartitionReader, appender: Appender, decoder: ControlDecoder
    ) -> None:
        self._rpc = rpc
        self._reader = reader
        self._appender = appender
        self._decoder = decoder
        self._codec = RecordCodec()

    @classmethod
    async def open(
        cls,
        settings: ClusterSettings,
        pipeline: str | None = None,
        partition: int | None = None,
        wanted: Callable[[str], bool] | None = None,
        *,
        newest_only: bool = False,
    ) -> KafkaControlLog:
        """The partition that `pipeline` lives in, showing only its records; or, by number, a whole partition. wanted,
        newest_only: as `ControlDecoder` has them.

        Raises TopicError: there is no control topic, or no such partition.
        RetriableError: Kafka can't be reached.
        """
        rpc, topic, partitions = await reach_control_topic(settings)
        if partition is None:
            if pipeline is None:
                raise ConfigurationError("A control log needs a pipeline or a partition.")
            partition = control_partition(pipeline, partitions)
        reader = PartitionReader(rpc, topic, partition, READ_UNCOMMITTED)
        decoder = ControlDecoder(topic, partition, partitions, pipeline, wanted, newest_only=newest_only)
        return cls(rpc, reader, Appender(settings, topic, partition), decoder)

    @property
    def rejected(self) -> int:
        """Records so far that did not belong into the partition or could not be read."""
        return self._decoder.rejected.total()

    @property
    def rejected_by(self) -> Mapping[str, int]:
        """The same by reason: unreadable, unknown or misplaced."""
        return self._decoder.rejected

    @property
    def left_out(self) -> Sequence[str]:
        """The newest of them, each with where it is and what is wrong with it."""
        return tuple(self._decoder.left_out)

    async def append(self, records: Sequence[ControlRecord], forget: Sequence[str] = ()) -> list[int]:
        """As the port says. The schemas of the records go first where the partition hasn't got them yet."""
        publications = {key: value for record in records for key, value in self._codec.publications(record)}
        schemas = [
            (key.encode(), value) for key, value in publications.items() if key not in self._decoder.published
        ]
        values = [(key_of(record).encode(), self._codec.encode(record)) for record in records]
        tombstones = [(key.encode(), None) for key in forget]
        offsets = await self._appender.append([*schemas, *values, *tombstones])
        self._decoder.published.update(publications)
        return offsets[len(schemas) :]

    async def read_to_end(self) -> list[Logged]:
        return self._decoder.decode_all(await self._reader.read_to_end())

    async def read_through(self, offset: int) -> list[Logged]:
        """As the port says."""
        return self._decoder.decode_all(await self._reader.read_settled(offset + 1, READ_TIMEOUT_MS))

    async def read_to_barrier(self, pipeline: str) -> list[Logged]:
        """All records from this reader's position on that were acknowledged before the call, whoever leads
        the partition: up to a tombstone that it writes itself, under a key of the pipeline that nobody else
        has."""
        (offset,) = await self.append([], [barrier_key(pipeline, uuid4().hex)])
        return await self.read_through(offset)

    async def tail(self) -> AsyncIterator[list[Logged]]:
        async for records in self._reader.tail():
            if logged := self._decoder.decode_all(records):
                yield logged

    async def close(self) -> None:
        await self._appender.close()
        await self._rpc.close()

"""A few records into one partition inside a transaction that is open: how the boundary gets its place."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from kcontrol.adapters.kafka.client.produce_protocol import HELD_MS, ProduceRecordsRequest
from kcontrol.adapters.kafka.client.rights import Operation, write_right
from kcontrol.adapters.kafka.client.rpc import Deadline, KafkaRpc, describe_code
from kcontrol.adapters.kafka.transaction.codes import Verdict, raise_for, verdict_of
from kcontrol.errors import RetriableError, TopicError

_SOON_S = 0.002
_RECONNECT_S = 0.05
_BATCH_BYTES = 1 << 30
"""The builder's own bound is not wanted: the broker says what is too large."""


class TransactionalWrite:
    """Writes one batch to a partition for a (producer id, producer epoch) that writes there for the first time."""

    def __init__(self, rpc: KafkaRpc, transactional_id: str, producer: tuple[int, int], deadline_ms: int) -> None:
        self._rpc = rpc
        self._id = transactional_id
        self._producer = producer
        self._deadline_ms = deadline_ms

    async def send(self, topic: str, partition: int, records: Sequence[tuple[bytes, bytes | None]]) -> int:
        """Write (key, value) pairs as one batch, acks=all. May repeat it: the broker knows a batch by its sequence number.

        Returns the offset of the first record, below which lies all that was acknowledged before; -1 if the broker knows only
        that it has the batch.

        Raises FencedError, RetriableError, TopicError, or AccessError.
        """
        what = f"writing the boundary to topic {topic!r}"
        request = ProduceRecordsRequest(self._id, HELD_MS, topic, [(partition, self._batch(records))])
        deadline = Deadline(self._deadline_ms)
        leader: int | None = None
        while True:
            try:
                leader = await self._leader(topic, partition) if leader is None else leader
                response = await self._rpc.send(leader, request)
            except RetriableError as error:
                leader = None
                deadline.check(what, error)
                await asyncio.sleep(_RECONNECT_S)
                continue
            _, code, base_offset, *_ = response.topics[0][1][0]
            verdict = verdict_of(code)
            if code == 0 or verdict is Verdict.DUPLICATE:
                return int(base_offset)
            if verdict is Verdict.LEADER_MOVED:
                leader = None
            elif verdict is not Verdict.PASSING:
                self._rpc.raise_if_denied(code, write_right(code, topic, self._id), what)
                raise_for(what, code)
            deadline.check(what, describe_code(code))
            await asyncio.sleep(_SOON_S)

    async def _leader(self, topic: str, partition: int) -> int:
        leaders = (await self._rpc.topic(topic, Operation.WRITE)).leaders
        if partition not in leaders:
            raise TopicError(f"There is no partition {partition} of topic {topic!r}; it has {len(leaders)}.")
        if leaders[partition] < 0:
            raise RetriableError(f"partition {partition} of topic {topic!r} has no leader")
        return leaders[partition]

    def _batch(self, records: Sequence[tuple[bytes, bytes | None]]) -> bytes:
        builder = DefaultRecordBatchBuilder(2, 0, True, *self._producer, 0, _BATCH_BYTES)
        for index, (key, value) in enumerate(records):
            builder.append(index, None, key, value, [])
        return bytes(builder.build())

"""Makes sure that no transaction is left open in the steps topic before what it says is taken for the whole truth.

InitProducerId answers when the markers of what was open are written. Where Kafka has lost them (every replica of a partition
was gone while they were due, which Kafka 4.3 takes for a deleted topic) the transaction stays open, and a boundary that was
committed can't be seen. To go on would be to make its step again.
"""

from __future__ import annotations

import asyncio

from aiokafka.protocol.offset import OffsetRequest

from kcontrol.adapters.kafka.access import Operation
from kcontrol.adapters.kafka.access import topic as topic_right
from kcontrol.adapters.kafka.protocol import READ_COMMITTED, READ_UNCOMMITTED
from kcontrol.adapters.kafka.rpc import Deadline, KafkaRpc, TopicInfo, describe_code
from kcontrol.errors import RetriableError, TopicError

_LATEST = -1
_CONSUMER = -1
_AGAIN_S = 0.005


class SettledPartition:
    """One partition that only one transactional id writes to."""

    def __init__(self, rpc: KafkaRpc, topic: str, partition: int, timeout_ms: int) -> None:
        self._rpc = rpc
        self._topic = topic
        self._partition = partition
        self._timeout_ms = timeout_ms
        self._info: TopicInfo | None = None

    async def wait(self) -> None:
        """Return once the last stable offset is the high watermark; the caller has just fenced.

        Raises RetriableError when a transaction is still open after the timeout, with what an operator can do.
        """
        deadline = Deadline(self._timeout_ms)
        while True:
            try:
                # One connection keeps the order: the stable offset is asked for last, so it is never behind an older end.
                end, stable = await asyncio.gather(self._offset(READ_UNCOMMITTED), self._offset(READ_COMMITTED))
            except RetriableError as error:
                self._info = None
                deadline.check(f"looking at the end of topic {self._topic!r}", error)
            else:
                if stable >= end:
                    return
                deadline.check(
                    f"topic {self._topic!r}, partition {self._partition}: waiting for the end of an old transaction",
                    f"one is open at offset {stable} though its producer was fenced: Kafka has lost its markers. See "
                    f"`kafka-transactions.sh describe-producers --topic {self._topic} --partition {self._partition}`, and end "
                    f"it with `kafka-transactions.sh abort --start-offset {stable}` if its step is to be made again",
                )
            await asyncio.sleep(_AGAIN_S)

    async def _offset(self, isolation: int) -> int:
        info = self._info
        if info is None:
            info = self._info = await self._rpc.topic(self._topic, Operation.WRITE)
        leader = info.leaders.get(self._partition)
        if leader is None:
            raise TopicError(f"There is no partition {self._partition} of topic {self._topic!r}.")
        if leader < 0:
            raise RetriableError("the partition has no leader")
        wanted = [(self._topic, [(self._partition, _LATEST)])]
        response = await self._rpc.send(leader, OffsetRequest(_CONSUMER, isolation, wanted))
        _, code, _, offset = response.topics[0][1][0]
        self._rpc.raise_if_denied(code, topic_right(self._topic, Operation.WRITE))
        if code:
            raise RetriableError(describe_code(code))
        found: int = offset
        return found

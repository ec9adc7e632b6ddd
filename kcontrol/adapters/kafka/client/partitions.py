"""Leaders, ends, fetches and batches of single partitions: what everything that reads or writes Kafka record
by record stands on.

Fetching is by topic id (KIP-516), so that a topic that was deleted and recreated under its name can't give
other records, and names the leader epoch of the very answer that named the leader (KIP-320), so that a broker
that leads by another epoch refuses. A batch goes again, the same bytes, for as long as its answer is missing:
the broker knows it by its sequence number (KIP-98). What a read proves, and what it does not:
docs/protocol.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum

from aiokafka.protocol.offset import OffsetRequest

from kcontrol.adapters.kafka.client.codes import LOOK_AGAIN, ErrorCode, Verdict, describe_code, verdict_of
from kcontrol.adapters.kafka.client.connections import Lane
from kcontrol.adapters.kafka.client.delete_protocol import DeleteBeforeRequest, code_of
from kcontrol.adapters.kafka.client.leaders import TopicInfo
from kcontrol.adapters.kafka.client.produce_protocol import (
    HELD_MS,
    ProduceAnswer,
    ProduceRecordsRequest,
    answers,
)
from kcontrol.adapters.kafka.client.protocol import (
    READ_COMMITTED,
    FetchByIdRequest,
    FetchedPartition,
    FetchPosition,
    ListedOffset,
    fetched,
    listed,
)
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.backoff import Deadline, Tries
from kcontrol.errors import RetriableError

HELD_BACK = "the broker holds back answers"
"""Why a fetch has brought nothing at all, not even an error: this client is throttled."""

_CONSUMER = -1
STOOD_STILL_MS = 3_000
"""What a leader said of a topic so long ago says nothing of what is to be deleted from it."""

_UNANSWERED = LOOK_AGAIN | {Verdict.PASSING, Verdict.OTHER_COORDINATOR, Verdict.UNCERTAIN}
"""A batch goes again."""


class Bound(IntEnum):
    """Which offset of a partition is asked for."""

    EARLIEST = -2
    LATEST = -1


class Partitions:
    """The partitions of one cluster, over connections that the caller closes. What a topic's metadata said is
    kept until it is forgotten.

    All methods raise RetriableError and ClusterError as `KafkaRpc` does.
    """

    def __init__(self, rpc: KafkaRpc) -> None:
        self.rpc = rpc
        self._known: dict[str, TopicInfo] = {}

    async def topic(
        self, name: str, wanted: Operation = Operation.READ, partitions: Collection[int] = ()
    ) -> TopicInfo:
        """Id and leaders, as they were when last asked for; asked anew where one of `partitions` was not
        there then, since a topic may be given more. Raises as `KafkaRpc.topic` does."""
        known = self._known.get(name)
        if known is None or not known.leaders.keys() >= set(partitions):
            known = self._known[name] = await self.rpc.topic(name, wanted)
        return known

    def forget(self, name: str) -> None:
        """Its leader has moved, or it is not the topic that it was."""
        self._known.pop(name, None)

    async def list_offsets(
        self,
        node: int,
        asked: Mapping[str, Collection[int]],
        which: Bound | int,
        isolation: int = READ_COMMITTED,
    ) -> list[tuple[str, ListedOffset]]:
        """By topic, what a broker says of partitions that it leads, whatever error codes are in it."""
        topics = [
            (name, [(partition, int(which)) for partition in partitions])
            for name, partitions in asked.items()
        ]
        return list(listed(await self.rpc.send(node, OffsetRequest(_CONSUMER, isolation, topics))))

    async def offsets(
        self,
        info: TopicInfo,
        partitions: Collection[int],
        which: Bound | int,
        isolation: int = READ_COMMITTED,
        wanted: Operation = Operation.READ,
        doing: str = "",
    ) -> dict[int, int]:
        """Where partitions begin or end. which: or a time, in ms since the epoch: where the first record of then or later is;
        -1 if the leader knows of none. doing: what for, should a right be missing.

        Raises NoPartitionError; NoLeaderError, or another RetriableError naming the partition; AccessError.
        """
        found = {}
        for node, numbers in info.by_node(partitions).items():
            for _, each in await self.list_offsets(node, {info.name: numbers}, which, isolation):
                self.rpc.raise_if_denied(each.error_code, topic_right(info.name, wanted), doing)
                if each.error_code:
                    raise RetriableError(
                        f"offsets of {info.where(each.partition)}: {describe_code(each.error_code)}"
                    )
                found[each.partition] = each.offset
        return found

    async def fetch(
        self,
        info: TopicInfo,
        node: int,
        positions: Sequence[FetchPosition],
        max_wait_ms: int,
        max_bytes: int,
        isolation: int = READ_COMMITTED,
        lane: Lane = Lane.PROMPT,
    ) -> list[FetchedPartition]:
        """What the partitions' leader, by the same `info`, has from these positions on, whatever error codes
        are in it; nothing at all where it holds back answers."""
        request = FetchByIdRequest(info.topic_id, positions, info.epochs, isolation, max_wait_ms, max_bytes)
        return fetched(await self.rpc.send(node, request, lane), positions)

    async def produce(
        self,
        node: int,
        topic: str,
        batches: Sequence[tuple[int, bytes | bytearray]],
        transactional_id: str | None,
    ) -> list[ProduceAnswer]:
        """Give a leader one batch for each of some partitions; acknowledged by all replicas in sync, or not,
        as the codes say."""
        return answers(
            await self.rpc.send(node, ProduceRecordsRequest(transactional_id, HELD_MS, topic, batches))
        )

    async def delete_before(self, info: TopicInfo, partition: int, offset: int) -> None:
        """Delete the records of a partition that lie before an offset, if its leader has the very topic that `info` is of.
        What is deleted already is fine.

        Kafka deletes by name: between its leader's word on the topic and the request lies a moment all the same. Who stood
        still there, for all that its clock tells, asks for nothing.

        Raises RetriableError, also where it is another topic by now; AccessError, NoPartitionError, NoLeaderError.
        """
        leader, what = info.leader(partition), f"{info.where(partition)}: deleting what lies before {offset}"
        asked = Deadline(STOOD_STILL_MS)
        found = await self.fetch(info, leader, [FetchPosition(partition, offset, 1)], 0, 1)
        code = found[0].error_code if found else None
        if code is not None and verdict_of(code) is Verdict.OUT_OF_RANGE:
            return
        if code != ErrorCode.NONE:
            self.forget(info.name)
            raise RetriableError(f"{what}: {HELD_BACK if code is None else describe_code(code)}")
        asked.check(what, "it stood still meanwhile")
        answer = await self.rpc.send(leader, DeleteBeforeRequest(info.name, partition, offset, HELD_MS))
        code = code_of(answer)
        self.rpc.raise_if_denied(code, topic_right(info.name, Operation.DELETE), what)
        if code:
            raise RetriableError(f"{what}: {describe_code(code)}")

    async def write(
        self, topic: str, partition: int, batch: bytes, transactional_id: str | None, what: str, tries: Tries
    ) -> ProduceAnswer:
        """One batch to whoever leads the partition, the same bytes again until there is an answer that is
        final.

        what: for messages. Raises RetriableError once `tries` are over; NoPartitionError, TopicError,
        AccessError.
        """
        while True:
            try:
                leader = (await self.topic(topic, Operation.WRITE, [partition])).leader(partition)
                (answer,) = await self.produce(leader, topic, [(partition, batch)], transactional_id)
            except RetriableError as error:
                self.forget(topic)
                await tries.again(what, error)
                continue
            if answer.verdict not in _UNANSWERED:
                tries.succeeded()
                return answer
            if answer.verdict in LOOK_AGAIN or tries.failures:
                # A leader that was deposed and cut off may say for ever that its replicas take longer.
                self.forget(topic)
            await tries.again(what, describe_code(answer.code))

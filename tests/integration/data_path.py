"""What the tests of reading and writing share: a transaction's owner, an independent
consumer, and broken connections."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition

from kcontrol.adapters.kafka.client.background import RawClient, client_for
from kcontrol.adapters.kafka.client.protocol import READ_COMMITTED, READ_UNCOMMITTED, topic_id_text
from kcontrol.backoff import Deadline
from kcontrol.errors import RetriableError
from kcontrol.settings.cluster import ClusterSettings
from tests.support.patience import HANG_S
from tests.support.proxy import Proxy
from tests.support.transactions import TRANSACTION_MS

DEADLINE_S = HANG_S
_LATEST = -1
_T = TypeVar("_T")


def in_loop(settings: ClusterSettings, work: Coroutine[Any, Any, _T]) -> _T:
    return client_for(settings).start(work).result(DEADLINE_S)


def topic_id(settings: ClusterSettings, topic: str) -> str:
    async def ask(client: RawClient) -> str:
        return topic_id_text((await client.rpc.topic(topic)).topic_id)

    return in_loop(settings, ask(client_for(settings)))


class Owner:
    """The owner of a transaction, with no more than that: who may write is for the tests to decide."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self.transactional_id = f"t{secrets.token_hex(4)}"
        self.producer = (-1, -1)
        self._topics: dict[str, list[int]] = {}

    def begin(self, partitions: Sequence[tuple[str, int]]) -> tuple[int, int]:
        """A new attempt: producer id and epoch. What was open is aborted."""
        response = self._ask(
            InitProducerIdRequest(self.transactional_id, TRANSACTION_MS), lambda answer: answer.error_code
        )
        self.producer = (response.producer_id, response.producer_epoch)
        self._topics = {}
        self.add(partitions)
        return self.producer

    def add(self, partitions: Sequence[tuple[str, int]]) -> None:
        """More partitions."""
        for topic, partition in partitions:
            self._topics.setdefault(topic, []).append(partition)
        added = AddPartitionsToTxnRequest(self.transactional_id, *self.producer, list(self._topics.items()))
        self._ask(added, lambda answer: max(code for _, codes in answer.errors for _, code in codes))

    def end(self, commit: bool) -> None:
        """Returns when the markers are written: until then consumers see neither what was
        committed nor what comes after."""
        self._ask(
            EndTxnRequest(self.transactional_id, *self.producer, commit), lambda answer: answer.error_code
        )
        in_loop(self._settings, self._until_stable())

    def _ask(self, request: Any, code_of: Callable[[Any], int]) -> Any:
        return in_loop(self._settings, self._until_done(request, code_of))

    async def _until_done(self, request: Any, code_of: Callable[[Any], int]) -> Any:
        rpc = client_for(self._settings).rpc
        deadline = Deadline(int(DEADLINE_S * 1000))
        last: object = ""
        while True:
            try:
                node = await rpc.transaction_coordinator(self.transactional_id)
                response = await rpc.send(node, request)
                last = code_of(response)
                if last == 0:
                    return response
            except RetriableError as error:
                last = error
            deadline.check(type(request).__name__, last)
            await asyncio.sleep(0.01)

    async def _until_stable(self) -> None:
        client = client_for(self._settings)
        deadline = Deadline(int(DEADLINE_S * 1000))
        asked = [
            (topic, [(partition, _LATEST) for partition in numbers])
            for topic, numbers in self._topics.items()
        ]
        while True:
            ends: list[Any] = []
            try:
                for isolation in (READ_UNCOMMITTED, READ_COMMITTED):
                    leader = (await client.rpc.topic(asked[0][0])).leaders[asked[0][1][0][0]]
                    ends.append((await client.rpc.send(leader, OffsetRequest(-1, isolation, asked))).topics)
                told = not any(code for _, parts in ends[0] for _, code, *_ in parts)
                if told and ends[0] == ends[1]:
                    return
            except RetriableError as error:
                ends = [error]
            deadline.check("the markers of a transaction", ends)
            await asyncio.sleep(0.01)


def consume(
    settings: ClusterSettings, topic: str, partition: int = 0, isolation: str = "read_committed"
) -> list[Message]:
    """All messages of a partition, as Kafka's C client sees them."""
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "group.id": secrets.token_hex(4),
            "isolation.level": isolation,
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
            "auto.offset.reset": "error",
        }
    )
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found = []
    try:
        while True:
            message = consumer.poll(DEADLINE_S)
            assert message is not None, "the consumer has found neither a message nor the end"
            if message.error():
                assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
                return found
            found.append(message)
    finally:
        consumer.close()


def as_rows(messages: Sequence[Message], headers: bool = False) -> list[dict[str, Any]]:
    """Messages with the columns of Spark's Kafka source; the timestamp as microseconds."""
    rows = []
    for message in messages:
        kind, time_ms = message.timestamp()
        row = {
            "key": message.key(),
            "value": message.value(),
            "topic": message.topic(),
            "partition": message.partition(),
            "offset": message.offset(),
            "timestamp": time_ms * 1000,
            # librdkafka counts from 1 (create time) and 2 (append time), Spark from 0.
            "timestampType": kind - 1,
        }
        if headers:
            row["headers"] = [{"key": name, "value": content} for name, content in message.headers() or []]
        rows.append(row)
    return rows


def table_rows(batches: Sequence[pa.RecordBatch]) -> list[dict[str, Any]]:
    """The same form, of what a range reader returned."""
    rows = []
    for batch in batches:
        index = batch.schema.get_field_index("timestamp")
        plain = batch.set_column(index, "timestamp", batch.column(index).cast(pa.int64()))
        rows += plain.to_pylist()
    return rows


@contextmanager
def proxied(settings: ClusterSettings, proxy_port: int, target: int) -> Iterator[Proxy]:
    """A running proxy, in the loop of this process's clients. `settings` lead through it."""
    proxy = in_loop(settings, Proxy(proxy_port, target).__aenter__())
    try:
        yield proxy
    finally:
        in_loop(settings, proxy.__aexit__(None, None, None))

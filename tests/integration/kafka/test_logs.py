"""The logs on a real Kafka, where it is not kind: foreign records, compaction, topics
recreated, brokers that restart."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from fastavro import schemaless_writer

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.core.model import Desired, DesiredMode, Logged
from kcontrol.errors import DamagedRecordError, RetriableError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.codec import MAGIC, RecordCodec, schema_key
from kcontrol.wire.names import control_partition
from kcontrol.wire.schemas import current_schemas, make_schema
from tests.support.owning import commit
from tests.support.patience import HANG_S
from tests.support.samples import boundary, desired
from tests.support.transactions import TRANSACTION_MS, transactional

PIPELINE = "flights"
_DEADLINE_S = HANG_S


class Bench:
    """Topics under a prefix of their own, and what a test does to them from outside."""

    def __init__(self, address: str, config: dict[str, str] | None = None) -> None:
        self.settings = ClusterSettings(bootstrap_servers=address, prefix=f"l{secrets.token_hex(4)}")
        self.names = self.settings.names()
        self.admin = AdminClient({"bootstrap.servers": address})
        self.config = {"cleanup.policy": "compact", **(config or {})}
        self.create()

    def create(self) -> None:
        control = NewTopic(self.names.control_topic(), 8, 1, config=self.config)
        steps = NewTopic(self.names.steps_topic(PIPELINE), 1, 1, config=self.config)
        for name, created in self.admin.create_topics([control, steps]).items():
            created.result(_DEADLINE_S)
            self._until(name, there=True)

    def delete(self) -> None:
        for name, deleted in self.admin.delete_topics(
            [self.names.control_topic(), self.names.steps_topic(PIPELINE)]
        ).items():
            deleted.result(_DEADLINE_S)
            self._until(name, there=False)

    def _until(self, name: str, *, there: bool) -> None:
        """The broker answers from metadata that may lag behind what the controller has acknowledged."""
        deadline = time.monotonic() + _DEADLINE_S
        while (TopicAdmin(self.settings).find(name) is not None) is not there:
            assert time.monotonic() < deadline, name
            time.sleep(0.02)

    def put(self, topic: str, partition: int, records: Sequence[tuple[bytes, bytes]]) -> None:
        failures: list[Any] = []
        producer = Producer({"bootstrap.servers": self.settings.bootstrap_servers})
        for key, value in records:
            producer.produce(
                topic, value, key, partition, on_delivery=lambda error, _: error and failures.append(error)
            )
        assert producer.flush(_DEADLINE_S) == 0
        assert failures == []

    def put_control(self, *records: tuple[bytes, bytes]) -> None:
        self.put(self.names.control_topic(), control_partition(PIPELINE, 8), records)

    def run(self, scenario: Callable[[AsyncExitStack], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with asyncio.timeout(_DEADLINE_S), AsyncExitStack() as stack:
                return await scenario(stack)

        return asyncio.run(main())

    async def control(self, stack: AsyncExitStack) -> KafkaControlLog:
        log = await KafkaControlLog.open(self.settings, PIPELINE)
        stack.push_async_callback(log.close)
        return log

    async def steps(self, stack: AsyncExitStack) -> KafkaStepsLog:
        log = KafkaStepsLog(self.settings, PIPELINE)
        stack.push_async_callback(log.close)
        return log


@pytest.fixture
def bench(settings: ClusterSettings) -> Bench:
    return Bench(settings.bootstrap_servers)


def _newer_desired() -> tuple[bytes, bytes, bytes]:
    """A Desired as a later version might write it, with a field more: its schema's key and text, and the
    record."""
    definition = json.loads(current_schemas()["Desired"].json)
    definition["fields"].append({"name": "comment", "type": "string", "default": "", "doc": "New."})
    schema = make_schema(definition)
    body = BytesIO()
    values = {"pipeline": PIPELINE, "mode": "paused", "request_id": "newer", "comment": "why"}
    schemaless_writer(body, schema.parsed, values)
    return (
        schema_key(schema.fingerprint).encode(),
        schema.json.encode(),
        MAGIC + schema.fingerprint + body.getvalue(),
    )


@pytest.mark.parametrize("schema_first", [True, False])
def test_records_of_a_newer_version_are_read_by_the_schema_in_the_partition(
    bench: Bench, schema_first: bool
) -> None:
    """Compaction leaves a schema that was published twice only at its second place, behind records that need
    it."""
    key, text, record = _newer_desired()
    pair = [(key, text), (b"flights/desired", record)]
    bench.put_control(*(pair if schema_first else reversed(pair)))

    async def scenario(stack: AsyncExitStack) -> None:
        (logged,) = await (await bench.control(stack)).read_to_end()
        assert logged.record == Desired(PIPELINE, DesiredMode.PAUSED, "newer")

    bench.run(scenario)


def test_what_does_not_belong_into_the_control_topic_is_counted_and_left_out(bench: Bench) -> None:
    codec = RecordCodec()
    good = codec.encode(desired(PIPELINE, "good"))
    stranger = next(
        name for name in ("a", "b", "c") if control_partition(name, 8) != control_partition(PIPELINE, 8)
    )
    bench.put_control(
        (b"\xff\xfe", b"no text"),
        (b"flights/desired", b"not Avro"),
        (b"flights/desired", good[:-1]),
        (b"flights/status", good),
        (b"flights/desired", codec.encode(desired("other", "wrong pipeline"))),
        (b"flights/step/1", codec.encode(boundary(PIPELINE, 1))),
        (b"schema/0011223344556677", b"{}"),
        (f"{stranger}/desired".encode(), codec.encode(desired(stranger, "wrong partition"))),
        (b"flights/desired", good),
    )

    async def scenario(stack: AsyncExitStack) -> None:
        log = await bench.control(stack)
        assert [entry.record for entry in await log.read_to_end()] == [desired(PIPELINE, "good")]
        assert log.rejected == 7
        whole = await KafkaControlLog.open(bench.settings, partition=control_partition(PIPELINE, 8))
        stack.push_async_callback(whole.close)
        assert [entry.record for entry in await whole.read_to_end()] == [desired(PIPELINE, "good")]
        assert whole.rejected == 8

    bench.run(scenario)


def test_a_damaged_record_in_the_steps_topic_is_never_passed_over(bench: Bench) -> None:
    codec = RecordCodec()
    bench.put(
        bench.names.steps_topic(PIPELINE),
        0,
        [(b"step/1", codec.encode(boundary(PIPELINE, 1))), (b"step/2", b"?")],
    )

    async def scenario(stack: AsyncExitStack) -> None:
        with pytest.raises(DamagedRecordError, match="offset 1"):
            await (await bench.steps(stack)).read_to_end()

    bench.run(scenario)


def test_topics_that_were_made_anew_under_a_reader_are_an_error_and_not_a_new_beginning(bench: Bench) -> None:
    async def scenario(stack: AsyncExitStack) -> None:
        control, steps = await bench.control(stack), await bench.steps(stack)
        await control.append([desired(PIPELINE, "before")])
        assert len(await control.read_to_end()) == 1
        assert await steps.read_to_end() == []
        await asyncio.to_thread(bench.delete)
        await asyncio.to_thread(bench.create)
        with pytest.raises(TopicError, match="recreated"):
            await control.read_to_end()
        with pytest.raises(TopicError, match="recreated"):
            await anext(steps.tail())

    bench.run(scenario)


def test_a_missing_control_topic_is_an_error(bench: Bench) -> None:
    bench.delete()

    async def scenario(stack: AsyncExitStack) -> None:
        with pytest.raises(TopicError, match="There is no topic"):
            await bench.control(stack)

    bench.run(scenario)


async def _tail_until(log: KafkaControlLog, request_id: str, seen: list[Logged]) -> None:
    """As a session does: follows again after every fault."""
    while True:
        try:
            async for chunk in log.tail():
                seen += chunk
                if any(entry.record == desired(PIPELINE, request_id) for entry in chunk):
                    return
        except RetriableError:
            await asyncio.sleep(0.05)


async def _until_it_works(action: Callable[[], Awaitable[Any]]) -> Any:
    while True:
        try:
            return await action()
        except RetriableError:
            await asyncio.sleep(0.05)


def test_logs_go_on_after_the_broker_was_killed_and_started_again(mortal_broker: EmbeddedBroker) -> None:
    broker = mortal_broker
    bench = Bench(broker.bootstrap_servers)

    async def scenario(stack: AsyncExitStack) -> None:
        writer, reader = await bench.control(stack), await bench.control(stack)
        transaction = KafkaTransaction(bench.settings, PIPELINE)
        stack.push_async_callback(transaction.close)
        steps = await bench.steps(stack)
        seen: list[Logged] = []
        tail = asyncio.create_task(_tail_until(reader, "after", seen))
        await writer.append([desired(PIPELINE, "before")])
        producer = await transaction.init_producer(TRANSACTION_MS)
        await transaction.add_partitions(*producer, [(bench.names.steps_topic(PIPELINE), 0)])
        await commit(transaction, steps, producer, boundary(PIPELINE, 1))

        broker.kill()
        with pytest.raises(RetriableError):
            await steps.read_to_end()
        await asyncio.to_thread(broker.start)

        await _until_it_works(lambda: writer.append([desired(PIPELINE, "after")]))
        await tail
        kept = [entry.record for entry in seen]
        assert kept[0] == desired(PIPELINE, "before")
        assert kept[-1] == desired(PIPELINE, "after")
        offsets = [entry.offset for entry in seen]
        assert offsets == sorted(set(offsets))
        producer = await _until_it_works(lambda: transaction.init_producer(TRANSACTION_MS))
        found = await _until_it_works(lambda: steps.read_settled(transaction.log_end))
        assert [entry.record for entry in found] == [boundary(PIPELINE, 1)]
        await transaction.add_partitions(*producer, [(bench.names.steps_topic(PIPELINE), 0)])
        await commit(transaction, steps, producer, boundary(PIPELINE, 2))

    bench.run(scenario)


def test_the_owner_does_not_go_on_while_a_transaction_hangs_in_the_steps_topic(bench: Bench) -> None:
    """What is committed can't be seen then, and the step would be made twice."""
    hanging = transactional(bench.settings)
    hanging.begin_transaction()
    hanging.produce(bench.names.steps_topic(PIPELINE), b"?", b"step/1")
    assert hanging.flush(_DEADLINE_S) == 0

    async def scenario(stack: AsyncExitStack) -> None:
        transaction = KafkaTransaction(bench.settings, PIPELINE)
        stack.push_async_callback(transaction.close)
        steps = KafkaStepsLog(bench.settings, PIPELINE, settle_timeout_ms=500)
        stack.push_async_callback(steps.close)
        await transaction.init_producer(TRANSACTION_MS)
        with pytest.raises(RetriableError, match=r"open at offset 0.*kafka-transactions\.sh"):
            await steps.read_settled(0)
        hanging.abort_transaction(_DEADLINE_S)
        assert await _until_it_works(lambda: steps.read_settled(0)) == []

    bench.run(scenario)


def test_readers_pass_over_what_compaction_has_removed(tmp_path: Path) -> None:
    cleaner = {"log.cleaner.backoff.ms": "50", "log.roll.jitter.ms": "0", "log.initial.task.delay.ms": "0"}
    with EmbeddedBroker(tmp_path, properties=cleaner) as broker:
        often = {"segment.ms": "50", "min.cleanable.dirty.ratio": "0.0", "max.compaction.lag.ms": "50"}
        bench = Bench(broker.bootstrap_servers, often)

        async def scenario(stack: AsyncExitStack) -> None:
            writer, follower = await bench.control(stack), await bench.control(stack)
            last: list[Logged] = []
            followed = 0
            deadline = time.monotonic() + _DEADLINE_S
            number = 0
            while not last or len(last) >= number:
                assert time.monotonic() < deadline, "the cleaner did not run"
                await writer.append([desired(PIPELINE, str(number)) for number in range(number, number + 50)])
                number += 50
                followed += len(await follower.read_to_end())
                last = await (await bench.control(stack)).read_to_end()
            assert followed == number
            assert last[-1].record == desired(PIPELINE, str(number - 1))
            offsets = [entry.offset for entry in last]
            assert offsets == sorted(set(offsets))

        bench.run(scenario)

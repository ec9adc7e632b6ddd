"""Keyed rows of several nodes, written by the node that owns their partition: once, where Kafka's clients look for them,
and with the same digests when the step is run again."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pytest

from kcontrol.adapters.kafka.exchange.deliver import (
    DeliveredExchange,
    DeliveredRows,
    ExchangeDelivery,
    deliver,
)
from kcontrol.adapters.kafka.exchange.reader import Sent
from kcontrol.adapters.kafka.exchange.writer import ExchangeWriter
from kcontrol.adapters.kafka.write.targets import DIGEST_COLUMN, OutputTarget, addressed
from kcontrol.core.model import ExchangeSlice, FailureKind
from kcontrol.errors import ConfigurationError, StepFailedError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import partition_of
from tests.conftest import TopicFactory
from tests.integration.data_path import Owner, consume, topic_id
from tests.integration.exchanges import runs_for, transaction_of

NODES, PARTITIONS = 2, 5
NOW_MS = int(time.time() * 1000)
NODE_OF = [partition % NODES for partition in range(PARTITIONS)]


def own(node: int) -> tuple[int, ...]:
    return tuple(partition for partition in range(PARTITIONS) if NODE_OF[partition] == node)


@dataclass
class Stage:
    """Two nodes, an exchange and an output, and an open attempt at step 1."""

    settings: ClusterSettings
    exchange: str
    output: str
    owner: Owner
    digest: str = "exact"

    def begin(self) -> None:
        partitions = [(self.output, number) for number in range(PARTITIONS)]
        self.owner.begin([*partitions, *((self.exchange, slot) for slot in range(NODES))])

    def target(self, node: int) -> OutputTarget:
        return OutputTarget("spent", self.output, PARTITIONS, own(node), self.digest)

    def send(self, node: int, rows: pa.RecordBatch) -> ExchangeSlice:
        placed, nodes = addressed(rows, self.target(node), NODE_OF)
        writer = ExchangeWriter(
            self.settings, transaction_of(self.owner), "spent-deliver", self.exchange, node, NODES
        )
        zeros = np.zeros(rows.num_rows, np.int64)
        writer.write(placed, nodes, zeros, zeros)
        sent = writer.finish()
        assert sent is not None
        return sent

    def delivery(self, schema: pa.Schema) -> DeliveredExchange:
        fields = [*schema, pa.field("partition", pa.int32())]
        declared = pa.schema([*fields[:-1]] if "partition" in schema.names else fields)
        return DeliveredExchange(
            "spent-deliver", self.exchange, topic_id(self.settings, self.exchange), declared
        )

    def deliver(
        self, node: int, slices: list[ExchangeSlice], schema: pa.Schema, replay: bool = False, **more: object
    ) -> DeliveredRows:
        sent = Sent(1, node, *self.owner.producer, committed=replay)
        transaction = None if replay else transaction_of(self.owner)
        where = (self.settings, self.delivery(schema), runs_for(node, *slices), sent, self.target(node))
        return deliver(*where, transaction, NOW_MS, **more)  # type: ignore[arg-type]

    def seen(self) -> dict[int, list[tuple[bytes | None, bytes | None]]]:
        return {
            number: [(m.key(), m.value()) for m in consume(self.settings, self.output, number)]
            for number in range(PARTITIONS)
        }


@pytest.fixture
def stage(settings: ClusterSettings, topic_factory: TopicFactory) -> Stage:
    made = Stage(
        settings, topic_factory("delivers", NODES), topic_factory("spent", PARTITIONS), Owner(settings)
    )
    made.begin()
    return made


def keyed(node: int, count: int = 200) -> pa.RecordBatch:
    keys = [f"user-{number % 37}".encode() for number in range(count)]
    values = [f"{node}:{number}".encode() for number in range(count)]
    return pa.record_batch({"key": pa.array(keys), "value": pa.array(values)})


def test_each_row_lies_once_in_the_partition_of_its_key_and_a_replay_agrees(stage: Stage) -> None:
    rows = {node: keyed(node) for node in range(NODES)}
    slices = [stage.send(node, rows[node]) for node in range(NODES)]
    found = [stage.deliver(node, slices, rows[0].schema) for node in range(NODES)]
    stage.owner.end(commit=True)
    for node, delivered in enumerate(found):
        said = [run.records for piece in slices for run in piece.runs if run.node == node]
        assert delivered.rows == tuple(said)
        assert {each.partition for each in delivered.slices} <= set(own(node))
        assert sum(each.records for each in delivered.slices) == delivered.records
    assert sum(delivered.records for delivered in found) == 400
    seen = stage.seen()
    for number in range(PARTITIONS):
        wanted = [
            (key, value)
            for node in range(NODES)
            for key, value in zip(*(column.to_pylist() for column in rows[node].columns), strict=True)
            if partition_of(pa.array([key]), PARTITIONS)[0] == number
        ]
        assert seen[number] == wanted, "in the order of nodes, and of rows within each"
    kept: list[tuple[int, int]] = []
    for node in range(NODES):
        again = stage.deliver(
            node,
            slices,
            rows[0].schema,
            replay=True,
            keep=lambda batch, numbers: kept.append((batch.num_rows, len(numbers))),
        )
        assert again.rows == found[node].rows
        assert [(each.partition, each.records, each.digest) for each in again.slices] == [
            (each.partition, each.records, each.digest) for each in found[node].slices
        ]
        assert {(each.from_, each.to) for each in again.slices} == {(0, 0)}
    assert sum(batch for batch, _ in kept) == sum(numbers for _, numbers in kept) == 400
    assert stage.seen() == seen, "a replay writes nothing"


def test_a_given_partition_counts_and_rows_without_a_key_stay_with_their_sender(stage: Stage) -> None:
    rows = pa.record_batch(
        {
            "key": pa.array([b"a", None, None, b"b"]),
            "value": pa.array([b"1", b"2", b"3", b"4"]),
            "partition": pa.array([4, None, 3, None], pa.int32()),
        }
    )
    placed, nodes = addressed(rows, stage.target(1), NODE_OF)
    numbers = placed.column("partition").to_pylist()
    assert (numbers[0], numbers[2], numbers[3]) == (4, 3, partition_of(pa.array([b"b"]), PARTITIONS)[0])
    assert numbers[1] in own(1)
    assert nodes.tolist() == [NODE_OF[number] for number in numbers]
    slices = [stage.send(1, rows)]
    for node in range(NODES):
        stage.deliver(node, slices, rows.schema)
    stage.owner.end(commit=True)
    found = {value: number for number, each in stage.seen().items() for _, value in each}
    assert [found[value] for value in (b"1", b"2", b"3", b"4")] == numbers


def test_a_partition_that_is_not_there_is_refused_before_anything_is_sent(stage: Stage) -> None:
    rows = pa.record_batch({"value": [b"x"], "partition": pa.array([PARTITIONS], pa.int32())})
    with pytest.raises(
        ConfigurationError, match=r"a row belongs to partition 5 of topic .* which has 5 partitions"
    ):
        addressed(rows, stage.target(0), NODE_OF)


def test_digests_with_a_tolerance_are_of_what_stands_for_the_values(stage: Stage) -> None:
    stage.digest = "float:1e-6"
    digests = []
    for value in (b"0.1", b"0.10000001"):
        rows = pa.record_batch({"key": [b"k"], "value": [value], DIGEST_COLUMN: [b"0.1"]})
        slices = [stage.send(0, rows)]
        node = NODE_OF[int(partition_of(pa.array([b"k"]), PARTITIONS)[0])]
        digests += [each.digest for each in stage.deliver(node, slices, rows.schema).slices]
        stage.begin()
    assert len(digests) == 2
    assert digests[0] == digests[1]


def test_nothing_sent_is_nothing_delivered(stage: Stage) -> None:
    delivered = stage.deliver(0, [], keyed(0).schema)
    assert delivered == DeliveredRows((), ())
    assert delivered.records == 0


def test_rows_that_are_another_nodes_are_refused_and_nothing_of_them_is_written(stage: Stage) -> None:
    rows = keyed(0)
    slices = [stage.send(0, rows)]
    sent = Sent(1, 0, *stage.owner.producer, committed=False)
    wrong = OutputTarget("spent", stage.output, PARTITIONS, (), "exact")
    what = stage.delivery(rows.schema)
    with pytest.raises(ConfigurationError, match="output 'spent'"):
        deliver(stage.settings, what, runs_for(0, *slices), sent, wrong, transaction_of(stage.owner), NOW_MS)
    stage.owner.end(commit=True)
    assert not any(stage.seen().values())


def test_a_delivery_that_was_stopped_writes_nothing_more(stage: Stage) -> None:
    rows = keyed(0)
    slices = [stage.send(0, rows)]
    sent = Sent(1, 0, *stage.owner.producer, committed=False)
    what, target = stage.delivery(rows.schema), stage.target(0)
    delivery = ExchangeDelivery(stage.settings, what, sent, target, transaction_of(stage.owner), NOW_MS)
    delivery.abort()
    with pytest.raises(StepFailedError, match="told to stop") as caught:
        delivery.run(runs_for(0, *slices))
    assert caught.value.kind is FailureKind.LOST
    stage.owner.end(commit=True)
    assert not any(stage.seen().values())

"""Rows of a task in a transaction that somebody else owns: seen when that commits, never
when not, as `finish` has said."""

from __future__ import annotations

import random
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pytest
from confluent_kafka import Consumer, KafkaException, TopicPartition

from kcontrol.adapters.kafka.write.writer import DigestWriter, TransactionWriter, WriteLimits
from kcontrol.backoff import Backoff
from kcontrol.core.model import OutputSlice
from kcontrol.errors import ConfigurationError, FencedError, StepFailedError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import HEADERS_TYPE, partition_of
from kcontrol.wire.digest import EMPTY, DigestKind, record_digest
from tests.conftest import TopicFactory
from tests.integration.data_path import Owner, consume
from tests.support.patience import HANG_S

NOW_MS = int(time.time() * 1000)
"""Of today: retention goes by what the records say, and an old step would be deleted while a test looks at
it."""
SMALL = WriteLimits(max_batch_bytes=2_000, buffer_bytes=20_000)


def rows(count: int, seed: int = 1, size: int = 60) -> pa.RecordBatch:
    rng = random.Random(seed)
    keys = [rng.choice([None, f"key-{number}".encode()]) for number in range(count)]
    values = [rng.choice([None, rng.randbytes(rng.randint(0, size))]) for _ in range(count)]
    headers = [rng.choice([None, [], [{"key": "mine", "value": b"content"}]]) for _ in range(count)]
    arrays = [pa.array(keys, pa.binary()), pa.array(values, pa.binary()), pa.array(headers, HEADERS_TYPE)]
    return pa.RecordBatch.from_arrays(arrays, ["key", "value", "headers"])


def writer_of(
    settings: ClusterSettings, owner: Owner, topic: str, partitions: int, step: int = 1, **options: object
) -> TransactionWriter:
    return TransactionWriter(
        settings, owner.transactional_id, *owner.producer, step, NOW_MS, "out", topic, partitions, **options
    )  # type: ignore[arg-type]


def seen(settings: ClusterSettings, topic: str, partition: int) -> list[tuple[object, ...]]:
    return [
        (m.offset(), m.key(), m.value(), tuple(m.headers() or ()))
        for m in consume(settings, topic, partition)
    ]


def expected(
    batch: pa.RecordBatch, numbers: np.ndarray, partition: int, step: int
) -> list[tuple[object, ...]]:
    found = []
    for row, number in zip(batch.to_pylist(), numbers, strict=True):
        if number == partition:
            own = tuple((header["key"], header["value"]) for header in row["headers"] or ())
            found.append((row["key"], row["value"], (*own, ("step", str(step).encode()))))
    return found


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_committed_step_is_what_was_reported(
    settings: ClusterSettings, topic_factory: TopicFactory, compression: str
) -> None:
    topic = topic_factory(f"written-{compression}", 3)
    owner = Owner(settings)
    ends = [0, 0, 0]
    for step in (1, 2):
        owner.begin([(topic, partition) for partition in range(3)])
        writer = writer_of(settings, owner, topic, 3, step, compression=compression, limits=SMALL)
        batch = rows(900, seed=step)
        numbers = np.random.default_rng(step).integers(0, 3, 900).astype(np.int32)
        for start in range(0, 900, 250):
            writer.write(batch.slice(start, 250), numbers[start : start + 250])
        slices = writer.finish()
        owner.end(commit=True)
        for item in slices:
            wanted = expected(batch, numbers, item.partition, step)
            digest = EMPTY
            for key, value, headers in wanted:
                digest += record_digest(DigestKind.OUTPUT, 3, key, value, headers[:-1])  # type: ignore[arg-type, index]
            first = ends[item.partition]
            assert item == OutputSlice(
                "out", topic, item.partition, first, first + len(wanted), len(wanted), digest.hex
            )
            # The marker of the step before lies between.
            found = [message for message in seen(settings, topic, item.partition) if message[0] >= first]
            assert [message[0] for message in found] == list(range(item.from_, item.to))
            assert [message[1:] for message in found] == wanted
            ends[item.partition] = item.to + 1
        assert {message.timestamp()[1] for message in consume(settings, topic)} == {NOW_MS}


def test_an_aborted_step_is_never_seen_and_the_next_one_is(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("aborted", 1)
    owner = Owner(settings)
    for step, commit in ((1, False), (2, True)):
        owner.begin([(topic, 0)])
        writer = writer_of(settings, owner, topic, 1, step, limits=SMALL)
        writer.write(rows(200, seed=step), np.zeros(200, np.int32))
        writer.finish()
        owner.end(commit)
    found = seen(settings, topic, 0)
    assert [message[1:] for message in found] == expected(rows(200, seed=2), np.zeros(200, np.int32), 0, 2)
    assert found[0][0] == 201


def test_partitions_without_rows_are_not_reported(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("few", 4)
    owner = Owner(settings)
    owner.begin([(topic, partition) for partition in range(4)])
    writer = writer_of(settings, owner, topic, 4)
    writer.write(rows(2), np.array([3, 1], np.int32))
    writer.write(rows(0), np.array([], np.int32))
    assert [item.partition for item in writer.finish()] == [1, 3]
    assert writer_of(settings, owner, topic, 4).finish() == []
    owner.end(commit=True)


def test_a_late_writer_is_fenced(settings: ClusterSettings, topic_factory: TopicFactory) -> None:
    topic = topic_factory("late", 1)
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    writer = writer_of(settings, owner, topic, 1)
    writer.write(rows(5), np.zeros(5, np.int32))
    writer.finish()
    owner.end(commit=True)

    late = writer_of(settings, owner, topic, 1)
    late.write(rows(5, seed=9), np.zeros(5, np.int32))
    with pytest.raises(FencedError, match=rf"step 1, output 'out', topic '{topic}', partition 0: writing"):
        late.finish()
    assert len(seen(settings, topic, 0)) == 5


def test_a_writer_of_an_older_attempt_is_fenced(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("zombie", 1)
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    zombie = writer_of(settings, owner, topic, 1)
    zombie.write(rows(5, seed=9), np.zeros(5, np.int32))
    owner.begin([(topic, 0)])
    with pytest.raises(FencedError, match="error 47"):
        zombie.finish()
    with pytest.raises(FencedError, match="error 47"):
        zombie.write(rows(1), np.zeros(1, np.int32))
    writer = writer_of(settings, owner, topic, 1)
    writer.write(rows(3), np.zeros(3, np.int32))
    writer.finish()
    owner.end(commit=True)
    assert len(seen(settings, topic, 0)) == 3


def test_a_partition_that_is_not_in_the_transaction(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("not-added", 2)
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    writer = writer_of(settings, owner, topic, 2)
    writer.write(rows(2), np.array([0, 1], np.int32))
    with pytest.raises(FencedError, match=r"partition 1: writing: .*error 48"):
        writer.finish()
    owner.end(commit=False)


def _until_written(settings: ClusterSettings, topic: str, partition: int) -> None:
    where = {"bootstrap.servers": settings.bootstrap_servers, "group.id": "ends"}
    consumer = Consumer({**where, "isolation.level": "read_uncommitted"})

    def is_written() -> bool:
        with suppress(KafkaException):  # A partition that was added may not be led yet.
            return consumer.get_watermark_offsets(TopicPartition(topic, partition), 10)[1] > 0
        return False

    try:
        assert Backoff(5, 50, round(HANG_S * 1_000)).poll(is_written)
    finally:
        consumer.close()


def test_a_partition_that_is_added_when_the_writer_has_begun(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("added-late", 2)
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    patient = WriteLimits(deadline_ms=round(HANG_S * 1_000))
    writer = writer_of(settings, owner, topic, 2, limits=patient)
    writer.write(rows(2), np.array([0, 1], np.int32))
    with ThreadPoolExecutor(1) as pool:
        finished = pool.submit(writer.finish)
        _until_written(settings, topic, 0)  # One request had the batches of both partitions.
        owner.add([(topic, 1)])
        assert [(item.partition, item.records) for item in finished.result()] == [(0, 1), (1, 1)]
    owner.end(commit=True)
    assert len(seen(settings, topic, 1)) == 1


def test_digests_of_a_replay_by_count_and_with_a_tolerance(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("digests", 2)
    owner = Owner(settings)
    batch, rounded = rows(100), rows(100, seed=77)
    numbers = np.arange(100, dtype=np.int32) % 2
    found = {}
    for step, mode in enumerate(("exact", "count", "float:0.01"), 1):
        owner.begin([(topic, 0), (topic, 1)])
        writers = (
            writer_of(settings, owner, topic, 2, step, digest=mode),
            DigestWriter(step, "out", topic, 2, mode),
        )
        for writer in writers:
            writer.write(batch, numbers, rounded if mode.startswith("float") else None)
        written, replayed = (writer.finish() for writer in writers)
        owner.end(commit=True)
        assert [(item.partition, item.records, item.digest) for item in written] == [
            (item.partition, item.records, item.digest) for item in replayed
        ]
        assert [item.records for item in written] == [50, 50]
        found[mode] = written[0].digest
    assert found["count"] == "0" * 32
    assert len(set(found.values())) == 3
    exact = DigestWriter(1, "out", topic, 2)
    exact.write(rounded, numbers)
    assert exact.finish()[0].digest == found["float:0.01"]


def test_keys_choose_the_partitions_of_kafkas_own_producer(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("keyed", 5)
    owner = Owner(settings)
    owner.begin([(topic, partition) for partition in range(5)])
    batch = pa.record_batch(
        {"key": pa.array([f"k{number}" for number in range(300)]), "value": pa.array(["v"] * 300)}
    )
    writer = writer_of(settings, owner, topic, 5)
    writer.write(batch, partition_of(batch.column("key"), 5))
    counts = {item.partition: item.records for item in writer.finish()}
    owner.end(commit=True)
    assert sum(counts.values()) == 300
    assert all(len(seen(settings, topic, partition)) == counts[partition] for partition in range(5))


def test_what_can_not_be_written_is_refused_at_once(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("refused", 2)
    owner = Owner(settings)
    with pytest.raises(
        ConfigurationError, match="compression 'brotli' must be one of none, gzip, snappy, lz4, zstd"
    ):
        writer_of(settings, owner, topic, 2, compression="brotli")
    writer = writer_of(settings, owner, topic, 2)
    with pytest.raises(
        StepFailedError, match=rf"step 1, output 'out': a row is for partition 2; topic '{topic}' has 2"
    ) as failure:
        writer.write(rows(2), np.array([1, 2], np.int32))
    assert failure.value.kind == "query"
    with pytest.raises(ConfigurationError, match="column 'value' has type int64"):
        writer.write(pa.record_batch({"value": pa.array([1])}), np.zeros(1, np.int32))


def test_a_topic_or_partition_that_is_not_there(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("smaller", 1)
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    for name, message in (
        ("nowhere", "There is no topic 'nowhere'"),
        (topic, "partition 1: there is no such partition; .* has 1"),
    ):
        writer = writer_of(settings, owner, name, 2)
        writer.write(rows(1), np.ones(1, np.int32))
        with pytest.raises(TopicError, match=message):
            writer.finish()
    owner.end(commit=False)

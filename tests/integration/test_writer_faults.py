"""Second writers, records that a topic does not take, lost answers, and writers that are told to stop."""

from __future__ import annotations

import random
import secrets
import threading
import time

import numpy as np
import pyarrow as pa
import pytest

from kcontrol.adapters.kafka.embedded import EmbeddedBroker
from kcontrol.adapters.kafka.write.writer import TransactionWriter, WriteLimits
from kcontrol.errors import RetriableError, StepFailedError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.conftest import BehindProxy
from tests.integration.data_path import DEADLINE_S, Owner, consume
from tests.support.proxy import PRODUCE, Cut
from tests.support.topics import create_topic

NOW_MS = int(time.time() * 1000)
"""Of today: retention goes by what the records say, and an old step would be deleted while a test looks at
it."""


def values(count: int, name: str = "v", size: int = 0) -> pa.RecordBatch:
    return pa.record_batch(
        {"value": pa.array([f"{name}{number}".encode().ljust(size, b".") for number in range(count)])}
    )


def zeros(count: int) -> np.ndarray:
    return np.zeros(count, np.int32)


def writer_of(
    settings: ClusterSettings, owner: Owner, topic: str, limits: WriteLimits | None = None
) -> TransactionWriter:
    return TransactionWriter(
        settings, owner.transactional_id, *owner.producer, 3, NOW_MS, "out", topic, 1, limits=limits
    )


def seen(settings: ClusterSettings, topic: str) -> list[bytes]:
    return [message.value().rstrip(b".") for message in consume(settings, topic)]


def wanted(count: int, name: str = "v") -> list[bytes]:
    return [f"{name}{number}".encode() for number in range(count)]


def write_all(writer: TransactionWriter, rows: pa.RecordBatch) -> None:
    writer.write(rows, zeros(rows.num_rows))
    writer.finish()


def assert_fails(writer: TransactionWriter, rows: pa.RecordBatch, kind: str, message: str) -> None:
    """A writer that goes on hears of it while it writes or at the end, whichever the
    broker's answer is in time for."""
    with pytest.raises(StepFailedError, match=message) as failure:
        write_all(writer, rows)
    assert failure.value.kind == kind


SECOND_WRITER = r"step 3, output 'out'.*partition 0: somebody else writes to it"


@pytest.mark.parametrize("batches", [1, 2, 6, 9])
def test_a_task_that_is_run_again_behind_our_back(
    settings: ClusterSettings, topic_factory: TopicFactory, batches: int
) -> None:
    """Its batches have sequence numbers that the broker has seen: it would acknowledge them and drop them."""
    topic = topic_factory("rerun")
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    limits = WriteLimits(max_batch_bytes=200)
    first = writer_of(settings, owner, topic, limits)
    first.write(values(batches, size=90), zeros(batches))
    assert first.finish()[0].records == batches

    again = writer_of(settings, owner, topic, limits)
    assert_fails(again, values(batches, "w", size=90), "lost", SECOND_WRITER)
    owner.end(commit=False)


def test_two_tries_of_a_task_at_once_can_not_both_end_well(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("at-once")
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    one, other = (writer_of(settings, owner, topic, WriteLimits(max_batch_bytes=size)) for size in (300, 500))
    failures: list[StepFailedError] = []
    for part in range(20):
        for writer, name in ((one, "a"), (other, "b")):
            try:
                writer.write(values(10, f"{name}{part}-", size=50), zeros(10))
            except StepFailedError as failure:
                failures.append(failure)
    for writer in (one, other):
        try:
            writer.finish()
        except StepFailedError as failure:
            failures.append(failure)
    assert {failure.kind for failure in failures} == {"lost"}
    owner.end(commit=False)


def test_a_record_that_the_topic_does_not_take(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("narrow", config={"max.message.bytes": "5000"})
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    writer = writer_of(settings, owner, topic)
    writer.write(values(10), zeros(10))
    message = rf"output 'out', topic '{topic}', partition 0: a record of 60\d\d bytes is too large: .*max.message.bytes is 5000"
    assert_fails(writer, values(1, size=6000), "query", message)
    owner.end(commit=False)


def test_batches_shrink_to_what_the_topic_takes(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("shrink", config={"max.message.bytes": "20000"})
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    writer = writer_of(settings, owner, topic, WriteLimits(max_batch_bytes=100_000))
    writer.write(values(3000, size=200), zeros(3000))
    (item,) = writer.finish()
    owner.end(commit=True)
    assert (item.from_, item.to, item.records) == (0, 3000, 3000)
    assert seen(settings, topic) == wanted(3000)
    assert all(message.headers() == [("step", b"3")] for message in consume(settings, topic))


def test_records_without_keys_for_a_compacted_topic(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("keys-please", config={"cleanup.policy": "compact"})
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    writer = writer_of(settings, owner, topic)
    assert_fails(
        writer, values(2), "query", r"the topic does not take these records.*A compacted topic wants keys"
    )
    owner.end(commit=False)


@pytest.mark.parametrize("cut", list(Cut))
def test_a_lost_answer_neither_loses_nor_repeats(behind_proxy: BehindProxy, cut: Cut) -> None:
    direct, proxy, topic = behind_proxy.direct, behind_proxy.proxy, behind_proxy.topic("lost")
    owner = Owner(direct)
    owner.begin([(topic, 0)])
    writer = writer_of(
        behind_proxy.through, owner, topic, WriteLimits(max_batch_bytes=1000, buffer_bytes=1000)
    )
    rng = random.Random(8)
    for start in range(0, 400, 20):
        if rng.random() < 0.5:
            proxy.cut_next(PRODUCE, cut)
        writer.write(values(400, size=60).slice(start, 20), zeros(20))
    proxy.cut_next(PRODUCE, cut)
    (item,) = writer.finish()
    owner.end(commit=True)
    assert (item.from_, item.to, item.records) == (0, 400, 400)
    assert seen(direct, topic) == wanted(400)


def test_a_broker_that_restarts_and_one_that_does_not(mortal_broker: EmbeddedBroker) -> None:
    broker, topic = mortal_broker, f"restarting-{secrets.token_hex(3)}"
    create_topic(broker.settings, topic)
    owner = Owner(broker.settings)
    owner.begin([(topic, 0)])
    patient = writer_of(
        broker.settings,
        owner,
        topic,
        WriteLimits(max_batch_bytes=1000, deadline_ms=round(DEADLINE_S * 1_000)),
    )
    patient.write(values(100, size=60), zeros(100))
    broker.kill()
    impatient = writer_of(broker.settings, owner, topic, WriteLimits(deadline_ms=200))
    impatient.write(values(1), zeros(1))
    with pytest.raises(
        RetriableError, match=r"step 3, output 'out', topic '\w+-\w+', partition 0: writing did not succeed"
    ):
        impatient.finish()
    broker.start()
    patient.write(values(100, "w", size=60), zeros(100))
    assert patient.finish()[0].records == 200
    owner.end(commit=True)
    assert seen(broker.settings, topic) == wanted(100) + wanted(100, "w")


def test_stopping_a_writer_that_waits_for_a_silent_broker(mortal_broker: EmbeddedBroker) -> None:
    broker, topic = mortal_broker, f"silent-{secrets.token_hex(3)}"
    create_topic(broker.settings, topic)
    owner = Owner(broker.settings)
    owner.begin([(topic, 0)])
    patient = WriteLimits(max_batch_bytes=1000, buffer_bytes=1000, deadline_ms=round(DEADLINE_S * 1_000))
    writer = writer_of(broker.settings, owner, topic, patient)
    writer.write(values(1), zeros(1))
    broker.pause()
    try:
        failures: list[BaseException] = []

        def fill() -> None:
            try:
                writer.write(values(1000, size=60), zeros(1000))
            except StepFailedError as error:
                failures.append(error)

        filling = threading.Thread(target=fill)
        filling.start()
        writer.abort()
        filling.join(DEADLINE_S)
        assert not filling.is_alive()
        assert "told to stop" in str(failures[0])
        with pytest.raises(StepFailedError, match="told to stop"):
            writer.finish()
    finally:
        broker.resume()

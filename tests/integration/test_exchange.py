"""Rows from node to node within a transaction: read before it ends, exactly those that were sent to whom, and again when
it has committed."""

from __future__ import annotations

import time
import uuid

import numpy as np
import pyarrow as pa
import pytest

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.client.protocol import topic_id_text
from kcontrol.adapters.kafka.exchange.reader import ExchangeReader, Sent
from kcontrol.adapters.kafka.exchange.writer import ExchangeCounter, ExchangeLimits, digests_of
from kcontrol.adapters.kafka.write.writer import TransactionWriter
from kcontrol.core.model import FailureKind
from kcontrol.errors import ConfigurationError, FencedError, InputGoneError, RetriableError, StepFailedError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.batches import Fetched
from tests.conftest import TopicFactory
from tests.integration.data_path import Owner, consume, in_loop
from tests.integration.exchanges import (
    NAME,
    SCHEMA,
    SMALL,
    digest_for,
    hashes_of,
    nodes_of,
    read,
    reader_of,
    rows_of,
    runs_for,
    send,
    sent_by,
    wanted,
    writer_of,
)
from tests.support.patience import HANG_S

SLOTS = 4


@pytest.fixture
def topic(topic_factory: TopicFactory) -> str:
    return topic_factory("exchange", SLOTS)


@pytest.fixture
def owner(settings: ClusterSettings, topic: str) -> Owner:
    """With an open attempt."""
    made = Owner(settings)
    begin(made, topic)
    return made


def begin(owner: Owner, topic: str) -> None:
    owner.begin([(topic, slot) for slot in range(SLOTS)])


def test_rows_are_read_before_their_transaction_ends_and_again_when_it_has_committed(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    rows = {slot: rows_of(700, seed=slot) for slot in range(SLOTS)}
    slices = [send(settings, owner, topic, rows[slot], slot) for slot in range(SLOTS)]
    ways = [False, True]
    for committed in ways:
        if committed:
            owner.end(commit=True)
        for node in (0, 1):
            runs = runs_for(node, *slices)
            reading = reader_of(settings, topic).read(runs, sent_by(owner, node, committed=committed))
            found = [row for batch in reading for row in batch.to_pylist()]
            assert found == [row for slot in range(SLOTS) for row in wanted(rows[slot], node)]
            said = [run.records for piece in slices for run in piece.runs if run.node == node]
            assert reading.rows == said
            assert reading.records == len(found)


def test_a_slice_names_runs_that_follow_each_other_with_their_rows_and_digests(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    rows = rows_of(1_000)
    piece = send(settings, owner, topic, rows, slot=3, nodes=3)
    assert (piece.exchange, piece.partition, piece.from_) == (NAME, 3, 0)
    ends = [piece.from_, *(run.to for run in piece.runs)]
    assert ends == [*(run.from_ for run in piece.runs), piece.to]
    assert len(piece.runs) > 3
    found = digests_of(piece)
    for node in range(3):
        assert found[node] == digest_for(rows, node, 3)
    for run in piece.runs:
        got = read(settings, topic, [(3, run.from_, run.to)], sent_by(owner, run.node))
        part = pa.RecordBatch.from_pylist(got, SCHEMA)
        assert (run.records, run.digest) == (len(got), digest_for(part, run.node, 3).hex)


def test_a_replay_counts_the_same_without_writing(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    rows = rows_of(500)
    piece = send(settings, owner, topic, rows)
    counter = ExchangeCounter(NAME, 0, 2)
    for start in range(0, 500, 77):
        part = rows.slice(start, 77)
        counter.write(part, nodes_of(part, 2), *hashes_of(part))
    again = counter.finish()
    assert again is not None
    assert digests_of(again) == digests_of(piece)
    assert [(run.from_, run.to) for run in again.runs] == [(0, 0), (0, 0)]
    assert ExchangeCounter(NAME, 0, 2).finish() is None


def test_a_batch_of_kafka_holds_chunks_for_one_node_only(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    piece = send(settings, owner, topic, rows_of(900), limits=ExchangeLimits(1_500, 8 << 20))
    assert [run.node for run in piece.runs] == [0, 1]
    batches = batches_of(settings, topic, piece.to)
    assert {batch.base_offset for batch in batches} >= {run.from_ for run in piece.runs}
    for run in piece.runs:
        assert run.to - run.from_ > 3
        assert len([b for b in batches if run.from_ <= b.base_offset < run.to]) == 1


def batches_of(settings: ClusterSettings, topic: str, to: int) -> list:
    from kcontrol.adapters.kafka.client.background import client_for
    from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED, FetchPosition

    async def ask() -> list:
        client = client_for(settings)
        info = await client.partitions.topic(topic)
        asked = [FetchPosition(0, 0, 8 << 20)]
        (part,) = await client.partitions.fetch(info, info.leader(0), asked, 500, 8 << 20, READ_UNCOMMITTED)
        return Fetched(part.data, topic).batches

    return [batch for batch in in_loop(settings, ask()) if batch.base_offset < to]


def test_records_say_what_they_are_and_when_they_were_really_written(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    before_ms = time.time_ns() // 1_000_000
    send(settings, owner, topic, rows_of(10), step=7)
    owner.end(commit=True)
    messages = consume(settings, topic)
    assert [message.key() for message in messages] == [None, None]
    assert [dict(message.headers()) for message in messages] == [
        {"to": str(node).encode(), "format": b"1", "step": b"7"} for node in (0, 1)
    ]
    for message in messages:
        assert before_ms <= message.timestamp()[1] <= time.time_ns() // 1_000_000


def test_nothing_is_sent_of_no_rows(settings: ClusterSettings, topic: str, owner: Owner) -> None:
    writer = writer_of(settings, owner, topic)
    assert writer.finish() is None
    writer = writer_of(settings, owner, topic)
    empty = rows_of(0)
    writer.write(empty, nodes_of(empty, 2), *hashes_of(empty))
    assert writer.finish() is None
    assert read(settings, topic, [(0, 0, 0)], sent_by(owner, 0)) == []
    assert read(settings, topic, [], sent_by(owner, 0)) == []


def test_of_an_aborted_attempt_nothing_is_read_committed_and_the_next_one_reads_its_own(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    first = send(settings, owner, topic, rows_of(300, seed=1))
    aborted = sent_by(owner, 0, committed=True)
    owner.end(commit=False)
    assert read(settings, topic, runs_for(0, first), aborted) == []
    begin(owner, topic)
    second = send(settings, owner, topic, rows_of(300, seed=2))
    assert read(settings, topic, runs_for(0, second), sent_by(owner, 0)) == wanted(rows_of(300, seed=2), 0)


def test_what_another_attempt_wrote_is_refused(settings: ClusterSettings, topic: str, owner: Owner) -> None:
    first = send(settings, owner, topic, rows_of(300, seed=1))
    begin(owner, topic)
    second = send(settings, owner, topic, rows_of(300, seed=2))
    assert second.from_ > first.to
    stale = runs_for(0, first)[0]
    with pytest.raises(StepFailedError, match="is of producer") as caught:
        read(settings, topic, [stale], sent_by(owner, 0))
    assert caught.value.kind is FailureKind.LOST
    assert str(caught.value).startswith(
        f"step 1, exchange {NAME!r}, topic {topic!r}, partition 0: offsets {stale[1]} to {stale[2]} should hold"
    )
    with pytest.raises(StepFailedError, match=f"the batch at offset {first.to} ends a transaction"):
        read(settings, topic, [(0, first.to, first.to + 1)], sent_by(owner, 0))


@pytest.mark.parametrize(("step", "node", "said"), [(2, 0, "says step 1, not 2"), (1, 1, "says to 0, not 1")])
def test_what_was_sent_in_another_step_or_to_another_node_is_refused(
    settings: ClusterSettings, topic: str, owner: Owner, step: int, node: int, said: str
) -> None:
    piece = send(settings, owner, topic, rows_of(50))
    with pytest.raises(StepFailedError, match=said) as caught:
        read(settings, topic, runs_for(0, piece), sent_by(owner, node, step))
    assert caught.value.kind is FailureKind.LOST


def test_a_record_of_another_format_is_refused(settings: ClusterSettings, topic: str, owner: Owner) -> None:
    writer = TransactionWriter(settings, owner.transactional_id, *owner.producer, 1, 0, NAME, topic, SLOTS)
    writer.write(pa.record_batch({"value": [b"?"]}), np.zeros(1, np.int32))
    writer.finish()
    with pytest.raises(ConfigurationError, match=r"offset 0: the chunk has format none; .* knows 1"):
        read(settings, topic, [(0, 0, 1)], sent_by(owner, 0))


def test_reading_waits_for_what_is_not_there_yet_and_not_for_ever(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    rows = rows_of(200)
    early = reader_of(settings, topic).read([(0, 0, 2)], sent_by(owner, 0))
    started = in_thread(lambda: [row for batch in early for row in batch.to_pylist()])
    writer = writer_of(settings, owner, topic, nodes=1)
    for start in (0, 100):
        part = rows.slice(start, 100)
        writer.write(part, nodes_of(part, 1), *hashes_of(part))
    assert not started.done()
    writer.finish()
    assert started.result(HANG_S) == rows.to_pylist()
    with pytest.raises(RetriableError, match="records reach only to offset 2"):
        read(settings, topic, [(0, 2, 3)], sent_by(owner, 0), deadline_ms=700)


def in_thread(work):  # type: ignore[no-untyped-def]
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(1).submit(work)


def test_many_runs_in_small_fetches_are_the_same_rows(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    rows = {slot: rows_of(2_000, seed=slot) for slot in range(SLOTS)}
    slices = [send(settings, owner, topic, rows[slot], slot, nodes=3, batch=500) for slot in range(SLOTS)]
    runs = runs_for(2, *slices)
    assert len(runs) > 3 * SLOTS
    found = read(settings, topic, runs, sent_by(owner, 2), fetch_max_bytes=3_000, run_bytes=1_000)
    assert found == [row for slot in range(SLOTS) for row in wanted(rows[slot], 2, 3)]


def test_a_row_that_is_larger_than_a_chunk_is_read_whole(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("exchange-large", SLOTS, config={"max.message.bytes": "4000000"})
    owner = Owner(settings)
    begin(owner, topic)
    rng = np.random.default_rng(5)
    users = [rng.bytes(size // 2).hex() for size in (10, 3_000_000, 20)]
    rows = pa.RecordBatch.from_arrays(
        [pa.array(users), pa.array([1, 2, 3]), pa.array([0, 0, 0], pa.int32())], schema=SCHEMA
    )
    piece = send(settings, owner, topic, rows, limits=ExchangeLimits())
    assert piece.to - piece.from_ > 1
    assert read(settings, topic, runs_for(0, piece), sent_by(owner, 0)) == rows.to_pylist()


def test_a_row_that_the_topic_does_not_take_is_the_querys_fault(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    value = np.random.default_rng(5).bytes(1_500_000).hex()
    rows = pa.RecordBatch.from_arrays(
        [pa.array([value]), pa.array([1]), pa.array([0], pa.int32())], schema=SCHEMA
    )
    with pytest.raises(StepFailedError, match="too large") as caught:
        send(settings, owner, topic, rows, limits=ExchangeLimits())
    assert caught.value.kind is FailureKind.QUERY
    assert str(caught.value).startswith(f"step 1, exchange {NAME!r}, topic {topic!r}, partition 0:")


def test_a_topic_with_small_batches_still_gives_exact_runs(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("exchange-small", SLOTS, config={"max.message.bytes": "5000"})
    owner = Owner(settings)
    begin(owner, topic)
    rows = rows_of(2_000)
    piece = send(settings, owner, topic, rows, limits=ExchangeLimits(2_000, 8 << 20))
    assert [run.node for run in piece.runs] == [0, 1]
    for node in (0, 1):
        assert read(settings, topic, runs_for(node, piece), sent_by(owner, node)) == wanted(rows, node)


def test_a_second_writer_in_a_slot_is_found(settings: ClusterSettings, topic: str, owner: Owner) -> None:
    send(settings, owner, topic, rows_of(50))
    with pytest.raises(StepFailedError, match="somebody else writes to it in the same attempt") as caught:
        send(settings, owner, topic, rows_of(80))
    assert caught.value.kind is FailureKind.LOST


def test_a_writer_of_an_older_attempt_is_fenced(settings: ClusterSettings, topic: str, owner: Owner) -> None:
    late = writer_of(settings, owner, topic)
    begin(owner, topic)
    rows = rows_of(50)
    late.write(rows, nodes_of(rows, 2), *hashes_of(rows))
    with pytest.raises(FencedError, match=f"exchange {NAME!r}"):
        late.finish()


def test_a_writer_that_was_stopped_sends_nothing_more(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    rows = rows_of(50)
    writer = writer_of(settings, owner, topic)
    writer.write(rows, nodes_of(rows, 2), *hashes_of(rows))
    writer.abort()
    with pytest.raises(StepFailedError, match="told to stop"):
        writer.finish()
    owner.end(commit=True)
    assert consume(settings, topic) == []


def delete_before(settings: ClusterSettings, topic: str, offset: int) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    for done in admin.delete_records([TopicPartition(topic, 0, offset)]).values():
        done.result(HANG_S)


@pytest.mark.parametrize("committed", [False, True])
def test_what_was_deleted_is_missed_by_name(
    settings: ClusterSettings, topic: str, owner: Owner, committed: bool
) -> None:
    piece = send(settings, owner, topic, rows_of(400))
    owner.end(commit=True)
    delete_before(settings, topic, piece.to)
    said = (
        rf"exchange '{NAME}', topic '{topic}', partition 0: offsets 0 to \d+ are wanted, but only {piece.to} to \d+ are "
        r"there\. .* retention\.ms and retention\.bytes of the topic to -1\. Whoever begins with a checkpoint"
    )
    kind: type[Exception] = InputGoneError if committed else StepFailedError
    with pytest.raises(kind, match=said) as caught:
        read(settings, topic, runs_for(0, piece)[:1], sent_by(owner, 0, committed=committed))
    assert committed or caught.value.kind is FailureKind.LOST  # type: ignore[attr-defined]


def test_a_topic_that_is_gone_or_another_one_is_said(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    piece = send(settings, owner, topic, rows_of(20))
    owner.end(commit=True)
    runs = runs_for(0, piece)[:1]
    other = ExchangeReader(settings, NAME, topic, topic_id_text(uuid.uuid4()), SCHEMA)
    sent = Sent(1, 0, *owner.producer, committed=True)
    with pytest.raises(InputGoneError, match="the topic was deleted and recreated since offsets 0 to"):
        list(other.read(runs, sent))
    known = reader_of(settings, topic)
    TopicAdmin(settings).delete(topic)
    with pytest.raises(InputGoneError, match=f"exchange '{NAME}', topic '{topic}', partition 0: .*no topic"):
        list(known.read(runs, sent))


def test_small_limits_are_the_same_rows_in_the_same_order(
    settings: ClusterSettings, topic: str, owner: Owner
) -> None:
    rows = rows_of(600)
    small = send(settings, owner, topic, rows, slot=0, limits=SMALL)
    large = send(settings, owner, topic, rows, slot=1, limits=ExchangeLimits())
    assert len(small.runs) > len(large.runs) == 2
    for node in (0, 1):
        found = [
            read(settings, topic, runs_for(node, piece), sent_by(owner, node)) for piece in (small, large)
        ]
        assert found[0] == found[1] == wanted(rows, node)
    assert digests_of(small) == digests_of(large)

"""StepConsumer gives whole committed steps, in order, from where it is asked to, and says what is missing."""

from __future__ import annotations

import random
import threading
import tracemalloc
from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import kcontrol
from kcontrol.apps.step_consumer import Step, StepConsumer
from kcontrol.apps.step_records import RECORD_BYTES, OutputRecord, StepReader, pieces
from kcontrol.apps.step_stream import StreamedStep
from kcontrol.errors import (
    ConfigurationError,
    DigestMismatchError,
    InputGoneError,
    NotFoundError,
    StepsVoidedError,
)
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.kafka.steps_maker import BASE_MS, PIPELINE, Rows, StepsMaker
from tests.support.patience import HANG_S

_WAIT_S = HANG_S
_NOTHING_COMES_S = 0.5
Headers = list[tuple[str, str | bytes | None]]
_OF_OTHERS: list[Headers | None] = [
    None,
    [("step", b"2")],
    [("step", None)],
    [("other", b"1")],
    [("step", b"1"), ("other", b"1")],
]
"""Of records that no step has written."""


@pytest.fixture
def maker(settings: ClusterSettings, topic_factory: TopicFactory) -> StepsMaker:
    return StepsMaker(settings, topic_factory)


def _outputs(number: int) -> dict[str, Rows]:
    delays = {
        partition: [b"%d-%d-%d" % (number, partition, index) for index in range(3)] for partition in (0, 1)
    }
    return {"delays": delays, "totals": {1: [b"total-%d" % number]}}


def _values(step: Step) -> dict[str, list[bytes | None]]:
    return {output: [record.value for record in records] for output, records in step.records.items()}


def _expected(number: int) -> dict[str, list[bytes]]:
    return {
        name: [value for _, values in sorted(rows.items()) for value in values]
        for name, rows in _outputs(number).items()
    }


def _take(consumer: StepConsumer, count: int) -> list[Step]:
    return [next(consumer) for _ in range(count)]


def test_committed_steps_come_whole_and_in_order_and_aborted_ones_never(maker: StepsMaker) -> None:
    boundaries = []
    for number in (1, 2, 3):
        maker.aborted(number, _outputs(100 + number))
        boundaries.append(maker.step(number, _outputs(number)))
    with kcontrol.StepConsumer(PIPELINE, maker.settings, timeout=_WAIT_S, verify_digests=True) as consumer:
        steps = _take(consumer, 3)
    assert [step.number for step in steps] == [1, 2, 3]
    assert [_values(step) for step in steps] == [_expected(number) for number in (1, 2, 3)]
    assert [step.boundary for step in steps] == boundaries
    assert [step.now_ms for step in steps] == [BASE_MS + number for number in (1, 2, 3)]


def test_records_have_their_place_and_no_header_of_kcontrol(maker: StepsMaker) -> None:
    boundary = maker.step(1, _outputs(1))
    with StepConsumer(PIPELINE, maker.settings, timeout=_WAIT_S) as consumer:
        records = next(consumer).records["delays"]
    first = next(part.from_ for part in boundary.outputs if (part.output, part.partition) == ("delays", 0))
    assert (records[0].key, records[0].partition, records[0].offset) == (b"1", 0, first)
    assert (records[0].headers, records[0].timestamp_ms) == ((), BASE_MS + 1)


@pytest.mark.parametrize(
    ("options", "first"), [({"from_step": 2}, 2), ({"after_step": 2}, 3), ({"after_step": 0}, 1), ({}, 1)]
)
def test_it_begins_where_it_is_asked_to(maker: StepsMaker, options: dict[str, int], first: int) -> None:
    for number in (1, 2, 3):
        maker.step(number, _outputs(number))
    with StepConsumer(
        PIPELINE, bootstrap_servers=None, settings=maker.settings, timeout=_WAIT_S, **options
    ) as consumer:
        assert next(consumer).number == first


def _until_some(consumer: StepConsumer) -> list[Step]:
    """Taken up again until something has come."""
    steps: list[Step] = []
    while not steps:
        steps += list(consumer)
    return steps


def test_it_waits_for_the_next_step_and_ends_after_the_timeout_to_be_taken_up_again(
    maker: StepsMaker,
) -> None:
    maker.step(1, _outputs(1))
    with StepConsumer(PIPELINE, maker.settings, timeout=_NOTHING_COMES_S) as consumer:
        steps = _until_some(consumer)
        assert list(consumer) == []
        making = threading.Timer(0.1, maker.step, (2, _outputs(2)))
        making.start()
        steps += _until_some(consumer)
        making.join()
    assert [step.number for step in steps] == [1, 2]


def test_whoever_has_a_void_step_is_told_once_and_goes_on(maker: StepsMaker) -> None:
    for number in (1, 2, 3):
        maker.step(number, _outputs(number))
    maker.reset(4, to_step=1)
    maker.step(5, _outputs(5))
    with StepConsumer(PIPELINE, maker.settings, after_step=3, timeout=_WAIT_S) as consumer:
        with pytest.raises(StepsVoidedError) as void:
            next(consumer)
        assert (void.value.first, void.value.last, void.value.next_step) == (2, 3, 5)
        step = next(consumer.streamed())
        assert (step.number, step.follows) == (5, 1)
        step.skip()
        maker.step(6, _outputs(6))
        assert next(consumer).number == 6


def test_only_the_outputs_that_are_wanted_are_read(maker: StepsMaker) -> None:
    maker.step(1, _outputs(1))
    with StepConsumer(PIPELINE, maker.settings, outputs=["totals"], timeout=_WAIT_S) as consumer:
        assert _values(next(consumer)) == {"totals": [b"total-1"]}
    with pytest.raises(NotFoundError, match="no output 'sums'; it has delays, totals"):
        StepConsumer(PIPELINE, maker.settings, outputs=["sums"])


def test_a_step_without_records_is_a_step(maker: StepsMaker) -> None:
    maker.step(1, {})
    with StepConsumer(PIPELINE, maker.settings, timeout=_WAIT_S) as consumer:
        assert next(consumer).records == {"delays": [], "totals": []}


def test_records_of_others_among_those_of_a_step_are_left_out(maker: StepsMaker) -> None:
    boundary = maker.step(1, _outputs(1))
    producer = Producer({"bootstrap.servers": maker.settings.bootstrap_servers})
    for headers in _OF_OTHERS:
        producer.produce(maker.topics["totals"], b"stranger", partition=1, headers=headers)
    assert producer.flush(_WAIT_S) == 0
    more = 1 + len(_OF_OTHERS)
    wide = [
        replace(part, to=part.to + more) if part.output == "totals" else part for part in boundary.outputs
    ]
    step = StepReader(maker.settings, maker.spec, None, verify_digests=True)
    assert _values(step.read(replace(boundary, outputs=tuple(wide)))) == _expected(1)


def test_headers_come_with_their_records_without_that_of_kcontrol(maker: StepsMaker) -> None:
    boundary = maker.step(1, _outputs(1))
    producer = Producer({"bootstrap.servers": maker.settings.bootstrap_servers})
    own: list[Headers] = [[], [("step", b"7"), ("empty", None)], [("twice", b"1"), ("twice", b"2")], []]
    for number, headers in enumerate(own):
        value, as_written = str(number).encode(), [*headers, ("step", b"1")]
        producer.produce(
            maker.topics["totals"], value, partition=1, headers=as_written, timestamp=BASE_MS + number
        )
        producer.produce(maker.topics["totals"], b"stranger", partition=1, headers=headers or None)
    assert producer.flush(_WAIT_S) == 0
    wide = tuple(
        replace(part, to=part.to + 1 + 2 * len(own), records=part.records + len(own))
        if part.output == "totals"
        else part
        for part in boundary.outputs
    )
    found = StepReader(maker.settings, maker.spec, ["totals"], verify_digests=False)
    records = found.read(replace(boundary, outputs=wide)).records["totals"][-len(own) :]
    assert [(each.value, list(each.headers), each.timestamp_ms) for each in records] == [
        (str(number).encode(), headers, BASE_MS + number) for number, headers in enumerate(own)
    ]


@pytest.mark.parametrize("change", [{"records": 2}, {"digest": "f" * 32}])
def test_what_differs_from_the_boundary_is_an_error(maker: StepsMaker, change: dict[str, object]) -> None:
    boundary = maker.step(1, _outputs(1))
    false = tuple(replace(part, **change) for part in boundary.outputs)
    reader = StepReader(maker.settings, maker.spec, None, verify_digests=True)
    with pytest.raises(
        DigestMismatchError, match="Step 1 of pipeline 'flights', output 'delays', partition 0"
    ):
        reader.read(replace(boundary, outputs=false))


_HELD_BYTES = 4 << 20


def _large(number: int) -> dict[str, Rows]:
    """About 32 MB, which don't compress."""
    of_step = random.Random(number)
    return {"delays": {partition: [of_step.randbytes(4_000) for _ in range(4_000)] for partition in (0, 1)}}


def _chunk_bytes(records: list[OutputRecord]) -> int:
    return sum(len(each.key or b"") + len(each.value or b"") + RECORD_BYTES for each in records)


def test_a_step_that_is_streamed_is_never_held_whole(maker: StepsMaker) -> None:
    rows = _large(1)["delays"]
    maker.step(1, {"delays": rows, "totals": {0: [b"end"]}})
    size = sum(len(value) for values in rows.values() for value in values)
    with StepConsumer(
        PIPELINE, maker.settings, timeout=_WAIT_S, verify_digests=False, max_bytes_held=_HELD_BYTES
    ) as consumer:
        step = next(consumer.streamed())
        in_arrow = pa.total_allocated_bytes()
        tracemalloc.start()
        try:
            tracemalloc.reset_peak()
            values: dict[str, list[int]] = {"delays": [], "totals": []}
            most, arrow = 0, 0
            for output, records in step.chunks():
                values[output] += [hash(each.value) for each in records]
                most = max(most, _chunk_bytes(records))
                arrow = max(arrow, pa.total_allocated_bytes() - in_arrow)
            peak = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        assert values["delays"] == [hash(value) for _, each in sorted(rows.items()) for value in each]
        assert values["totals"] == [hash(b"end")]
        assert most <= _HELD_BYTES // 4
        assert peak + arrow < 4 * _HELD_BYTES < size
        assert step.is_taken


def test_a_step_that_was_left_half_way_is_given_again_whole(maker: StepsMaker) -> None:
    for number in (1, 2, 3):
        maker.step(number, _outputs(number))
    with StepConsumer(PIPELINE, maker.settings, timeout=_WAIT_S, verify_digests=True) as consumer:
        steps = consumer.streamed()
        assert _streamed(next(steps)) == _expected(1)
        left = next(steps)
        chunks = left.chunks()
        assert next(chunks)[0] == "delays"
        with pytest.raises(ConfigurationError, match=r"step 2 .* was not read to its end"):
            next(steps)
        again = consumer.streamed()
        assert _streamed(next(again)) == _expected(2)
        with pytest.raises(ConfigurationError, match=r"step 2 .* can't be read on: its consumer has gone on"):
            list(chunks)
        assert not left.is_taken
        next(next(again).chunks())
        assert _values(next(consumer)) == _expected(3)
    with StepConsumer(PIPELINE, maker.settings, after_step=1, timeout=_WAIT_S) as other:
        steps = other.streamed()
        next(steps).skip()
        last = next(steps)
        assert (last.number, _streamed(last)) == (3, _expected(3))
        with pytest.raises(ConfigurationError, match="its chunks have been asked for"):
            last.chunks()


def test_a_streamed_step_in_which_something_is_wrong_is_not_taken(maker: StepsMaker) -> None:
    boundary = maker.step(1, _outputs(1))
    false = replace(boundary, outputs=tuple(replace(part, records=4) for part in boundary.outputs))
    reader = StepReader(maker.settings, maker.spec, None, verify_digests=False, max_bytes_held=_HELD_BYTES)
    taken: list[int] = []
    step = StreamedStep(reader, false, lambda: taken.append(1), follows=false.step - 1)
    with pytest.raises(
        DigestMismatchError, match="Step 1 of pipeline 'flights', output 'delays', partition 0"
    ):
        list(step.chunks())
    assert (taken, step.is_taken) == ([], False)


def test_pieces_are_cut_by_size_and_lose_no_row() -> None:
    values = [b"x" * size for size in (10, 900_000, 10, 300, 2_000_000, 0, 5)]
    batch = pa.RecordBatch.from_arrays(
        [pa.array([None] * 7, pa.binary()), pa.array(values, pa.binary())], ["key", "value"]
    )
    cut = list(pieces(batch, 1_000_000))
    assert [value for piece in cut for value in piece.column(1).to_pylist()] == values
    assert [piece.num_rows for piece in cut] == [4, 1, 2]
    assert list(pieces(batch, None)) == [batch]


def test_a_bound_that_is_too_small_is_refused(maker: StepsMaker) -> None:
    with pytest.raises(ConfigurationError, match="max_bytes_held is 1000; give 65536 or more"):
        StepConsumer(PIPELINE, maker.settings, max_bytes_held=1_000)


def _streamed(step: StreamedStep) -> dict[str, list[bytes | None]]:
    found: dict[str, list[bytes | None]] = {"delays": [], "totals": []}
    for output, records in step.chunks():
        found[output] += [each.value for each in records]
    return found


def _expire(maker: StepsMaker, topic: str, partition: int, before: int) -> None:
    admin = AdminClient({"bootstrap.servers": maker.settings.bootstrap_servers})
    where = TopicPartition(topic, partition, before)
    admin.delete_records([where])[where].result(_WAIT_S)


def test_outputs_that_have_expired_are_named(maker: StepsMaker) -> None:
    maker.step(1, _outputs(1))
    maker.step(2, _outputs(2))
    _expire(maker, maker.topics["delays"], 0, 2)
    with (
        StepConsumer(PIPELINE, maker.settings, timeout=_WAIT_S) as consumer,
        pytest.raises(InputGoneError, match="Step 1 of pipeline 'flights', output 'delays', partition 0"),
    ):
        next(consumer)
    with StepConsumer(PIPELINE, maker.settings, after_step=1, timeout=_WAIT_S) as consumer:
        assert _values(next(consumer)) == _expected(2)


def test_a_step_that_is_no_longer_in_the_log_is_named_with_the_oldest_one(maker: StepsMaker) -> None:
    maker.step(2, _outputs(2))
    with (
        StepConsumer(PIPELINE, maker.settings, from_step=1, timeout=_WAIT_S) as consumer,
        pytest.raises(InputGoneError, match=r"Step 1 .* oldest is 2"),
    ):
        next(consumer)


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda settings: StepConsumer("nobody", settings), NotFoundError),
        (lambda settings: StepConsumer(PIPELINE, settings, from_step=1, after_step=1), ConfigurationError),
        (lambda settings: StepConsumer(PIPELINE, settings, from_step=0), ConfigurationError),
        (
            lambda settings: StepConsumer(PIPELINE, settings, bootstrap_servers="127.0.0.1:1"),
            ConfigurationError,
        ),
    ],
)
def test_what_cant_be_is_an_error_at_once(
    maker: StepsMaker, make: Callable[[ClusterSettings], StepConsumer], error: type[Exception]
) -> None:
    with pytest.raises(error):
        make(maker.settings)

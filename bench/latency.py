"""End to end: from a producer's clock just before it sends a record to a read_committed
consumer's just after it has it.

A steady stream goes through a pipeline that makes a step as soon as anything is there, so that latency is
what is left of the step before, the step, and its commit: one without state, and a running count by key, of
which every record makes its key's row anew. The same producer and consumer without a pipeline between them are
measured first: what they and the broker take is in every figure.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from statistics import median

from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition

from bench.figures import Spread, Tail
from bench.kcontrol_side import measured_steps
from bench.phases import Phases, phases
from bench.plan import Places, Stream
from bench.running import running
from bench.topics import VALUE_BYTES, create_topics
from examples.processes import now_ms
from examples.step_feed import Boundary

PARTITIONS = CORES = 2
MAX_STEP_RECORDS = 100_000
WORKLOADS = ("passthrough", "aggregate")
KEYS = 1_000
"""Each record has the key after that of the one before it: a step of fewer records has none twice."""
ARRIVAL_S = 60.0
"""For everything that was sent to arrive, after the last of it was sent."""
POLL_S = 0.1
NUMBER_DIGITS = 12


@dataclass(frozen=True)
class Latency:
    """Of one workload, in milliseconds, of every record that was sent in the measured time. direct: without a
    pipeline.

    steps, step_records, step_ms: those that were committed in that time, their median size,
    and from boundary to boundary.
    """

    workload: str
    records_per_s: int
    piped: Tail
    direct: Tail
    steps: int
    step_records: float
    step_ms: Spread
    phases: tuple[Phases, ...]


class Sender:
    """Sends numbered records at a steady rate from a thread of its own, each to one partition after the
    other."""

    def __init__(self, bootstrap_servers: str, topic: str, records_per_s: int) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 3,
            }
        )
        self._topic, self._records_per_s = topic, records_per_s
        self._stopping = threading.Event()
        self._failure: list[object] = []
        self._thread = threading.Thread(target=self._send, name="sender", daemon=True)
        self.sent_ns: list[int] = []
        """By number of the record: this process's clock just before it was handed to the producer."""

    def send(self) -> None:
        """One record, at once. Not while the thread sends."""
        number = len(self.sent_ns)
        value = (b"%0*d" % (NUMBER_DIGITS, number)).ljust(VALUE_BYTES, b".")
        self.sent_ns.append(time.monotonic_ns())
        key = b"%d" % (number % KEYS)
        self._producer.produce(self._topic, value, key, number % PARTITIONS, on_delivery=self._delivered)
        self._producer.poll(0)

    def start(self) -> None:
        """Begin to send steadily."""
        self._thread.start()

    def stop(self) -> None:
        """Raises KafkaException unless all that was sent is acknowledged."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        left = self._producer.flush(ARRIVAL_S)
        if self._failure or left:
            raise KafkaException(
                self._failure[0] if self._failure else f"{left} records were not acknowledged"
            )

    def _send(self) -> None:
        began_s = time.monotonic()
        for number in count():
            wait_s = began_s + number / self._records_per_s - time.monotonic()
            if self._stopping.wait(max(0.0, wait_s)):
                return
            self.send()

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self._failure.append(error)


class Receiver:
    """Reads a topic from its beginning, read_committed, and remembers when each record came.

    numbers: which records a message tells of.
    """

    def __init__(
        self, bootstrap_servers: str, topic: str, numbers: Callable[[Message], Iterable[int]]
    ) -> None:
        self._numbers = numbers
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": f"bench-{uuid.uuid4().hex[:8]}",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "log_level": 3,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])
        self.came_ns: dict[int, int] = {}
        """By number of the record."""

    def receive(self, until: Callable[[], bool]) -> None:
        """Read on until `until` holds; it is asked after every record and every `POLL_S`.

        Raises RuntimeError for a record that comes twice.
        """
        while not until():
            message = self._consumer.poll(POLL_S)
            if message is None:
                continue
            if message.error() is not None:
                raise KafkaException(message.error())
            at_ns = time.monotonic_ns()
            for number in self._numbers(message):
                if self.came_ns.setdefault(number, at_ns) != at_ns:
                    raise RuntimeError(f"record {number} came twice")

    def close(self) -> None:
        self._consumer.close()


def copied(message: Message) -> list[int]:
    """Of a record as it was sent."""
    return [int(_bytes(message.value())[:NUMBER_DIGITS])]


class Counted:
    """Of a key's count, which comes with each step that has touched the key: the records that were counted since
    the last one."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def __call__(self, message: Message) -> range:
        key, count = int(_bytes(message.key())), int(_bytes(message.value()).partition(b",")[0])
        before = self._counts.get(key, 0)
        self._counts[key] = count
        return range(key + before * KEYS, key + count * KEYS, KEYS)


def _bytes(part: str | bytes | None) -> bytes:
    if not isinstance(part, bytes):
        raise RuntimeError(f"a record of another kind: {part!r}")
    return part


@dataclass(frozen=True)
class Interval:
    """What was sent in an interval of this machine's clock, and how long each record
    took to arrive, in milliseconds."""

    begin_ms: float
    end_ms: float
    took: Tail


def measure_latency(bootstrap_servers: str, stream: Stream, say: Callable[[str], None]) -> list[Latency]:
    """First without a pipeline, then with each. Raises RuntimeError when a record is lost or comes twice."""
    topic = "direct"
    create_topics(bootstrap_servers, topic, partitions=PARTITIONS)
    with streaming(bootstrap_servers, topic, topic, stream, copied) as (sender, receiver):
        sender.start()
        direct = measure_interval(sender, receiver, stream.warm_up_s / 4, stream.measured_s / 4)
    say(f"without a pipeline: {direct.took.median:.1f} ms, 99 % within {direct.took.p99:.1f} ms")
    found = []
    for workload in WORKLOADS:
        found.append(_piped(bootstrap_servers, workload, stream, direct))
        tail = found[-1].piped
        say(f"{workload}: {tail.median:.1f} ms, 99 % within {tail.p99:.1f} ms")
    return found


def _piped(bootstrap_servers: str, workload: str, stream: Stream, direct: Interval) -> Latency:
    interval, steps = through_pipeline(bootstrap_servers, workload, stream)
    return latency(workload, stream.records_per_s, interval, direct, steps)


def through_pipeline(
    bootstrap_servers: str, workload: str, stream: Stream
) -> tuple[Interval, list[Boundary]]:
    """Through a pipeline with topics of its own, and all steps that it made."""
    name = f"bench-latency-{uuid.uuid4().hex[:8]}"
    source = f"{name}-source"
    places = Places(bootstrap_servers, source, PARTITIONS, CORES)
    create_topics(bootstrap_servers, source, name, partitions=PARTITIONS)
    with running(places, name, workload, MAX_STEP_RECORDS, min_records=1) as pipeline:
        with streaming(bootstrap_servers, source, name, stream, numbers_of(workload)) as (sender, receiver):
            # The first step waits for Spark to start and takes long: no stream shall pile up before it.
            sender.send()
            pipeline.await_steps(bool, "1")
            sender.start()
            interval = measure_interval(sender, receiver, stream.warm_up_s, stream.measured_s)
        pipeline.stop()
        return interval, pipeline.feed.steps


def numbers_of(workload: str) -> Callable[[Message], Iterable[int]]:
    """What tells, of a message of this workload's output, which records it is made of."""
    return Counted() if workload == "aggregate" else copied


@contextmanager
def streaming(
    bootstrap_servers: str,
    source: str,
    sink: str,
    stream: Stream,
    numbers: Callable[[Message], Iterable[int]],
) -> Iterator[tuple[Sender, Receiver]]:
    """A stream into one topic, and who reads what comes of it out of another."""
    sender, receiver = (
        Sender(bootstrap_servers, source, stream.records_per_s),
        Receiver(bootstrap_servers, sink, numbers),
    )
    try:
        yield sender, receiver
    finally:
        sender.stop()
        receiver.close()


def measure_interval(sender: Sender, receiver: Receiver, warm_up_s: float, measured_s: float) -> Interval:
    """Of a sender that has been started: every record that it sends after the warm-up, for so long."""
    _receive_for(receiver, warm_up_s)
    first, begin_ms = len(sender.sent_ns), now_ms()
    _receive_for(receiver, measured_s)
    last, end_ms = len(sender.sent_ns), now_ms()
    deadline = time.monotonic() + ARRIVAL_S
    missing = [number for number in range(first, last) if number not in receiver.came_ns]

    def all_came() -> bool:
        """One step's records come by partition, so the last number may well come before others."""
        while missing and missing[-1] in receiver.came_ns:
            missing.pop()
        return not missing

    receiver.receive(lambda: all_came() or time.monotonic() > deadline)
    return Interval(
        begin_ms, end_ms, Tail.of(delays_ms(sender.sent_ns, receiver.came_ns, range(first, last)))
    )


def _receive_for(receiver: Receiver, seconds: float) -> None:
    end = time.monotonic() + seconds
    receiver.receive(lambda: time.monotonic() >= end)


def delays_ms(sent_ns: Sequence[int], came_ns: Mapping[int, int], numbers: range) -> list[float]:
    """Of each record from its sending to its arrival. Raises RuntimeError unless all have come."""
    missing = sum(number not in came_ns for number in numbers)
    if missing:
        raise RuntimeError(
            f"{missing} of the records {numbers.start} to {numbers.stop - 1} have not come in "
            f"{ARRIVAL_S:.0f} s"
        )
    return [(came_ns[number] - sent_ns[number]) / 1e6 for number in numbers]


def latency(
    workload: str, records_per_s: int, piped: Interval, direct: Interval, steps: Sequence[Boundary]
) -> Latency:
    """steps: all of the log; those that were committed in the interval of the pipeline count."""
    within = [step["step"] for step in steps[1:] if piped.begin_ms <= step["committed_ms"] <= piped.end_ms]
    measured = [
        each
        for step, each in zip(steps[1:], measured_steps(steps), strict=True)
        if step["step"] in set(within)
    ]
    if not measured:
        raise RuntimeError(
            "no step was committed in the measured time: this machine is too busy for the stream"
        )
    return Latency(
        workload,
        records_per_s,
        piped.took,
        direct.took,
        len(within),
        median(each.records for each in measured),
        Spread.of(each.period_ms for each in measured),
        tuple(each for each in phases(steps) if each.step in set(within)),
    )

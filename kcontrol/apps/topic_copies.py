"""The records of a replay to other topics, with the keys, headers and times that they had.

The producer is idempotent but there is no transaction: a replay that fails half-way leaves what it has
written, and one that is done again writes it again. So never to a topic from which anybody expects each step
once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.client.codes import DENIED_CODES
from kcontrol.adapters.kafka.client.options import confluent_options
from kcontrol.adapters.kafka.client.rights import Operation, denied
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.write.writer import STEP_HEADER
from kcontrol.apps.specs import all_specs
from kcontrol.core.model import PipelineSpec
from kcontrol.errors import ClusterError, ConfigurationError, NotFoundError, TopicError
from kcontrol.replay.delivery import ReplayedRecord, ReplayedStep
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.murmur2 import partition_of
from kcontrol.wire.names import Names

_MAX_RECORD_BYTES = 1_000_000_000
"""librdkafka's own limit is switched off: the topic says what it takes."""

_POLL_S = 0.1
_ABOUT_THE_TOPIC = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    }
)


@dataclass(frozen=True, slots=True)
class CopyLimits:
    """buffer_bytes: sent or waiting, not acknowledged. deadline_ms: a record that is not
    acknowledged by then has failed."""

    buffer_bytes: int = 32 << 20
    deadline_ms: int = 30_000


@dataclass(frozen=True, slots=True)
class CopyTopic:
    """An existing topic that takes the records of one output."""

    name: str
    partitions: int


async def open_copies(
    settings: ClusterSettings, spec: PipelineSpec, wanted: Mapping[str, str]
) -> TopicCopies:
    """The destination that writes each output in `wanted` to the topic beside it.

    Raises NotFoundError for an output that the pipeline doesn't have, ConfigurationError for a topic that is
    somebody's output or log, TopicError for one that isn't there.
    """
    check_copies(wanted, spec, (await all_specs(settings)).values(), settings.names())
    admin = TopicAdmin(settings)
    topics = {}
    for output, name in wanted.items():
        found = await asyncio.to_thread(admin.get, name, f"--topic {output}={name}", (Operation.WRITE,))
        topics[output] = CopyTopic(name, found.partitions)
    return TopicCopies(settings, topics)


def check_copies(
    wanted: Mapping[str, str], spec: PipelineSpec, specs: Collection[PipelineSpec], names: Names
) -> None:
    """Refuse what a replay may not write to. See `open_copies`; `specs` are those of all pipelines."""
    known = [output.name for output in spec.outputs]
    taken = {names.control_topic(): "the control topic"}
    for each in specs:
        taken[names.steps_topic(each.pipeline)] = f"the steps topic of pipeline {each.pipeline!r}"
        taken |= {
            output.topic: f"output {output.name!r} of pipeline {each.pipeline!r}" for output in each.outputs
        }
    for output, topic in wanted.items():
        if output not in known:
            raise NotFoundError(
                f"--topic {output}={topic}: pipeline {spec.pipeline!r} has no output {output!r}; it has "
                f"{', '.join(known)}"
            )
        if topic in taken:
            raise ConfigurationError(
                f"--topic {output}={topic}: the topic is {taken[topic]}, whose readers expect each step "
                "once; a replay writes outside of the steps' transactions, so give it a topic of its own"
            )


def partition_for(record: ReplayedRecord, recorded_count: int, count: int) -> int:
    """The partition of a topic with `count` partitions: its own if the output had as many, else by its key as
    Kafka's clients do, else its own modulo the count."""
    if count != recorded_count and record.key is not None:
        return partition_of(record.key, count)
    return record.partition % count


class TopicCopies:
    """A destination of topics, by output; records of other outputs are passed over."""

    def __init__(
        self, settings: ClusterSettings, topics: Mapping[str, CopyTopic], limits: CopyLimits | None = None
    ) -> None:
        limits = limits or CopyLimits()
        self._settings = settings
        self._topics = topics
        self._deadline_s = limits.deadline_ms / 1000
        self._error: tuple[str, KafkaError] | None = None
        options = {
            "enable.idempotence": True,
            "acks": "all",
            "delivery.timeout.ms": limits.deadline_ms,
            "message.max.bytes": _MAX_RECORD_BYTES,
            "queue.buffering.max.kbytes": max(1, limits.buffer_bytes >> 10),
            "log_level": 0,
        }
        self._producer: Any = Producer({**confluent_options(settings), **options})

    def deliver(self, step: ReplayedStep) -> int:
        """Write the records of one step and wait until all are acknowledged; none is left out.

        Raises TopicError, AccessError or ClusterError naming the first record that failed;
        what was written before stays.
        """
        boundary = step.boundary
        counts = {layout.output: layout.partitions for layout in boundary.layout.outputs}
        where = f"step {boundary.step}"
        for record in step.records:
            if (topic := self._topics.get(record.output)) is not None:
                partition = partition_for(record, counts[record.output], topic.partitions)
                where = (
                    f"step {boundary.step}, output {record.output!r} to topic {topic.name!r}, partition "
                    f"{partition}"
                )
                headers = [*record.headers, (STEP_HEADER, str(boundary.step).encode())]
                self._produce(where, topic.name, partition, record, headers, boundary.now_ms)
        waiting = self._producer.flush(self._deadline_s)
        self._check(where)
        if waiting:
            raise ClusterError(
                f"{where}: {waiting} records were not acknowledged within {self._deadline_s:g} s."
            )
        return 0

    def close(self) -> None:
        """Drop what was not acknowledged."""
        self._producer.purge()
        self._producer.flush(self._deadline_s)

    def _produce(
        self,
        where: str,
        topic: str,
        partition: int,
        record: ReplayedRecord,
        headers: list[tuple[str, bytes | None]],
        at_ms: int,
    ) -> None:
        deadline = time.monotonic() + self._deadline_s
        while True:
            try:
                self._producer.produce(
                    topic,
                    record.value,
                    record.key,
                    partition,
                    self._acknowledged,
                    timestamp=at_ms,
                    headers=headers,
                )
                break
            except BufferError:
                self._producer.poll(_POLL_S)
                self._check(where)
                if time.monotonic() > deadline:
                    raise ClusterError(
                        f"{where}: Kafka has accepted nothing for {self._deadline_s:g} s."
                    ) from None
            except KafkaException as error:
                raise self._refused(where, topic, error.args[0]) from error
        self._producer.poll(0)
        self._check(where)

    def _acknowledged(self, error: KafkaError | None, message: Any) -> None:
        if error is not None and self._error is None:
            self._error = (message.topic(), error)

    def _check(self, where: str) -> None:
        if self._error is not None:
            raise self._refused(where, *self._error)

    def _refused(self, where: str, topic: str, error: KafkaError) -> ClusterError:
        if error.code() in DENIED_CODES:
            return denied(self._settings, topic_right(topic, Operation.WRITE), f"{where}, or just before")
        return _refused(where, error)


def _refused(where: str, error: KafkaError) -> ClusterError:
    kind = TopicError if error.code() in _ABOUT_THE_TOPIC else ClusterError
    return kind(
        f"{where}, or just before: a record could not be written: {error.str()}. What is there already stays."
    )

"""Completion: whether an input record is in a committed step, for whoever has produced it.

A completion token is text: `TOPIC:PARTITION:OFFSET`, or `TOPIC@TOPIC_ID:PARTITION:OFFSET` if the topic's id
is known, which tells a topic that was recreated from the one before; several of them are joined by commas. It
holds nothing but where the record is, so it is valid for as long as topic and pipeline are, whoever restarts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from kcontrol.core.model import InputSpec
from kcontrol.core.step.offsets import first_offset, next_offset
from kcontrol.errors import ConfigurationError, NotFoundError
from kcontrol.views.pipeline_projection import PipelineProjection
from kcontrol.wire.names import check_topic_name

MAX_TOKEN_RECORDS = 1_000
"""Records in one token."""

_MAX_OFFSET = 2**63 - 1
_MAX_PARTITION = 2**31 - 1


@dataclass(frozen=True, slots=True)
class InputRecord:
    """Where a record is. `topic_id` is '' if it is not known."""

    topic: str
    partition: int
    offset: int
    topic_id: str = ""

    def __str__(self) -> str:
        return f"{self.topic}{'@' * bool(self.topic_id)}{self.topic_id}:{self.partition}:{self.offset}"


class CompletionState(StrEnum):
    """Of one record and one input."""

    COMMITTED = "committed"
    WAITING = "waiting"
    NOT_READ = "not read"
    """The pipeline began after it, and will never read it."""
    SKIPPED = "skipped"
    """A user has had the pipeline go past it, and it will never be read; `step` is the one that did."""
    ABORTED = "aborted"
    """A step has passed it: the transaction of its producer was aborted."""
    NO_RECORD = "no record"
    """The offset is that of a marker that ends a transaction."""
    GONE = "gone"
    """A step has passed it, and Kafka does not have it any more: compacted, or deleted."""
    BAD = "bad record"
    """The step that read it left it out, because it could not be parsed."""


NEVER_READ = {
    CompletionState.NOT_READ: "the pipeline began after it, and will never read it",
    CompletionState.ABORTED: "its producer's transaction was aborted, and it was never read",
    CompletionState.NO_RECORD: "it is no record, but the marker that ends a transaction",
    CompletionState.GONE: "it was compacted away or deleted in Kafka",
    CompletionState.BAD: "it could not be parsed, and was left out of its step",
}
"""What a state that is no other's cause means, as a sentence for people."""


@dataclass(frozen=True, slots=True)
class Completion:
    """Of one record for one input that reads its topic. `step` is the one that has read it: None while it
    waits, and if that step is not known any more, because it was dropped from the log (or lies before what
    was read of it)."""

    record: InputRecord
    input: str
    state: CompletionState
    step: int | None
    note: str = ""
    """What can't be told, see fates.py."""


def completion_token(*delivered: Any, topic_ids: Mapping[str, str] | None = None) -> str:
    """The token of records that were acknowledged: what a producer of confluent-kafka hands to its delivery
    callback (a `Message`), or what aiokafka's `send_and_wait` returns (`RecordMetadata`).

    topic_ids: by topic, Kafka's ids of them, if they are known. Raises ConfigurationError for
    what is no acknowledged record.
    """
    records = [_where(each) for each in delivered]
    ids = topic_ids or {}
    return ",".join(
        str(InputRecord(topic, part, offset, ids.get(topic, ""))) for topic, part, offset in records
    )


def _where(delivered: Any) -> tuple[str, int, int]:
    values = [getattr(delivered, name, None) for name in ("topic", "partition", "offset")]
    topic, partition, offset = (value() if callable(value) else value for value in values)
    if (
        not isinstance(topic, str)
        or not isinstance(partition, int)
        or not isinstance(offset, int)
        or offset < 0
    ):
        raise ConfigurationError(
            f"{type(delivered).__name__} is no acknowledged record: give the message of a delivery "
            "callback, or RecordMetadata"
        )
    return topic, partition, offset


def parse_token(text: str) -> tuple[InputRecord, ...]:
    """The records of a token. Raises ConfigurationError naming the part that is wrong."""
    parts = text.split(",")
    if len(parts) > MAX_TOKEN_RECORDS:
        raise ConfigurationError(
            f"a completion token of {len(parts)} records: at most {MAX_TOKEN_RECORDS} are allowed"
        )
    return tuple(_parse(part.strip()) for part in parts)


def _parse(part: str) -> InputRecord:
    place, _, offset = part.rpartition(":")
    name, _, partition = place.rpartition(":")
    topic, _, topic_id = name.partition("@")
    if not _is_number(partition, _MAX_PARTITION) or not _is_number(offset, _MAX_OFFSET):
        raise ConfigurationError(
            f"completion token {part!r}: give TOPIC:PARTITION:OFFSET, such as orders:3:1042"
        )
    return InputRecord(check_topic_name("completion token", topic), int(partition), int(offset), topic_id)


def _is_number(text: str, largest: int) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= len(str(largest)) and int(text) <= largest


def completions(projection: PipelineProjection, records: Iterable[InputRecord]) -> list[Completion]:
    """For each record and each input that reads its topic. Raises NotFoundError when none does, or there is
    no such partition, or the topic of that id is not the one that the pipeline reads."""
    return [each for record in records for each in _of_record(projection, record)]


def is_complete(found: Iterable[Completion]) -> bool:
    """Whether everything is in committed steps, or, before it is known what became of it, has been passed by
    them."""
    return all(each.state is CompletionState.COMMITTED for each in found)


def _of_record(projection: PipelineProjection, record: InputRecord) -> list[Completion]:
    spec, name = projection.spec(), projection.pipeline
    inputs = [each for each in spec.inputs if each.topic == record.topic]
    if not inputs:
        topics = ", ".join(sorted({each.topic for each in spec.inputs}))
        raise NotFoundError(
            f"pipeline {name!r} has no input that reads topic {record.topic!r}; its inputs read {topics}"
        )
    found = []
    for each in inputs:
        if record.topic_id and record.topic_id != each.topic_id:
            raise NotFoundError(
                f"pipeline {name!r}, input {each.name!r}: topic {record.topic!r} has the id "
                f"{each.topic_id}, not {record.topic_id}: it was recreated, and the record is not in it"
            )
        count = len(projection.lag_of(each.name).partitions)
        if record.partition >= count:
            raise NotFoundError(
                f"pipeline {name!r}, input {each.name!r}: it reads the partitions 0 to {count - 1} of topic "
                f"{record.topic!r}, not {record.partition}"
            )
        found.append(_of_input(projection, record, each))
    return found


def _of_input(projection: PipelineProjection, record: InputRecord, item: InputSpec) -> Completion:
    if record.offset < first_offset(item, record.partition):
        return Completion(record, item.name, CompletionState.NOT_READ, None)
    if record.offset >= next_offset(projection.committed, item, record.partition):
        return Completion(record, item.name, CompletionState.WAITING, None)
    where = (item.name, record.partition, record.offset)
    if (skipper := projection.index.skipper_of(*where)) is not None:
        return Completion(record, item.name, CompletionState.SKIPPED, skipper)
    return Completion(record, item.name, CompletionState.COMMITTED, projection.index.reader_of(*where))

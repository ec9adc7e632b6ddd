"""Where a delivery stands whose target can't hold that: the committed offset of a consumer group, with a text beside it.
Who has the delivery is the one member of the group that has the partition of the log of steps.

The offset is counted in steps: the number of the next one. Nothing is fetched: the partition is paused as soon as it is
had.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import confluent_kafka
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from kcontrol.adapters.kafka.admin.group_offsets import GroupOffsets
from kcontrol.adapters.kafka.client.options import confluent_options
from kcontrol.core.step.following import Applied
from kcontrol.errors import ClusterError, ReplacedError, TargetAwayError
from kcontrol.settings.cluster import ClusterSettings

TIMEOUT_S = 10.0
_TAKE_S = 1.0
_LEAST_SESSION_MS = 6_000
"""What brokers take at least (`group.min.session.timeout.ms`)."""
_TRIES = 20
_TRY_AGAIN_S = 0.5
_NOTHING = -1
_REPLACED = frozenset(
    {
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.FENCED_INSTANCE_ID,
        # librdkafka's own: this member has lost what it had, or is none any more.
        KafkaError._STATE,  # noqa: SLF001
        KafkaError._MAX_POLL_EXCEEDED,  # noqa: SLF001
        KafkaError._ASSIGNMENT_LOST,  # noqa: SLF001
    }
)


class GroupStanding:
    """Of the delivery of an output to a target of this name. All methods raise TargetAwayError."""

    def __init__(
        self, settings: ClusterSettings, pipeline: str, output: str, target: str, silence_s: float
    ) -> None:
        """silence_s: after so long without a sign of life another member has the delivery; 6 s at least."""
        names = settings.names()
        self._options = confluent_options(settings)
        self._topic = names.steps_topic(pipeline)
        self._group = names.standing_group(pipeline, output, target)
        self._silence_ms = max(_LEAST_SESSION_MS, int(silence_s * 1000))
        self._what = f"group {self._group!r}"
        self._offsets = GroupOffsets(settings, self._topic)
        self._consumer: Any = None
        self._has = False

    def open(self) -> None:
        """Become a member, if it is none yet."""
        if self._consumer is not None:
            return
        consumer = confluent_kafka.Consumer(
            {
                **self._options,
                "group.id": self._group,
                "enable.auto.commit": False,
                "partition.assignment.strategy": "cooperative-sticky",
                "session.timeout.ms": self._silence_ms,
                # A process that hangs says nothing, while its library's thread goes on.
                "max.poll.interval.ms": self._silence_ms,
                "log_level": 0,
            }
        )
        consumer.subscribe(
            [self._topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._revoked
        )
        self._consumer = consumer

    def close(self) -> None:
        """Leave, so that another has the delivery at once. Raises nothing."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer, self._has = None, False

    def read(self) -> Applied | None:
        """What was written last; None: nothing, or it is not kept any more. Old, perhaps, unless this process has the
        delivery: a broker may answer that has coordinated the group before. Then the member's own coordinator is asked, too,
        which has had the group's replicas write down that it has the delivery, so it knows all that was written by then."""
        try:
            told = self._offsets.read(self._group)
        except ClusterError as error:
            raise TargetAwayError(f"{self._what}: where the delivery stands is not known: {error}") from error
        if self._has and (_NOTHING if told is None else told.offset) != self._own_offset():
            raise TargetAwayError(f"{self._what}: what a broker says of where the delivery stands is old")
        return Applied(**json.loads(told.text)) if told is not None and told.text else None

    def _own_offset(self) -> int:
        try:
            (place,) = self._consumer.committed([TopicPartition(self._topic, 0)], TIMEOUT_S)
        except KafkaException as error:
            raise TargetAwayError(f"{self._what}: where the delivery stands is not known: {error}") from error
        if place.error is not None:
            raise TargetAwayError(f"{self._what}: where the delivery stands is not known: {place.error}")
        return max(int(place.offset), _NOTHING)

    def take(self) -> bool:
        """Whether the delivery is this process's now."""
        self._poll(_TAKE_S)
        return self._has

    def beat(self) -> None:
        """Say that this is at work. Raises ReplacedError."""
        self._poll(0)
        if not self._has:
            raise self._replaced()

    def write(self, applied: Applied) -> None:
        """Raises ReplacedError."""
        for left in reversed(range(_TRIES)):
            self.beat()
            try:
                self._consumer.commit(offsets=[self._place(applied)], asynchronous=False)
            except KafkaException as error:
                cause = error.args[0]
                if cause.code() in _REPLACED:
                    raise self._replaced() from error
                # Another process has joined, or left: the group is put in order, and this keeps what it has.
                if cause.code() == KafkaError.REBALANCE_IN_PROGRESS and left:
                    self._poll(_TRY_AGAIN_S)
                    continue
                raise TargetAwayError(
                    f"{self._what}: step {applied.step} was not written down: {error}"
                ) from error
            else:
                return

    def _place(self, applied: Applied) -> TopicPartition:
        return TopicPartition(self._topic, 0, applied.step + 1, metadata=json.dumps(asdict(applied)))

    def _poll(self, timeout_s: float) -> None:
        if self._consumer is None:
            raise TargetAwayError(f"{self._what}: not a member")
        message = self._consumer.poll(timeout_s)
        error = None if message is None else message.error()
        if error is not None and error.code() in _REPLACED:
            self._has = False
        elif error is not None and error.fatal():
            raise TargetAwayError(f"{self._what}: {error}")

    def _replaced(self) -> ReplacedError:
        self._has = False
        return ReplacedError(f"{self._what}: another process has taken this delivery over")

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        for each in partitions:
            each.offset = confluent_kafka.OFFSET_END
        consumer.incremental_assign(partitions)
        consumer.pause(partitions)
        self._has = self._has or bool(partitions)

    def _revoked(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        consumer.incremental_unassign(partitions)
        self._has = self._has and not partitions

"""What deliveries tell of themselves: the committed offset of a consumer group each, which nobody is a member of, with a text
beside it. For showing alone: nothing is decided by it.

The offset is that of the log of steps, counted in steps: the number of the next one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import confluent_kafka.admin as _kafka
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from kcontrol.adapters.kafka.client.codes import DENIED_CODES
from kcontrol.adapters.kafka.client.options import confluent_options
from kcontrol.errors import AccessError, ClusterError
from kcontrol.settings.cluster import ClusterSettings

TIMEOUT_S = 10.0
_OVER_S = 2 * TIMEOUT_S
"""A client must not be let go while it still waits for an answer: librdkafka ends such requests after TIMEOUT_S."""
MAX_REASON = 500


@dataclass(frozen=True, slots=True)
class ToldDelivery:
    """A delivery as it was at `at_ms`, by its own clock. step: the last one in the target; -1: not known."""

    output: str
    target: str
    kind: str
    guarantee: str
    state: str
    step: int
    lag_s: float
    reason: str
    at_ms: int


class DeliveryNotes:
    """Of one pipeline. All methods raise ClusterError; `read` raises AccessError where that is why."""

    def __init__(self, settings: ClusterSettings, pipeline: str) -> None:
        self._admin: Any = _kafka.AdminClient({**confluent_options(settings), "log_level": 0})
        self._names, self._pipeline = settings.names(), pipeline
        self._topic = self._names.steps_topic(pipeline)

    def tell(self, told: ToldDelivery) -> None:
        """In place of what was told before."""
        group = self._names.delivery_group(self._pipeline, f"{told.output}.{told.target}")
        text = json.dumps({**asdict(told), "reason": told.reason[:MAX_REASON]})
        place = TopicPartition(self._topic, 0, max(told.step + 1, 0), metadata=text)
        asked = ConsumerGroupTopicPartitions(group, [place])
        try:
            done = self._admin.alter_consumer_group_offsets([asked], request_timeout=TIMEOUT_S)[group].result(
                _OVER_S
            )
        except (KafkaException, TimeoutError) as error:
            raise ClusterError(f"group {group!r}: what the delivery tells was not taken: {error}") from error
        wrong = next((each.error for each in done.topic_partitions if each.error is not None), None)
        if wrong is not None:
            raise ClusterError(f"group {group!r}: what the delivery tells was not taken: {wrong}")

    def read(self) -> list[ToldDelivery]:
        """By output and target."""
        beginning = self._names.delivery_group(self._pipeline)
        try:
            groups = self._admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(_OVER_S).valid
            own = sorted(each.group_id for each in groups if each.group_id.startswith(beginning))
            found = [self._of(group) for group in own]
        except (KafkaException, TimeoutError) as error:
            denied = isinstance(error, KafkaException) and error.args[0].code() in DENIED_CODES
            kind = AccessError if denied else ClusterError
            raise kind(f"deliveries of pipeline {self._pipeline!r} are not known: {error}.") from error
        return [each for each in found if each is not None]

    def _of(self, group: str) -> ToldDelivery | None:
        asked = [ConsumerGroupTopicPartitions(group)]
        kept = self._admin.list_consumer_group_offsets(asked, request_timeout=TIMEOUT_S)[group].result(
            _OVER_S
        )
        text = next((each.metadata for each in kept.topic_partitions if each.topic == self._topic), None)
        try:
            return ToldDelivery(**json.loads(text)) if text else None
        except (ValueError, TypeError):
            # Of another version, or somebody else's.
            return None

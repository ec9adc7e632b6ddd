"""What deliveries tell of themselves: the committed offset of a consumer group each, which nobody is a member of, with a text
beside it. For showing alone: nothing is decided by it.

The offset is that of the log of steps, counted in steps: the number of the next one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields, replace
from typing import Any

import confluent_kafka.admin as _kafka
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException, TopicPartition

from kcontrol.adapters.kafka.client.codes import DENIED_CODES
from kcontrol.adapters.kafka.client.options import confluent_options
from kcontrol.errors import AccessError, ClusterError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.deliveries import StandsBy, ToldDelivery, with_others

TIMEOUT_S = 10.0
_OVER_S = 2 * TIMEOUT_S
"""A client must not be let go while it still waits for an answer: librdkafka ends such requests after TIMEOUT_S."""
MAX_REASON = 500
MAX_TEXT_BYTES = 4_000
"""What brokers take at least (`offset.metadata.max.bytes` is 4096)."""
_MAX_ADDRESS, _MAX_WHO = 300, 120
_AT_ONCE = 100
"""Groups that are asked for at a time."""


def notes_client(settings: ClusterSettings) -> Any:
    """To be shared by the notes of several pipelines."""
    return _kafka.AdminClient({**confluent_options(settings), "log_level": 0})


class DeliveryNotes:
    """Of one pipeline. All methods raise ClusterError; those that read raise AccessError where that is why."""

    def __init__(self, settings: ClusterSettings, pipeline: str, client: Any = None) -> None:
        """client: of `notes_client`; None: one of its own."""
        self._admin: Any = client or notes_client(settings)
        self._names, self._pipeline = settings.names(), pipeline
        self._topic = self._names.steps_topic(pipeline)

    def tell(self, mine: ToldDelivery) -> None:
        """In place of what was told before, with what other processes of the same delivery say."""
        group = self._names.delivery_group(self._pipeline, f"{mine.output}.{mine.target}")
        own = replace(mine, address=mine.address[:_MAX_ADDRESS], who=mine.who[:_MAX_WHO])
        not_taken = f"group {group!r}: what the delivery tells was not taken"
        try:
            (before,) = self._of([group])
            told = with_others(before, own)
            place = TopicPartition(self._topic, 0, max(told.step + 1, 0), metadata=_text(told))
            asked = [ConsumerGroupTopicPartitions(group, [place])]
            done = self._admin.alter_consumer_group_offsets(asked, request_timeout=TIMEOUT_S)[group].result(
                _OVER_S
            )
        except (KafkaException, TimeoutError) as error:
            raise ClusterError(f"{not_taken}: {error}") from error
        wrong = next((each.error for each in done.topic_partitions if each.error is not None), None)
        if wrong is not None:
            raise ClusterError(f"{not_taken}: {wrong}")

    def read(self) -> list[ToldDelivery]:
        """All of them, by output and target."""
        return self.look(None)[0]

    def look(self, most: int | None) -> tuple[list[ToldDelivery], int]:
        """So many of them at most, and how many were left out."""
        beginning = self._names.delivery_group(self._pipeline)
        try:
            groups = self._admin.list_consumer_groups(request_timeout=TIMEOUT_S).result(_OVER_S).valid
            own = sorted(each.group_id for each in groups if each.group_id.startswith(beginning))
            wanted = own[:most]
            found = [
                told
                for first in range(0, len(wanted), _AT_ONCE)
                for told in self._of(wanted[first : first + _AT_ONCE])
            ]
        except (KafkaException, TimeoutError) as error:
            denied = isinstance(error, KafkaException) and error.args[0].code() in DENIED_CODES
            kind = AccessError if denied else ClusterError
            raise kind(f"deliveries of pipeline {self._pipeline!r} are not known: {error}.") from error
        return [each for each in found if each is not None], len(own) - len(wanted)

    def _of(self, groups: list[str]) -> list[ToldDelivery | None]:
        """None: nothing was told, or by somebody else. Raises KafkaException or TimeoutError."""
        answers = [
            self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], request_timeout=TIMEOUT_S
            )[group]
            for group in groups
        ]
        kept = [each.result(_OVER_S).topic_partitions for each in answers]
        return [
            _told(next((each.metadata for each in places if each.topic == self._topic), None))
            for places in kept
        ]


def _text(told: ToldDelivery) -> str:
    """So that brokers take it: a reason in letters beyond ASCII is cut shorter."""
    reason = told.reason[:MAX_REASON]
    while len(text := json.dumps({**asdict(told), "reason": reason})) > MAX_TEXT_BYTES and reason:
        reason = reason[: len(reason) // 2]
    return text


def _told(text: str | None) -> ToldDelivery | None:
    """What a newer version says beside it is passed over."""
    known = {each.name for each in fields(ToldDelivery)}
    try:
        said = json.loads(text or "null")
        others = tuple(StandsBy(str(each["who"]), int(each["at_ms"])) for each in said.get("standing_by", ()))
        return ToldDelivery(**{**{name: said[name] for name in said if name in known}, "standing_by": others})
    except (ValueError, TypeError, AttributeError, KeyError):
        # Of a version that says less, or somebody else's.
        return None

"""Looks at, checks and creates topics, so that a wrong one is refused with one clear
sentence before anything is started.

Blocking calls (confluent-kafka's admin client), each with a deadline; call them in a thread from a coroutine.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass
from typing import Any

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka import admin as untyped_admin

from kcontrol.adapters.kafka.client.codes import DENIED_CODES
from kcontrol.adapters.kafka.client.options import confluent_options
from kcontrol.adapters.kafka.client.protocol import topic_id_text
from kcontrol.adapters.kafka.client.rights import Operation, Right, denied, missing, principal_of
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.adapters.kafka.client.rpc import SETTLING
from kcontrol.errors import AccessError, ClusterError, TopicError
from kcontrol.settings.cluster import ClusterSettings

TIMEOUT_S = 20.0
MAX_REPLICATION = 3
COMPACTED = "compact"

_kafka: Any = untyped_admin
"""confluent-kafka exports what is used here without types."""

UNKNOWN_TOPIC_GRACE_MS = 500
"""A topic that was made a moment ago is not known to every broker at once."""

_ANSWER_POLL_S = 0.05
_REFUSALS = frozenset({KafkaError._AUTHENTICATION, KafkaError._SSL})
_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC})


class TooFewBrokersError(TopicError):
    """A topic can't be replicated so often."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic as it is. `topic_id` as Kafka's tools show it; `replication` is that of
    its least replicated partition."""

    name: str
    topic_id: str
    partitions: int
    replication: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TopicOffsets:
    """By partition: the first offset still there, and the one after the last committed
    record (the last stable offset)."""

    earliest: tuple[int, ...]
    latest: tuple[int, ...]


class TopicAdmin:
    """What may be asked about topics of one cluster.

    All methods raise ClusterError when it can't be reached in time, and AccessError when it
    refuses us or a right is missing.
    """

    def __init__(self, settings: ClusterSettings, timeout_s: float = TIMEOUT_S) -> None:
        self._settings = settings
        self._timeout_s = timeout_s
        self._refused: KafkaError | None = None
        options = {**confluent_options(settings), "log_level": 0, "error_cb": self._note}
        self._admin: Any = _kafka.AdminClient(options)

    def find(self, name: str, needs: Sequence[Operation] = ()) -> TopicState | None:
        """The topic, or None if there is none of this name.

        needs: what else the caller is going to do with it, so that everything that is not
        granted is said at once and first.
        """
        right = topic_right(
            name, *dict.fromkeys((*(needs or (Operation.DESCRIBE,)), Operation.DESCRIBE_CONFIGS))
        )
        asked = self._admin.describe_topics(TopicCollection([name]), include_authorized_operations=True)[name]
        try:
            described = self._await(asked, f"describing topic {name!r}", right)
        except _NoSuchTopicError:
            return None
        allowed = [operation.name for operation in described.authorized_operations or ()]
        # Who may describe a topic is told of that at least; nothing at all comes from brokers that don't
        # tell.
        lacking = missing(right.operations, allowed) if allowed else ()
        if lacking:
            raise denied(self._settings, topic_right(name, *lacking))
        resource = _kafka.ConfigResource(_kafka.ResourceType.TOPIC, name)
        asked = self._admin.describe_configs([resource])[resource]
        try:
            config = self._await(
                asked,
                f"reading the settings of topic {name!r}",
                topic_right(name, Operation.DESCRIBE_CONFIGS),
            )
        except _NoSuchTopicError:
            # Another broker has answered, which does not know yet that it was made, or
            # knows already that it was deleted.
            return None
        return _state(name, described, config)

    def get(self, name: str, what: str, needs: Sequence[Operation] = ()) -> TopicState:
        """The topic that is `what` (such as "input 'flights'"). Raises TopicError if it
        isn't there. needs: see `find`."""
        state = SETTLING.within(UNKNOWN_TOPIC_GRACE_MS).poll(lambda: self.find(name, needs))
        if state is None:
            raise TopicError(
                f"{what}: there is no topic {name!r} at {self._settings.bootstrap_servers}; create it "
                f"(kafka-topics --create --topic {name} --partitions N) or correct the name."
            )
        return state

    def look(self, names: Sequence[str]) -> Mapping[str, TopicState | str | None]:
        """Topics as far as this client may see them: None for one that isn't there, for one
        that can't be seen the reason.

        Without DescribeConfigs on a topic its `config` is empty.
        """
        asked = self._admin.describe_topics(TopicCollection(list(names)))
        resources = {name: _kafka.ConfigResource(_kafka.ResourceType.TOPIC, name) for name in names}
        settings = self._admin.describe_configs(list(resources.values()))
        found: dict[str, TopicState | str | None] = {}
        for name in names:
            try:
                described = self._await(
                    asked[name], f"describing topic {name!r}", topic_right(name, Operation.DESCRIBE)
                )
            except _NoSuchTopicError:
                found[name] = None
                continue
            except AccessError as error:
                found[name] = str(error)
                continue
            right = topic_right(name, Operation.DESCRIBE_CONFIGS)
            try:
                config = self._await(
                    settings[resources[name]], f"reading the settings of topic {name!r}", right
                )
            except (AccessError, _NoSuchTopicError):
                config = {}
            found[name] = _state(name, described, config)
        return found

    def create(
        self,
        name: str,
        partitions: int,
        config_of: Callable[[int], Mapping[str, str]] = lambda _: {},
        replication: int = 0,
    ) -> TopicState:
        """Create a topic, and return it once it can be seen.

        config_of: what is set, by how many times it is replicated. replication: how many times; 0: as far as there are
        brokers, at most 3 times. A broker that is away for a while counts: it gets its replicas once it is back. One that
        another process has just created is returned as it is. Raises TooFewBrokersError.
        """
        right = topic_right(name, Operation.CREATE)
        for times in (replication,) if replication else range(MAX_REPLICATION, 0, -1):
            topic = _kafka.NewTopic(name, partitions, times, config=dict(config_of(times)))
            try:
                self._await(self._admin.create_topics([topic])[name], f"creating topic {name!r}", right)
                break
            except _TopicExistsError:
                break
            except TooFewBrokersError:
                if times in (replication, 1):
                    raise
        state = SETTLING.within(round(self._timeout_s * 1000)).poll(lambda: self.find(name))
        if state is None:
            raise ClusterError(f"Topic {name!r} was created but can't be seen after {self._timeout_s:.0f} s.")
        return state

    def grow(self, name: str, partitions: int) -> TopicState:
        """Give a topic more partitions, so many in all, and return it once they can be seen. One that another
        process has just given as many, or more, is returned as it is. Raises TopicError: there is no such topic."""
        right = topic_right(name, Operation.ALTER)
        wanted = _kafka.NewPartitions(name, partitions)
        try:
            self._await(
                self._admin.create_partitions([wanted])[name], f"adding partitions to {name!r}", right
            )
        except _TooManyError:
            pass
        except _NoSuchTopicError as error:
            raise TopicError(f"There is no topic {name!r} at {self._settings.bootstrap_servers}.") from error

        def grown() -> TopicState | None:
            state = self.find(name)
            return state if state is not None and state.partitions >= partitions else None

        found = SETTLING.within(round(self._timeout_s * 1000)).poll(grown)
        if found is None:
            raise ClusterError(
                f"Topic {name!r} was given {partitions} partitions, which can't be seen after {self._timeout_s:.0f} s."
            )
        return found

    def delete_before(self, name: str, offsets: Mapping[int, int]) -> None:
        """Delete the records of a topic that lie before an offset. offsets: by partition; what is deleted already
        is fine. Raises ClusterError where there is no such topic."""
        wanted = [TopicPartition(name, partition, offset) for partition, offset in offsets.items()]
        right = topic_right(name, Operation.DELETE)
        for future in self._admin.delete_records(wanted).values():
            try:
                self._await(future, f"deleting old records of topic {name!r}", right)
            except _NoSuchTopicError as error:
                raise TopicError(
                    f"There is no topic {name!r} at {self._settings.bootstrap_servers}."
                ) from error

    def names(self) -> list[str]:
        """Of all topics that this client may see."""
        request = self._admin.list_topics
        try:
            return sorted(request(timeout=self._timeout_s).topics)
        except KafkaException as error:
            raise self._unreachable("listing topics", error.args[0].str()) from error

    def delete(self, name: str) -> None:
        """Delete a topic with all its records, and return once it can't be seen any more;
        one that is not there is fine."""
        try:
            right = topic_right(name, Operation.DELETE)
            self._await(self._admin.delete_topics([name])[name], f"deleting topic {name!r}", right)
        except _NoSuchTopicError:
            pass
        if not SETTLING.within(round(self._timeout_s * 1000)).poll(lambda: self.find(name) is None):
            raise ClusterError(f"Topic {name!r} was deleted but can be seen after {self._timeout_s:.0f} s.")

    def offsets(self, name: str, partitions: int) -> TopicOffsets:
        """Where the topic's partitions begin and end now."""
        return TopicOffsets(
            self._offsets(name, partitions, _kafka.OffsetSpec.earliest()),
            self._offsets(name, partitions, _kafka.OffsetSpec.latest()),
        )

    def offsets_at(self, name: str, latest: Sequence[int], at_ms: int) -> tuple[int, ...]:
        """By partition: the first offset of a record as young as `at_ms`; `latest` if all are older."""
        found = self._offsets(name, len(latest), _kafka.OffsetSpec.for_timestamp(max(0, at_ms)))
        return tuple(end if offset < 0 else offset for offset, end in zip(found, latest, strict=True))

    def broker_count(self) -> int:
        return len(self._await(self._admin.describe_cluster(), "describing the cluster").nodes)

    def _offsets(self, name: str, partitions: int, spec: Any) -> tuple[int, ...]:
        wanted = {TopicPartition(name, partition): spec for partition in range(partitions)}
        asked = self._admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED)
        what, right = f"reading the offsets of topic {name!r}", topic_right(name, Operation.DESCRIBE)
        try:
            found = {key.partition: self._await(future, what, right) for key, future in asked.items()}
        except ClusterError:
            self._refuse_undescribed(name, what, right)
            raise
        return tuple(found[partition].offset for partition in range(partitions))

    def _refuse_undescribed(self, name: str, what: str, right: Right) -> None:
        """librdkafka asks for the leaders first, and of a topic that may not be described it says that there are none."""
        try:
            self._await(self._admin.describe_topics(TopicCollection([name]))[name], what, right)
        except AccessError:
            raise
        except (ClusterError, _NoSuchTopicError):
            return

    def _note(self, error: KafkaError) -> None:
        if error.code() in _REFUSALS:
            self._refused = error

    def _await(self, future: Future[Any], what: str, right: Right | None = None) -> Any:
        deadline = time.monotonic() + self._timeout_s
        while not future.done() and time.monotonic() < deadline:
            # librdkafka would try a login that was refused again until the time is over.
            if self._refused is not None:
                raise AccessError(
                    f"Kafka at {self._settings.bootstrap_servers} refuses "
                    f"{principal_of(self._settings.client).text}: {self._refused.str()}. Check the client "
                    "settings."
                )
            wait([future], _ANSWER_POLL_S)
            self._admin.poll(0)
        try:
            return future.result(0)
        except TimeoutError as error:
            raise self._unreachable(what, f"no answer within {self._timeout_s:.0f} s") from error
        except KafkaException as error:
            fault: KafkaError = error.args[0]
            if right is not None and fault.code() in DENIED_CODES:
                raise denied(self._settings, right, what) from error
            if fault.code() == KafkaError.TOPIC_EXCEPTION:
                raise TopicError(f"{what}: Kafka does not take this name: {fault.str()}") from error
            if fault.code() in _MISSING:
                raise _NoSuchTopicError from error
            if fault.code() == KafkaError.TOPIC_ALREADY_EXISTS:
                raise _TopicExistsError from error
            if fault.code() == KafkaError.INVALID_REPLICATION_FACTOR:
                raise TooFewBrokersError(f"{what}: {fault.str()}") from error
            if fault.code() == KafkaError.INVALID_PARTITIONS:
                raise _TooManyError from error
            raise self._unreachable(what, fault.str()) from error

    def _unreachable(self, what: str, why: str) -> ClusterError:
        return ClusterError(f"Kafka at {self._settings.bootstrap_servers}: {what} failed: {why}.")


def _topic_id(given: Any) -> str:
    """librdkafka shows another base64 alphabet than Kafka does."""
    high, low = (
        bits % 2**64 for bits in (given.get_most_significant_bits(), given.get_least_significant_bits())
    )
    return topic_id_text(uuid.UUID(int=high << 64 | low))


def _state(name: str, described: Any, config: Mapping[str, Any]) -> TopicState:
    return TopicState(
        name=name,
        topic_id=_topic_id(described.topic_id),
        partitions=len(described.partitions),
        replication=min(len(partition.replicas) for partition in described.partitions),
        config={entry.name: entry.value or "" for entry in config.values()},
    )


class _NoSuchTopicError(Exception):
    """Kafka's UNKNOWN_TOPIC_OR_PARTITION."""


class _TopicExistsError(Exception):
    """Kafka's TOPIC_ALREADY_EXISTS."""


class _TooManyError(Exception):
    """Kafka's INVALID_PARTITIONS: a topic has as many already, or more."""

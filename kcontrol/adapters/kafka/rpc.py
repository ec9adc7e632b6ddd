"""Requests to Kafka through aiokafka's client, with its many errors turned into the few that our callers can act on.

Used where a consumer or producer would hide what matters: exact positions, waiting fetches, and the steps of a transaction
that other processes write in.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.client import AIOKafkaClient, CoordinationType

from kcontrol.adapters.kafka.access import (
    DENIED_CODES,
    TOPIC_AUTHORIZATION_FAILED,
    Operation,
    Right,
    denied,
    transactional_id,
)
from kcontrol.adapters.kafka.access import group as group_right
from kcontrol.adapters.kafka.access import topic as topic_right
from kcontrol.adapters.kafka.clients import REQUEST_TIMEOUT_MS, aiokafka_options
from kcontrol.adapters.kafka.protocol import TopicMetadataRequest
from kcontrol.adapters.kafka.refusals import raise_if_refused
from kcontrol.errors import ClusterError, RetriableError, TopicError
from kcontrol.runtime.settings import ClusterSettings

UNKNOWN_TOPIC_GRACE_MS = 2_000
"""A topic that was made a moment ago is not known to every broker at once."""

NO_BROKERS_GRACE_MS = 2_000
"""A broker that has just started knows of none, itself neither."""

STALE_S = 15.0
"""After so long without an answer the brokers' addresses are asked for at the bootstrap address again."""

UNKNOWN_TOPIC = 3

_ASK_AGAIN_S = 0.02
_PASSING = (kafka_errors.KafkaConnectionError, kafka_errors.RequestTimedOutError, kafka_errors.CorrelationIdError, OSError)
_NOT_SENT = (kafka_errors.NodeNotReadyError, kafka_errors.StaleMetadata)
_DENIED = (kafka_errors.TransactionalIdAuthorizationFailed, kafka_errors.GroupAuthorizationFailedError)
_TOO_OLD = (NotImplementedError, kafka_errors.IncompatibleBrokerVersion)


class NotSentError(RetriableError):
    """There was no connection: the broker has not seen the request."""


class Lane(IntEnum):
    """Connections to one broker. It answers one request of a connection at a time, so what waits has its own."""

    PROMPT = 0
    WAITING = 1


@dataclass(frozen=True, slots=True)
class TopicInfo:
    """A topic as one broker knows it. By partition: `leaders` holds the node id, -1 while there is none; `epochs` its epoch."""

    name: str
    topic_id: uuid.UUID
    leaders: Mapping[int, int]
    epochs: Mapping[int, int]


class Deadline:
    """A point in time after which nobody waits any more."""

    def __init__(self, timeout_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._at = time.monotonic() + timeout_ms / 1000

    @property
    def passed(self) -> bool:
        return time.monotonic() >= self._at

    def check(self, what: str, last: object = "", kind: type[RetriableError] = RetriableError) -> None:
        """Raises `kind`, naming `what` and the `last` fault, once the time is over."""
        if self.passed:
            because = f": {last}" if last else ""
            raise kind(f"{what} did not succeed within {self._timeout_ms} ms{because}")


class KafkaRpc:
    """One aiokafka client, connected at first use.

    All methods raise RetriableError when a broker can't be reached, AccessError when it refuses the login or the certificate.
    """

    def __init__(self, settings: ClusterSettings, request_timeout_ms: int = REQUEST_TIMEOUT_MS) -> None:
        self._settings = settings
        self._options = aiokafka_options(settings, request_timeout_ms)
        self._client: Any = None
        self._answered_s = 0.0
        self._connecting = asyncio.Lock()

    async def send(self, node: int, request: Any, lane: Lane = Lane.PROMPT) -> Any:
        """The broker's response, whatever error codes are in it.

        Raises NotSentError, RetriableError when the connection broke (the broker may have seen the request), or ClusterError
        when the broker is too old for the request.
        """
        client = await self._connected()
        try:
            answer = await client.send(node, request, group=lane)
            self._answered_s = time.monotonic()
            return answer
        except _NOT_SENT as error:
            await self._forget_stale(client)
            await raise_if_refused(self._settings, self._options)
            raise NotSentError(f"Kafka at {self._settings.bootstrap_servers}: no connection to node {node}") from error
        except _PASSING as error:
            raise RetriableError(f"Kafka at {self._settings.bootstrap_servers}: {describe(error)}") from error
        except _TOO_OLD as error:
            raise ClusterError(
                f"Kafka at {self._settings.bootstrap_servers} is too old: {error}. 4.0 or newer is needed."
            ) from error

    def raise_if_denied(self, code: int, right: Right, doing: str = "") -> None:
        """Raise AccessError naming `right` if the error code says that something is not allowed. doing: see `denied`."""
        if code in DENIED_CODES:
            raise denied(self._settings, right, doing)

    async def topic(self, name: str, wanted: Operation = Operation.READ) -> TopicInfo:
        """Id and leaders of a topic. wanted: what for, should it have to be granted.

        Raises TopicError: there is no such topic. AccessError: this client may not see it.
        """
        deadline = Deadline(UNKNOWN_TOPIC_GRACE_MS)
        while True:
            code, _, topic_id, _, partitions, *_ = await self._topic_metadata(name)
            if code != UNKNOWN_TOPIC or deadline.passed:
                break
            await asyncio.sleep(_ASK_AGAIN_S)
        if code == UNKNOWN_TOPIC:
            raise TopicError(f"There is no topic {name!r} at {self._settings.bootstrap_servers}.")
        if code == TOPIC_AUTHORIZATION_FAILED:
            raise denied(self._settings, topic_right(name, wanted))
        if code:
            raise RetriableError(f"metadata of topic {name!r}: {describe_code(code)}")
        leaders = {partition: leader for _, partition, leader, *_ in partitions}
        epochs = {partition: epoch for _, partition, _, epoch, *_ in partitions}
        return TopicInfo(name, topic_id, leaders, epochs)

    async def nodes(self) -> list[int]:
        """Ids of all brokers."""
        client = await self._connected()
        return sorted(broker.nodeId for broker in client.cluster.brokers())

    async def transaction_coordinator(self, transaction: str) -> int:
        """The node that coordinates a transactional id. Raises AccessError: this client may not use the id."""
        right = transactional_id(transaction, Operation.WRITE)
        return await self._coordinator(CoordinationType.TRANSACTION, transaction, right)

    async def group_coordinator(self, group: str) -> int:
        """The node that coordinates a consumer group. Raises AccessError: this client may not use the group."""
        return await self._coordinator(CoordinationType.GROUP, group, group_right(group, Operation.READ))

    async def _coordinator(self, kind: int, key: str, right: Right) -> int:
        client = await self._connected()
        try:
            node: int = await client.coordinator_lookup(kind, key)
            await self._learn_node(client, node)
        except _NOT_SENT as error:
            await raise_if_refused(self._settings, self._options)
            raise NotSentError(f"Kafka at {self._settings.bootstrap_servers}: no connection") from error
        except _DENIED as error:
            raise denied(self._settings, right) from error
        except (*_PASSING, kafka_errors.BrokerResponseError) as error:
            raise RetriableError(f"coordinator of {right.resource}: {describe(error)}") from error
        return node

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            await client.close()

    async def _connected(self) -> Any:
        if self._client is not None:
            return self._client
        async with self._connecting:
            if self._client is None:
                self._client = await self._bootstrap()
                self._answered_s = time.monotonic()
        return self._client

    async def _bootstrap(self) -> Any:
        deadline = Deadline(NO_BROKERS_GRACE_MS)
        while True:
            client = await self._contact()
            if client.cluster.brokers():
                return client
            await client.close()
            # So it looks to aiokafka when a token was refused, too: it does not read the broker's answer to it.
            await raise_if_refused(self._settings, self._options)
            deadline.check(f"Kafka at {self._settings.bootstrap_servers}: finding its brokers", "it names none", NotSentError)
            await asyncio.sleep(_ASK_AGAIN_S)

    async def _contact(self) -> Any:
        client = AIOKafkaClient(**self._options)
        try:
            await client.bootstrap()
        except (*_PASSING, *_NOT_SENT) as error:
            await client.close()
            await raise_if_refused(self._settings, self._options)
            raise NotSentError(f"Kafka at {self._settings.bootstrap_servers} can't be reached") from error
        except BaseException:
            await client.close()
            raise
        return client

    async def _forget_stale(self, client: Any) -> None:
        """Begin again from the bootstrap address when no broker that is known has answered for long: they may have moved."""
        if client is self._client and time.monotonic() - self._answered_s > STALE_S:
            self._client = None
            await client.close()

    async def _topic_metadata(self, name: str) -> Any:
        client = await self._connected()
        node = client.get_random_node()
        if node is None:
            raise NotSentError(f"Kafka at {self._settings.bootstrap_servers} names no broker yet")
        return (await self.send(node, TopicMetadataRequest(name))).topics[0]

    async def _learn_node(self, client: Any, node: int) -> None:
        if client.cluster.broker_metadata(node) is None:
            await client.force_metadata_update()


def describe(error: BaseException) -> str:
    """One line about an error of aiokafka's: its class when it says nothing."""
    return str(error) or type(error).__name__


def describe_code(code: int) -> str:
    """Name and number of a Kafka error code."""
    kind = kafka_errors.for_code(code)
    return f"{getattr(kind, 'message', kind.__name__)} (error {code})"

"""Requests to Kafka over aiokafka's connections, with its many errors turned into the
few that our callers can act on.

Used where a consumer or producer would hide what matters: exact positions, waiting fetches, and the steps of
a transaction that other processes write in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

from aiokafka import errors as kafka_errors
from aiokafka.protocol.coordination import FindCoordinatorRequest

from kcontrol.adapters.kafka.client.codes import DENIED_CODES, ErrorCode, describe_code
from kcontrol.adapters.kafka.client.connections import Connections, Lane, NoAnswerError, NoConnectionError
from kcontrol.adapters.kafka.client.leaders import TopicInfo
from kcontrol.adapters.kafka.client.options import aiokafka_options
from kcontrol.adapters.kafka.client.protocol import TopicMetadataRequest, described
from kcontrol.adapters.kafka.client.refused import raise_if_refused
from kcontrol.adapters.kafka.client.rights import Operation, Right, denied, transactional_id
from kcontrol.adapters.kafka.client.rights import group as group_right
from kcontrol.adapters.kafka.client.rights import topic as topic_right
from kcontrol.backoff import Backoff
from kcontrol.errors import ClusterError, RetriableError, TopicError
from kcontrol.settings.cluster import ClusterSettings

SETTLING = Backoff(first_ms=2, longest_ms=100)
"""Between requests while a cluster settles: what passes at a step's begin and end, markers being written and
writers being verified, is over in milliseconds; a broker that moves or starts takes longer."""

UNKNOWN_TOPIC_GRACE_MS = 2_000
"""A topic that was made a moment ago is not known to every broker at once."""

NO_BROKERS_GRACE_MS = 2_000
"""A broker that has just started knows of none, itself neither."""

LOST_GRACE_MS = 5_000
"""A replica that is behind may take an offset for one beyond the end: only after so long are records called
lost."""

__all__ = ["LOST_GRACE_MS", "SETTLING", "KafkaRpc", "Lane", "NotSentError", "describe"]

_Answer = TypeVar("_Answer")
_GROUP, _TRANSACTION = 0, 1

_TOO_OLD = (NotImplementedError, kafka_errors.IncompatibleBrokerVersion)


class NotSentError(RetriableError):
    """There was no connection: the broker has not seen the request."""


class KafkaRpc:
    """Requests to one cluster; it connects at first use.

    All methods raise RetriableError when a broker can't be reached or does not answer in time
    (`options.Patience`), AccessError when it refuses the login or the certificate.
    """

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._connections = Connections(settings)
        self._finding = asyncio.Lock()

    async def send(self, node: int, request: Any, lane: Lane = Lane.PROMPT) -> Any:
        """The broker's response, whatever error codes are in it.

        A broker that hangs is given up after the time for an answer and that for which it may hold the answer
        back (`held_ms` of the request). Raises NotSentError, RetriableError when the connection broke or was
        given up (the broker may have seen the request), or ClusterError when the broker is too old for the
        request.
        """
        await self._found()
        return await self._asked(self._connections.send(node, request, lane, getattr(request, "held_ms", 0)))

    async def send_any(self, request: Any) -> Any:
        """The response of whichever broker answers first. Raises NotSentError, or ClusterError as `send`
        does."""
        await self._found()
        return await self._asked(self._connections.ask_any(request))

    def raise_if_denied(self, code: int, right: Right, doing: str = "") -> None:
        """Raise AccessError naming `right` if the error code says that something is not allowed. doing: see
        `denied`."""
        if code in DENIED_CODES:
            raise denied(self._settings, right, doing)

    async def topic(self, name: str, wanted: Operation = Operation.READ) -> TopicInfo:
        """Id and leaders of a topic. wanted: what for, should it have to be granted.

        Raises TopicError: there is no such topic. AccessError: this client may not see it.
        """
        tries = SETTLING.within(UNKNOWN_TOPIC_GRACE_MS).begin()
        while True:
            topic, partitions = described(await self._topic_metadata(name))
            if topic.error_code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                break
            if tries.passed:
                raise TopicError(f"There is no topic {name!r} at {self._settings.bootstrap_servers}.")
            await tries.wait()
        self.raise_if_denied(topic.error_code, topic_right(name, wanted))
        if topic.error_code:
            raise RetriableError(f"metadata of topic {name!r}: {describe_code(topic.error_code)}")
        leaders = {number: each.leader for number, each in partitions.items()}
        epochs = {number: each.leader_epoch for number, each in partitions.items()}
        return TopicInfo(name, topic.topic_id, leaders, epochs)

    async def nodes(self) -> list[int]:
        """Ids of all brokers."""
        await self._found()
        return self._connections.brokers

    async def transaction_coordinator(self, transaction: str) -> int:
        """The node that coordinates a transactional id. Raises AccessError: this client may not use the
        id."""
        right = transactional_id(transaction, Operation.WRITE)
        return await self._coordinator(_TRANSACTION, transaction, right)

    async def group_coordinator(self, group: str) -> int:
        """The node that coordinates a consumer group. Raises AccessError: this client may not use the
        group."""
        return await self._coordinator(_GROUP, group, group_right(group, Operation.READ))

    async def _coordinator(self, kind: int, key: str, right: Right) -> int:
        answer = await self.send_any(FindCoordinatorRequest(key, kind))
        if answer.error_code:
            self.raise_if_denied(answer.error_code, right)
            raise RetriableError(f"coordinator of {right.resource}: {describe_code(answer.error_code)}")
        node: int = answer.coordinator_id
        self._connections.learn_node(node, answer.host, answer.port)
        return node

    async def close(self) -> None:
        await self._connections.close()

    async def _found(self) -> None:
        """Once: learn who the brokers are."""
        if self._connections.brokers:
            return
        async with self._finding:
            tries = SETTLING.within(NO_BROKERS_GRACE_MS).begin()
            while not self._connections.brokers:
                await self._asked(self._connections.find())
                if self._connections.brokers:
                    return
                # So it looks to aiokafka when a token was refused, too: it does not read the broker's answer
                # to it.
                await self._raise_if_refused()
                where = f"Kafka at {self._settings.bootstrap_servers}"
                await tries.again(f"{where}: finding its brokers", "it names none", NotSentError)

    async def _asked(self, asking: Awaitable[_Answer]) -> _Answer:
        where = f"Kafka at {self._settings.bootstrap_servers}"
        try:
            return await asking
        except NoConnectionError as error:
            if not error.hangs:
                await self._raise_if_refused()
            raise NotSentError(f"{where} can't be reached: {error}") from error
        except (NoAnswerError, OSError) as error:
            raise RetriableError(f"{where}: {describe(error)}") from error
        except _TOO_OLD as error:
            raise ClusterError(f"{where} is too old: {error}. 4.0 or newer is needed.") from error

    async def _raise_if_refused(self) -> None:
        await raise_if_refused(self._settings, aiokafka_options(self._settings))

    async def _topic_metadata(self, name: str) -> Any:
        answer = await self.send_any(TopicMetadataRequest(name))
        self._connections.learn(answer)
        return answer


def describe(error: BaseException) -> str:
    """One line about an error of aiokafka's: its class when it says nothing."""
    return str(error) or type(error).__name__

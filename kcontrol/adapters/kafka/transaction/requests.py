"""KIP-98's requests of whoever owns a transaction, sent one by one, with every wait bounded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka.protocol.transaction import AddPartitionsToTxnRequest, EndTxnRequest, InitProducerIdRequest

from kcontrol.adapters.kafka.client.codes import ErrorCode, Verdict, describe_code, verdict_of
from kcontrol.adapters.kafka.client.partitions import Partitions
from kcontrol.adapters.kafka.client.rights import write_right
from kcontrol.adapters.kafka.client.rpc import SETTLING, KafkaRpc, NotSentError
from kcontrol.adapters.kafka.client.transaction_protocol import (
    CommitAndBumpRequest,
    FeaturesRequest,
    has_epoch_for_each,
)
from kcontrol.adapters.kafka.transaction.faults import raise_for
from kcontrol.backoff import Tries
from kcontrol.errors import CommitUnknownError, RetriableError
from kcontrol.settings.cluster import ClusterSettings

REQUEST_DEADLINE_MS = 20_000
"""For each request with all its repetitions; the transaction's own timeout is the broker's business."""


class OwnedTransaction:
    """The transactions under one transactional id, one after the other. One call at a time."""

    def __init__(
        self, settings: ClusterSettings, transactional_id: str, deadline_ms: int = REQUEST_DEADLINE_MS
    ) -> None:
        self.id = transactional_id
        self.rpc = KafkaRpc(settings)
        self.partitions = Partitions(self.rpc)
        self._deadline_ms = deadline_ms
        self._coordinator: int | None = None
        self._epoch_for_each = False

    async def init_producer(self, timeout_ms: int) -> tuple[int, int]:
        """InitProducerId: (producer id, producer epoch), once what was open is aborted or committed.

        Raises FencedError, RetriableError, AccessError, or ConfigurationError when the
        broker allows no timeout so long.
        """
        what = f"InitProducerId of {self.id!r}"
        response = await self._until_done(what, InitProducerIdRequest(self.id, timeout_ms), _single_code)
        # A cluster's features may change while it runs; what was asked of this transaction holds for it.
        self._epoch_for_each = has_epoch_for_each(await self.rpc.send(await self._node(), FeaturesRequest()))
        return response.producer_id, response.producer_epoch

    async def add_partitions(
        self, producer_id: int, producer_epoch: int, partitions: Sequence[tuple[str, int]]
    ) -> None:
        """AddPartitionsToTxn in one request.

        Raises FencedError, RetriableError, TopicError: there is no such partition, or
        AccessError: it may not be written.
        """
        by_topic: dict[str, list[int]] = defaultdict(list)
        for topic, partition in partitions:
            by_topic[topic].append(partition)
        request = AddPartitionsToTxnRequest(self.id, producer_id, producer_epoch, list(by_topic.items()))
        await self._until_done(f"AddPartitionsToTxn of {self.id!r}", request, _worst_code)

    async def commit(self, producer_id: int, producer_epoch: int) -> tuple[int, int] | None:
        """EndTxn(commit); the next transaction's producer, where the answer tells.

        Raises FencedError; RetriableError: it was never asked for; CommitUnknownError: its answer was lost."""
        what, tells = f"EndTxn(commit) of {self.id!r}", self._epoch_for_each
        asked = self.id, producer_id, producer_epoch
        try:
            answer = await self._until_done(
                what, CommitAndBumpRequest(*asked) if tells else EndTxnRequest(*asked, True), _single_code
            )
        except NotSentError:
            raise
        except RetriableError as error:
            raise CommitUnknownError(f"{what}: its answer was lost ({error})") from error
        return (answer.producer_id, answer.producer_epoch) if tells else None

    async def _until_done(self, what: str, request: Any, code_of: Callable[[Any], int]) -> Any:
        """Send until the answer is good; passing errors are waited out, others raised.

        Raises NotSentError, rather than RetriableError, when no broker can have seen the request.
        """
        tries = SETTLING.within(self._deadline_ms).begin()
        gave_up: type[RetriableError] = NotSentError
        while True:
            try:
                response = await self.rpc.send(await self._node(), request)
            except NotSentError as error:
                self._coordinator = None
                await tries.again(what, error, gave_up)
                continue
            except RetriableError:
                self._coordinator = None
                raise
            gave_up = RetriableError
            code = code_of(response)
            if code == ErrorCode.NONE:
                return response
            denied_topic = next(iter(_topics_with(response, code)), "")
            self.rpc.raise_if_denied(code, write_right(code, denied_topic, self.id), what)
            await self._wait_out(what, code, tries)

    async def _wait_out(self, what: str, code: int, tries: Tries) -> None:
        match verdict_of(code):
            case Verdict.OTHER_COORDINATOR:
                self._coordinator = None
            case Verdict.OTHER_LEADER | Verdict.MAYBE_GONE if not tries.passed:
                pass  # A topic that was made a moment ago may be unknown to the coordinator's broker yet.
            case Verdict.PASSING:
                pass
            case _:
                raise_for(what, code)
        await tries.again(what, describe_code(code))

    async def _node(self) -> int:
        if self._coordinator is None:
            try:
                self._coordinator = await self.rpc.transaction_coordinator(self.id)
            except RetriableError as error:
                raise NotSentError(str(error)) from error
        return self._coordinator

    async def close(self) -> None:
        await self.rpc.close()


def _single_code(response: Any) -> int:
    code: int = response.error_code
    return code


def _topics_with(response: Any, code: int) -> list[str]:
    """Of an answer by partition: the topics that have this error code."""
    return [topic for topic, codes in _codes_by_topic(response).items() if code in codes]


def _worst_code(response: Any) -> int:
    """Of an answer by partition: the code that decides. Partitions that were left aside because of others say
    little."""
    codes = set().union(*_codes_by_topic(response).values())
    by_weight = sorted(
        codes, key=lambda code: (code == ErrorCode.NONE, verdict_of(code) is Verdict.NOT_ATTEMPTED)
    )
    return by_weight[0] if by_weight else ErrorCode.NONE


def _codes_by_topic(response: Any) -> dict[str, set[int]]:
    """Of an answer by partition; none of any other."""
    by_topic = response.to_object().get("errors", ())
    return {each["topic"]: {part["error_code"] for part in each["partition_errors"]} for each in by_topic}

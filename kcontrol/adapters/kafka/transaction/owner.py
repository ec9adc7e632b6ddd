"""The Transaction port on Kafka: the owner's side of one transaction that many processes write in.

KIP-98's requests, sent one by one because no client lets others write in its transaction. An error means one
of three things for the step: somebody newer owns the transaction; it is passing; or, for the commit alone,
nobody knows until the steps topic is read after fencing. Every wait has a deadline.
"""

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
from kcontrol.adapters.kafka.transaction.boundary_write import TransactionalWrite
from kcontrol.adapters.kafka.transaction.faults import raise_for
from kcontrol.backoff import Tries
from kcontrol.core.log.keys import BARRIER_KEY, key_of
from kcontrol.core.model import Assignment, Checkpoint, StepBoundary, StepRecord
from kcontrol.errors import CommitUnknownError, RetriableError, UnseenRecordError
from kcontrol.sessions.ports import NextTransaction
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.codec import RecordCodec

REQUEST_DEADLINE_MS = 20_000
"""For each request with all its repetitions; the transaction's own timeout is the broker's business."""

_STEPS_PARTITION = 0
_MARKER = 1
"""The end of a transaction takes an offset in each of its partitions."""


class KafkaTransaction:
    """The transaction of one pipeline. One call at a time."""

    def __init__(
        self, settings: ClusterSettings, pipeline: str, deadline_ms: int = REQUEST_DEADLINE_MS
    ) -> None:
        names = settings.names()
        self._id = names.transactional_id(pipeline)
        self._topic = names.steps_topic(pipeline)
        self._rpc = KafkaRpc(settings)
        self._partitions = Partitions(self._rpc)
        self._codec = RecordCodec()
        self._deadline_ms = deadline_ms
        self._coordinator: int | None = None
        self._published: set[str] = set()
        self._log_end = 0
        self._epoch_for_each = False

    @property
    def log_end(self) -> int:
        """As the port says."""
        return self._log_end

    async def init_producer(self, timeout_ms: int) -> tuple[int, int]:
        """InitProducerId: (producer id, producer epoch), once what was open is aborted or committed.

        Raises FencedError, RetriableError, AccessError, or ConfigurationError when the
        broker allows no timeout so long.
        """
        what = f"InitProducerId of {self._id!r}"
        response = await self._until_done(what, InitProducerIdRequest(self._id, timeout_ms), _single_code)
        # A cluster's features may change while it runs; what was asked of this transaction holds for it.
        self._epoch_for_each = has_epoch_for_each(await self._rpc.send(await self._node(), FeaturesRequest()))
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
        request = AddPartitionsToTxnRequest(self._id, producer_id, producer_epoch, list(by_topic.items()))
        await self._until_done(f"AddPartitionsToTxn of {self._id!r}", request, _worst_code)

    async def commit_step(
        self,
        producer_id: int,
        producer_epoch: int,
        boundary: StepBoundary,
        expected_offset: int,
        forget: Sequence[str] = (),
    ) -> NextTransaction | None:
        """Write the boundary and the tombstones, see that nothing unseen lies before them, then
        EndTxn(commit).

        Raises FencedError; UnseenRecordError, or another RetriableError, when the commit was never asked for;
        CommitUnknownError when its answer was lost; TopicError when the boundary is larger than the topic
        takes.
        """
        return await self._commit_record((producer_id, producer_epoch), boundary, expected_offset, forget)

    async def commit_checkpoint(
        self,
        producer_id: int,
        producer_epoch: int,
        checkpoint: Checkpoint | None,
        expected_offset: int,
        forget: Sequence[str],
        assignment: Assignment | None = None,
    ) -> None:
        """The same with a checkpoint, or a change of the layout, or both. Raises as `commit_step` does."""
        records = [each for each in (checkpoint, assignment) if each is not None]
        await self._commit_record(
            (producer_id, producer_epoch), records[0], expected_offset, forget, records[1:]
        )

    async def commit_assignment(
        self, producer_id: int, producer_epoch: int, assignment: Assignment, expected_offset: int
    ) -> None:
        """The same with a change of the layout, in a transaction that begins here. Raises as `commit_step` does."""
        await self.add_partitions(producer_id, producer_epoch, [(self._topic, _STEPS_PARTITION)])
        await self._commit_record((producer_id, producer_epoch), assignment, expected_offset, ())

    async def commit_reset(
        self,
        producer_id: int,
        producer_epoch: int,
        boundary: StepBoundary,
        expected_offset: int,
        forget: Sequence[str],
    ) -> None:
        """The same with a step that takes back others, in a transaction that begins here. Raises as `commit_step` does."""
        await self.add_partitions(producer_id, producer_epoch, [(self._topic, _STEPS_PARTITION)])
        await self._commit_record((producer_id, producer_epoch), boundary, expected_offset, forget)

    async def prove_end(self, producer_id: int, producer_epoch: int) -> None:
        """Write a record whose acknowledgement says where the log ends, and leave its transaction open.

        Raises FencedError, RetriableError, TopicError, or AccessError.
        """
        await self.add_partitions(producer_id, producer_epoch, [(self._topic, _STEPS_PARTITION)])
        batch = [(BARRIER_KEY.encode(), None)]
        if await self._write((producer_id, producer_epoch), batch) < 0:
            raise RetriableError(f"topic {self._topic!r} has a record, and its broker does not say where")

    async def _write(self, producer: tuple[int, int], batch: Sequence[tuple[bytes, bytes | None]]) -> int:
        write = TransactionalWrite(self._partitions, self._id, producer, self._deadline_ms)
        offset = await write.send(self._topic, _STEPS_PARTITION, batch)
        if offset >= 0:
            self._log_end = max(self._log_end, offset + len(batch))
        return offset

    async def _commit_record(
        self,
        producer: tuple[int, int],
        record: StepRecord,
        expected_offset: int,
        forget: Sequence[str],
        more: Sequence[StepRecord] = (),
    ) -> NextTransaction | None:
        all_ = (record, *more)
        publications = [each for one in all_ for each in self._codec.publications(one)]
        schemas = [(key.encode(), value) for key, value in publications if key not in self._published]
        own = [(key_of(one).encode(), self._codec.encode(one)) for one in all_]
        records = [*schemas, *own, *((key.encode(), None) for key in forget)]
        offset = await self._write(producer, records)
        if offset != expected_offset:
            raise UnseenRecordError(
                f"{key_of(record)!r} came to lie at offset {offset} of topic {self._topic!r}, but what was "
                f"read ended at {expected_offset}: something is there that was not seen. Nothing of it is "
                "committed; the topic is read again"
            )
        following = await self._commit(*producer)
        self._published.update(key for key, _ in publications)
        if following is None:
            return None
        return NextTransaction(following, offset + len(schemas), offset + len(records) + _MARKER)

    async def close(self) -> None:
        await self._rpc.close()

    async def _commit(self, producer_id: int, producer_epoch: int) -> tuple[int, int] | None:
        """The next transaction's producer, where the answer tells."""
        what, tells = f"EndTxn(commit) of {self._id!r}", self._epoch_for_each
        asked = self._id, producer_id, producer_epoch
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
                response = await self._rpc.send(await self._node(), request)
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
            self._rpc.raise_if_denied(code, write_right(code, denied_topic, self._id), what)
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
                self._coordinator = await self._rpc.transaction_coordinator(self._id)
            except RetriableError as error:
                raise NotSentError(str(error)) from error
        return self._coordinator


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

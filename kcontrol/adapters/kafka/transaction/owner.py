"""The Transaction port on Kafka: the owner's side of one transaction that many processes write in.

KIP-98's requests, sent one by one because no client lets others write in its transaction. An error means one
of three things for the step: somebody newer owns the transaction; it is passing; or, for the commit alone,
nobody knows until the steps topic is read after fencing. Every wait has a deadline.
"""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.adapters.kafka.transaction.boundary_write import TransactionalWrite
from kcontrol.adapters.kafka.transaction.requests import REQUEST_DEADLINE_MS, OwnedTransaction
from kcontrol.core.log.keys import BARRIER_KEY, key_of
from kcontrol.core.model import Assignment, Checkpoint, StepBoundary, StepRecord
from kcontrol.errors import RetriableError, UnseenRecordError
from kcontrol.sessions.ports import NextTransaction
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.codec import RecordCodec

_STEPS_PARTITION = 0
_MARKER = 1
"""The end of a transaction takes an offset in each of its partitions."""


class KafkaTransaction(OwnedTransaction):
    """The transaction of one pipeline. One call at a time."""

    def __init__(
        self, settings: ClusterSettings, pipeline: str, deadline_ms: int = REQUEST_DEADLINE_MS
    ) -> None:
        names = settings.names()
        super().__init__(settings, names.transactional_id(pipeline), deadline_ms)
        self._topic = names.steps_topic(pipeline)
        self._codec = RecordCodec()
        self._published: set[str] = set()
        self._log_end = 0

    @property
    def log_end(self) -> int:
        """As the port says."""
        return self._log_end

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
        write = TransactionalWrite(self.partitions, self.id, producer, self._deadline_ms)
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
        following = await self.commit(*producer)
        self._published.update(key for key, _ in publications)
        if following is None:
            return None
        return NextTransaction(following, offset + len(schemas), offset + len(records) + _MARKER)

"""Commits as the owner of a pipeline's transaction does: read to the end, then write exactly there."""

from __future__ import annotations

from collections.abc import Sequence

from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.core.model import Assignment, StepBoundary, StepRecord
from kcontrol.sessions.ports import OwnedStepsLog, Transaction
from kcontrol.settings.cluster import ClusterSettings
from tests.support.transactions import TRANSACTION_MS


async def commit(
    transaction: Transaction,
    steps: OwnedStepsLog,
    producer: tuple[int, int],
    record: StepRecord,
    forget: Sequence[str] = (),
) -> None:
    """Commit the open transaction of `producer` with a boundary, a checkpoint or an assignment, behind
    all that the log of steps holds."""
    await steps.read_settled(transaction.log_end)
    await commit_at(transaction, steps.position, producer, record, forget)


async def commit_at(
    transaction: Transaction,
    offset: int,
    producer: tuple[int, int],
    record: StepRecord,
    forget: Sequence[str] = (),
) -> None:
    """The same where the log of steps is believed to end at `offset`."""
    if isinstance(record, StepBoundary):
        await transaction.commit_step(*producer, record, offset, forget)
    elif isinstance(record, Assignment):
        await transaction.commit_assignment(*producer, record, offset)
    else:
        await transaction.commit_checkpoint(*producer, record, offset, forget)


async def commit_at_end(
    settings: ClusterSettings,
    transaction: KafkaTransaction,
    producer: tuple[int, int],
    record: StepRecord,
    forget: Sequence[str] = (),
) -> None:
    """The same on Kafka, for a test that reads no log of steps itself. Returns once every reader sees it."""
    steps = KafkaStepsLog(settings, record.pipeline)
    try:
        await commit(transaction, steps, producer, record, forget)
    finally:
        await steps.close()
    await settled(transaction)


async def settled(transaction: Transaction) -> None:
    """Until what was committed is seen: Kafka answers a commit before its markers are written, and lets nobody begin the next
    transaction until they are."""
    await transaction.init_producer(TRANSACTION_MS)

"""What Transaction and StepsLog promise together: a step is there whole or not at all,
and only its owner can commit it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kcontrol.core.model import Assignment, LoggedStep, StepBoundary, StepRecord, Tombstone
from kcontrol.errors import CommitUnknownError, FencedError, UnseenRecordError
from kcontrol.sessions.ports import StepsLog, Transaction
from tests.contract.conftest import Run
from tests.contract.worlds import World
from tests.support.owning import commit, commit_at
from tests.support.patience import HANG_MS
from tests.support.proxy import Cut
from tests.support.samples import boundary, checkpoint


async def _begin(world: World, transaction: Transaction) -> tuple[int, int]:
    producer = await transaction.init_producer(HANG_MS)
    await transaction.add_partitions(*producer, world.partitions())
    return producer


async def _commit(
    world: World,
    transaction: Transaction,
    producer: tuple[int, int],
    record: StepRecord,
    forget: Sequence[str] = (),
) -> None:
    await commit(transaction, await world.steps(), producer, record, forget)


async def _step(world: World, transaction: Transaction, step: int) -> StepBoundary:
    producer = await _begin(world, transaction)
    made = boundary(world.pipeline, step, producer)
    await _commit(world, transaction, producer, made)
    return made


async def _wait_for(log: StepsLog, count: int) -> list[LoggedStep]:
    seen: list[LoggedStep] = []
    async for chunk in log.tail():
        seen += chunk
        if len(seen) >= count:
            break
    return seen


def test_a_committed_boundary_is_seen_by_tails_with_the_tombstones_of_its_commit(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction, log = await world.transaction(), await world.steps()
        producer = await _begin(world, transaction)
        made = boundary(world.pipeline, 2, producer)
        await _commit(world, transaction, producer, made, ["step/1"])
        assert [logged.record for logged in await _wait_for(log, 2)] == [made, Tombstone("step/1")]

    run(scenario)


def test_a_committed_checkpoint_is_seen_with_the_tombstones_of_its_commit(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction, log = await world.transaction(), await world.steps()
        step = await _step(world, transaction, 3)
        producer = await transaction.init_producer(HANG_MS)
        await transaction.add_partitions(*producer, world.partitions()[:1])
        made = checkpoint(world.pipeline, 3)
        await _commit(world, transaction, producer, made, ["checkpoint/1", "step/2"])
        found = [logged.record for logged in await _wait_for(log, 4)]
        assert found == [step, made, Tombstone("checkpoint/1"), Tombstone("step/2")]

    run(scenario)


def test_a_change_of_the_layout_is_seen_with_the_checkpoint_that_it_is_made_over(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction, log = await world.transaction(), await world.steps()
        step = await _step(world, transaction, 3)
        saved = checkpoint(world.pipeline, 3)
        made = Assignment(world.pipeline, 1, 3, 2, (0, 1), (), (), 1, 9, "r", 1, live=True)
        for number, first in enumerate((saved, None), 1):
            producer = await transaction.init_producer(HANG_MS)
            await transaction.add_partitions(*producer, world.partitions()[:1])
            await log.read_settled(transaction.log_end)
            changed = replace(made, number=number)
            await transaction.commit_checkpoint(*producer, first, log.position, (), changed)
        reader = await world.steps()
        found = [logged.record for logged in await _wait_for(reader, 4)]
        assert found == [step, saved, made, replace(made, number=2)]

    run(scenario)


def test_a_fenced_owner_records_no_checkpoint(run: Run) -> None:
    async def scenario(world: World) -> None:
        old, rightful = await world.transaction(), await world.transaction()
        producer = await _begin(world, old)
        await _step(world, rightful, 1)
        with pytest.raises(FencedError):
            await _commit(world, old, producer, checkpoint(world.pipeline, 1))
        await rightful.init_producer(HANG_MS)
        log = await world.steps()
        assert len(await log.read_to_end()) == 1

    run(scenario)


def test_after_the_next_init_producer_every_earlier_commit_is_found_by_a_read_to_the_end(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction = await world.transaction()
        made = []
        for step in range(1, 8):
            made.append(await _step(world, transaction, step))
            await transaction.init_producer(HANG_MS)
            log = await world.steps()
            assert [logged.record for logged in await log.read_settled(transaction.log_end)] == made

    run(scenario)


def test_what_is_written_behind_something_unseen_is_not_committed_and_the_next_read_finds_it(
    run: Run,
) -> None:
    """Whatever a reader was shown as the end: the place of its own record says whether it was."""

    async def scenario(world: World) -> None:
        transaction, log = await world.transaction(), await world.steps()
        seen = await _step(world, transaction, 1)
        await transaction.init_producer(HANG_MS)
        await log.read_settled(transaction.log_end)
        stale = log.position
        unseen = await _step(world, transaction, 2)

        for record in (boundary(world.pipeline, 2), checkpoint(world.pipeline, 1)):
            producer = await _begin(world, transaction)
            with pytest.raises(UnseenRecordError, match=f"what was read ended at {stale}"):
                await commit_at(transaction, stale, producer, record)

        await transaction.init_producer(HANG_MS)
        assert [logged.record for logged in await log.read_settled(transaction.log_end)] == [unseen]
        made = await _step(world, transaction, 3)
        await transaction.init_producer(HANG_MS)
        fresh = await world.steps()
        assert [logged.record for logged in await fresh.read_settled(transaction.log_end)] == [
            seen,
            unseen,
            made,
        ]

    run(scenario)


def test_the_end_is_proved_by_a_record_that_nobody_ever_sees(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction, log = await world.transaction(), await world.steps()
        seen = [await _step(world, transaction, step) for step in (1, 2)]
        owner = await world.transaction()
        producer = await owner.init_producer(HANG_MS)
        assert owner.log_end == 0
        await owner.prove_end(*producer)
        proved = owner.log_end
        assert proved > transaction.log_end

        await owner.init_producer(HANG_MS)
        assert [logged.record for logged in await log.read_settled(proved)] == seen
        assert log.position >= proved
        made = await _step(world, owner, 3)
        await owner.init_producer(HANG_MS)
        assert [logged.record for logged in await log.read_settled(owner.log_end)] == [made]

    run(scenario)


def test_who_was_fenced_can_not_prove_anything(run: Run) -> None:
    async def scenario(world: World) -> None:
        old, new = await world.transaction(), await world.transaction()
        producer = await old.init_producer(HANG_MS)
        await new.init_producer(HANG_MS)
        with pytest.raises(FencedError):
            await old.prove_end(*producer)
        assert old.log_end == 0

    run(scenario)


def test_the_answer_to_a_commit_begins_the_next_transaction_where_epochs_are_told(
    run: Run, tells_epochs: bool
) -> None:
    async def scenario(world: World) -> None:
        transaction, log, watched = await world.transaction(), await world.steps(), await world.steps()
        producer, end, made = await transaction.init_producer(HANG_MS), 0, []
        used = {producer}
        for step in range(1, 6):
            await transaction.add_partitions(*producer, world.partitions())
            await world.write(producer, step % 2, f"of step {step}")
            made.append(boundary(world.pipeline, step, producer))
            following = await transaction.commit_step(*producer, made[-1], end)
            if not tells_epochs:
                assert following is None
                return
            assert following is not None
            producer, end = following.producer, following.end
            used.add(producer)
            log.pass_over(following.offset + 1)
        assert len(used) == 6
        assert await _wait_for(watched, 5) == [
            LoggedStep(offset, record) for offset, record in zip(await _offsets(world), made, strict=True)
        ]
        await transaction.init_producer(HANG_MS)
        assert await log.read_settled(transaction.log_end) == []
        assert log.position == end

    run(scenario)


async def _offsets(world: World) -> list[int]:
    return [logged.offset for logged in await (await world.steps()).read_to_end()]


def test_who_was_told_the_next_epoch_is_fenced_as_any_owner(run: Run, tells_epochs: bool) -> None:
    async def scenario(world: World) -> None:
        old, new = await world.transaction(), await world.transaction()
        producer = await _begin(world, old)
        following = await old.commit_step(*producer, boundary(world.pipeline, 1, producer), 0)
        if not tells_epochs:
            return
        assert following is not None
        made = await _step(world, new, 2)
        with pytest.raises(FencedError):
            await old.add_partitions(*following.producer, world.partitions())
        with pytest.raises(FencedError):
            await world.write(following.producer, 0, "late")
        seen = [logged.record for logged in await _wait_for(await world.steps(), 2)]
        assert seen[-1] == made

    run(scenario)


def test_the_writers_of_a_transaction_are_too_late_for_the_next_where_epochs_are_told(
    run: Run, tells_epochs: bool
) -> None:
    async def scenario(world: World) -> None:
        transaction = await world.transaction()
        producer = await _begin(world, transaction)
        following = await transaction.commit_step(*producer, boundary(world.pipeline, 1, producer), 0)
        if not tells_epochs:
            return
        assert following is not None
        await transaction.add_partitions(*following.producer, world.partitions())
        with pytest.raises(FencedError):
            await world.write(producer, 0, "late")
        await world.write(following.producer, 0, "right")

    run(scenario)


def test_an_open_transaction_shows_nothing(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction, log = await world.transaction(), await world.steps()
        producer = await _begin(world, transaction)
        await world.write(producer, 0, "not yet")
        assert await log.read_to_end() == []

    run(scenario)


def test_init_producer_aborts_what_was_open_and_the_next_step_commits(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction, log = await world.transaction(), await world.steps()
        producer = await _begin(world, transaction)
        await world.write(producer, 0, "aborted")
        made = await _step(world, transaction, 1)
        assert [logged.record for logged in await _wait_for(log, 1)] == [made]

    run(scenario)


def test_each_init_producer_gives_a_new_identity(run: Run) -> None:
    async def scenario(world: World) -> None:
        first, second = await world.transaction(), await world.transaction()
        identities = [await owner.init_producer(HANG_MS) for owner in (first, second, first, first)]
        assert len(set(identities)) == 4

    run(scenario)


def test_an_owner_that_was_replaced_can_neither_add_partitions_nor_commit(run: Run) -> None:
    async def scenario(world: World) -> None:
        old, new, log = await world.transaction(), await world.transaction(), await world.steps()
        idle = await old.init_producer(HANG_MS)
        await new.init_producer(HANG_MS)
        with pytest.raises(FencedError):
            await old.add_partitions(*idle, world.partitions())

        producer = await _begin(world, old)
        await new.init_producer(HANG_MS)
        with pytest.raises(FencedError):
            await _commit(world, old, producer, boundary(world.pipeline, 1, producer))

        made = await _step(world, new, 1)
        assert [logged.record for logged in await _wait_for(log, 1)] == [made]

    run(scenario)


def test_a_zombie_that_initialises_last_fences_the_rightful_owner(run: Run) -> None:
    """The reason for reading the control topic after every InitProducerId: Kafka lets the last caller win."""

    async def scenario(world: World) -> None:
        rightful, zombie = await world.transaction(), await world.transaction()
        producer = await _begin(world, rightful)
        await zombie.init_producer(HANG_MS)
        with pytest.raises(FencedError):
            await _commit(world, rightful, producer, boundary(world.pipeline, 1, producer))

    run(scenario)


def test_a_commit_into_a_partition_that_was_never_added_is_refused(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction = await world.transaction()
        producer = await transaction.init_producer(HANG_MS)
        await transaction.add_partitions(*producer, world.partitions()[1:])
        with pytest.raises(FencedError):
            await _commit(world, transaction, producer, boundary(world.pipeline, 1, producer))

    run(scenario)


def test_a_second_commit_of_one_transaction_is_refused(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction = await world.transaction()
        producer = await _begin(world, transaction)
        await _commit(world, transaction, producer, boundary(world.pipeline, 1, producer))
        with pytest.raises(FencedError):
            await _commit(world, transaction, producer, boundary(world.pipeline, 2, producer))

    run(scenario)


def test_writers_with_an_old_identity_or_into_a_partition_not_added_are_refused(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction = await world.transaction()
        old = await _begin(world, transaction)
        new = await transaction.init_producer(HANG_MS)
        await transaction.add_partitions(*new, world.partitions()[:2])
        with pytest.raises(FencedError):
            await world.write(old, 0, "late")
        with pytest.raises(FencedError):
            await world.write(new, 1, "not added")
        await world.write(new, 0, "right")

    run(scenario)


@pytest.mark.parametrize("cut", [Cut.ANSWER, Cut.REQUEST])
def test_when_the_answer_to_a_commit_is_lost_the_log_tells_after_fencing(run: Run, cut: Cut) -> None:
    async def scenario(world: World) -> None:
        transaction, log = await world.transaction(), await world.steps()
        producer = await _begin(world, transaction)
        made = boundary(world.pipeline, 1, producer)
        world.lose_next_commit(cut)
        with pytest.raises(CommitUnknownError):
            await _commit(world, transaction, producer, made)

        await transaction.init_producer(HANG_MS)
        found = [logged.record for logged in await log.read_to_end()]
        assert found == ([made] if cut is Cut.ANSWER else [])

    run(scenario)


def test_readers_of_the_log_keep_their_place_while_steps_are_aborted(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction, log = await world.transaction(), await world.steps()
        tail = asyncio.create_task(_wait_for(log, 6))
        made = []
        for step in range(1, 7):
            aborted = await _begin(world, transaction)
            await world.write(aborted, step % 2, "aborted")
            made.append(await _step(world, transaction, step))
        assert [logged.record for logged in await tail] == made

    run(scenario)


def test_old_records_can_be_read_again_and_no_position_moves(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction, log = await world.transaction(), await world.archive()
        made = [await _step(world, transaction, step) for step in (1, 2, 3)]
        await _begin(world, transaction)
        seen = await log.read_to_end()
        offsets = [logged.offset for logged in seen]
        assert [logged.record for logged in await log.read_range(offsets[1], offsets[2])] == [made[1]]
        assert await log.read_range(offsets[0], offsets[2] + 1) == seen
        assert await log.read_range(offsets[2] + 1, offsets[2] + 1) == []
        assert await log.read_to_end() == []

    run(scenario)

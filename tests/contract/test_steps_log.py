"""What every StepsLog promises beyond reading on: where it begins."""

from __future__ import annotations

from dataclasses import replace

from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import Checkpoint, StepBoundary, StepRecord
from kcontrol.sessions.ports import StepsLog, Transaction
from tests.contract.conftest import Run
from tests.contract.worlds import World
from tests.support.owning import commit
from tests.support.patience import HANG_MS
from tests.support.samples import boundary, checkpoint


async def _commit(
    transaction: Transaction, world: World, record: StepRecord, forget: tuple[str, ...] = ()
) -> None:
    producer = await transaction.init_producer(HANG_MS)
    await transaction.add_partitions(*producer, world.partitions()[:1])
    await commit(transaction, await world.steps(), producer, record, forget)


async def _steps(transaction: Transaction, world: World, first: int, last: int) -> None:
    for step in range(first, last + 1):
        await _commit(transaction, world, boundary(world.pipeline, step))


async def _save(transaction: Transaction, world: World, step: int, begin: int, *forget: str) -> Checkpoint:
    """Of `step`; whoever begins, begins at the boundary of `begin`."""
    read = await (await world.steps()).read_to_end()
    offsets = {one.record.step: one.offset for one in read if isinstance(one.record, StepBoundary)}
    made = replace(
        checkpoint(world.pipeline, step),
        boundary_offset=offsets[step],
        begin_offset=offsets[begin],
        first_step=begin - 1,
    )
    await _commit(transaction, world, made, forget)
    return made


async def _fold(log: StepsLog, view: StepsView) -> StepsView:
    for logged in await log.read_to_end():
        view = evolve(view, logged)
    return view


def test_without_a_checkpoint_reading_begins_at_the_beginning(run: Run) -> None:
    async def scenario(world: World) -> None:
        empty = await world.steps()
        assert await empty.begin_at_checkpoint() is None
        transaction = await world.transaction()
        await _steps(transaction, world, 1, 3)
        log = await world.steps()
        assert await log.begin_at_checkpoint() is None
        assert [
            one.record.step for one in await log.read_to_end() if isinstance(one.record, StepBoundary)
        ] == [1, 2, 3]

    run(scenario)


def test_reading_begins_at_the_oldest_checkpoint_that_is_kept(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction = await world.transaction()
        await _steps(transaction, world, 1, 4)
        await _save(transaction, world, 2, 2)
        await _save(transaction, world, 4, 2)
        await _steps(transaction, world, 5, 6)
        await _save(transaction, world, 6, 4, "checkpoint/2", "step/1", "step/2")
        await _steps(transaction, world, 7, 8)
        log = await world.steps()
        newest = await log.begin_at_checkpoint()
        assert newest is not None
        assert (newest.step, newest.first_step) == (6, 3)
        found = await _fold(log, StepsView.begun_at(world.pipeline, newest))
        assert found == await _fold(await world.steps(), StepsView(world.pipeline))
        assert (found.first, found.step, [one.step for one in found.checkpoints]) == (3, 8, [4, 6])
        assert await log.read_to_end() == []

    run(scenario)


def test_a_reader_may_begin_anew(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction = await world.transaction()
        await _steps(transaction, world, 1, 3)
        await _save(transaction, world, 3, 3)
        log = await world.steps()
        assert await log.begin_at_checkpoint() is not None
        assert isinstance((await log.read_to_end())[0].record, StepBoundary)
        log.begin_at_start()
        assert [one.record.step for one in await log.read_to_end()] == [1, 2, 3, 3]  # type: ignore[union-attr]

    run(scenario)


def test_a_checkpoint_of_an_older_version_does_not_say_where_to_begin(run: Run) -> None:
    async def scenario(world: World) -> None:
        transaction = await world.transaction()
        await _steps(transaction, world, 1, 3)
        await _commit(
            transaction, world, replace(checkpoint(world.pipeline, 3), first_step=0, begin_offset=-1)
        )
        # Kafka answers a commit before its markers are written; whoever begins anew waits for them.
        await transaction.init_producer(HANG_MS)
        log = await world.steps()
        assert await log.begin_at_checkpoint() is None
        assert len(await log.read_to_end()) == 4

    run(scenario)

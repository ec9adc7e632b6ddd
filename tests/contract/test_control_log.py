"""What every ControlLog promises."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from kcontrol.core.model import Desired, Logged, Tombstone
from kcontrol.errors import RetriableError
from kcontrol.sessions.ports import ControlLog
from tests.contract.conftest import Run
from tests.contract.worlds import World
from tests.support.samples import desired


def _requests(chunk: list[Logged]) -> list[str]:
    return [logged.record.request_id for logged in chunk if isinstance(logged.record, Desired)]


async def _collect(log: ControlLog, into: list[Logged], count: int) -> None:
    async for chunk in log.tail():
        into += chunk
        if len(into) >= count:
            return


def test_what_was_appended_is_read_in_order_with_its_offsets_and_tombstones_last(run: Run) -> None:
    async def scenario(world: World) -> None:
        writer, reader = await world.control(), await world.control()
        records = [desired(world.pipeline, str(number)) for number in range(3)]
        offsets = await writer.append(records, forget=[f"{world.pipeline}/command/1/0"])
        seen = await reader.read_to_end()
        assert [logged.record for logged in seen] == [*records, Tombstone(f"{world.pipeline}/command/1/0")]
        assert [logged.offset for logged in seen] == offsets
        assert offsets == sorted(set(offsets))
        assert await reader.read_to_end() == []

    run(scenario)


def test_an_append_that_was_acknowledged_is_in_every_read_to_end_that_starts_later(run: Run) -> None:
    async def scenario(world: World) -> None:
        writer, reader = await world.control(), await world.control()
        for number in range(20):
            await writer.append([desired(world.pipeline, str(number))])
            assert _requests(await reader.read_to_end()) == [str(number)]

    run(scenario)


def test_readers_have_positions_of_their_own(run: Run) -> None:
    async def scenario(world: World) -> None:
        first = await world.control()
        await first.append([desired(world.pipeline, "a")])
        assert _requests(await first.read_to_end()) == ["a"]
        await first.append([desired(world.pipeline, "b")])
        assert _requests(await (await world.control()).read_to_end()) == ["a", "b"]
        assert _requests(await first.read_to_end()) == ["b"]

    run(scenario)


def test_a_tail_wakes_up_for_what_arrives(run: Run) -> None:
    async def scenario(world: World) -> None:
        writer, reader = await world.control(), await world.control()
        seen: list[Logged] = []
        tail = asyncio.create_task(_collect(reader, seen, 3))
        for number in range(3):
            await writer.append([desired(world.pipeline, str(number))])
        await tail
        assert _requests(seen) == ["0", "1", "2"]

    run(scenario)


def test_reading_through_an_own_record_brings_all_that_lies_before_it(run: Run) -> None:
    async def scenario(world: World) -> None:
        mine, other = await world.control(), await world.control()
        await other.append([desired(world.pipeline, "before")])
        (offset,) = await mine.append([desired(world.pipeline, "own")])
        await other.append([desired(world.pipeline, "after")])
        assert _requests(await mine.read_through(offset))[:2] == ["before", "own"]
        with pytest.raises((RetriableError, TimeoutError)):
            await asyncio.wait_for(mine.read_through(offset + 100), 0.5)

    run(scenario)


def test_each_offset_comes_once_and_in_order_however_tail_and_read_to_end_share_the_work(run: Run) -> None:
    async def scenario(world: World) -> None:
        writer, reader = await world.control(), await world.control()
        seen: list[Logged] = []
        tail = asyncio.create_task(_collect(reader, seen, 10_000))
        written: list[int] = []
        for number in range(150):
            written += await writer.append([desired(world.pipeline, str(number))])
            if number % 3 == 0:
                seen += await reader.read_to_end()
                assert seen[-1].offset == written[-1]
        seen += await reader.read_to_end()
        tail.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await tail
        assert [logged.offset for logged in seen] == written

    run(scenario)


def test_a_log_of_one_pipeline_shows_no_other_in_the_same_partition(run: Run) -> None:
    async def scenario(world: World) -> None:
        neighbour = "pipeline-9"
        mine, other = await world.control(), await world.control(neighbour)
        await other.append([desired(neighbour, "theirs")])
        await mine.append([desired(world.pipeline, "mine")])
        assert _requests(await mine.read_to_end()) == ["mine"]
        assert _requests(await other.read_to_end()) == ["theirs"]

    run(scenario)

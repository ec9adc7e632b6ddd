"""A reader of a log asks nobody by an older leader epoch than it has read by, and never reads another topic; where it begins,
and what it keeps when it gives up."""

from __future__ import annotations

import asyncio
import uuid
from dataclasses import replace

import pytest

from kcontrol.adapters.kafka.client.codes import ErrorCode
from kcontrol.adapters.kafka.client.leaders import TopicInfo
from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED, FetchStruct
from kcontrol.adapters.kafka.logs import partition_reader
from kcontrol.adapters.kafka.logs.partition_reader import PartitionReader
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.errors import DamagedRecordError, RetriableError, TopicError
from tests.property.batches.made import MadeBatch, MadeRecord
from tests.support.patience import HANG_MS
from tests.unit.kafka.test_partitions import TOPIC_ID, ScriptedRpc, fetch_answer, offsets_answer

INFO = TopicInfo("t", TOPIC_ID, {0: 1}, {0: 5})
OLDER, NEWER = replace(INFO, leaders={0: 2}, epochs={0: 4}), replace(INFO, leaders={0: 3}, epochs={0: 6})
NOBODY = replace(INFO, leaders={0: -1})
END = fetch_answer(0, (0, 0, b""))
MOVED = fetch_answer(0, (0, ErrorCode.NOT_LEADER_OR_FOLLOWER, b""))


@pytest.fixture(autouse=True)
def _leaders_may_be_looked_for_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_reader, "READ_TIMEOUT_MS", HANG_MS)


def reader_of(rpc: ScriptedRpc) -> PartitionReader:
    return PartitionReader(rpc, "t", 0, READ_UNCOMMITTED)  # type: ignore[arg-type]


def asked(rpc: ScriptedRpc) -> list[tuple[int, int]]:
    """Node and leader epoch of each fetch."""
    return [(node, request.build(FetchStruct).topics[0][1][0][1]) for node, request in rpc.sent]


def test_a_reader_goes_back_to_no_older_leader_epoch() -> None:
    rpc = ScriptedRpc(END, MOVED, END, infos=(INFO, OLDER, NOBODY, NEWER))

    async def read_twice() -> None:
        reader = reader_of(rpc)
        await reader.read_to_end()
        await reader.read_to_end()

    asyncio.run(read_twice())
    assert asked(rpc) == [(1, 5), (1, 5), (3, 6)]


def test_a_topic_that_was_recreated_is_an_error_however_often_it_is_read() -> None:
    another = replace(INFO, topic_id=uuid.UUID(int=8))
    rpc = ScriptedRpc(END, MOVED, END, END, infos=(INFO, another))

    async def read() -> None:
        reader = reader_of(rpc)
        await reader.read_to_end()
        for _ in range(2):
            with pytest.raises(TopicError, match="was deleted and recreated"):
                await reader.read_to_end()

    asyncio.run(read())
    assert asked(rpc) == [(1, 5), (1, 5)]


def ten_records(base_offset: int) -> bytes:
    return MadeBatch([MadeRecord(delta, 0, None, b"x") for delta in range(10)]).encode(base_offset)


def test_what_was_taken_by_the_deadline_is_not_read_again() -> None:
    rpc = ScriptedRpc(fetch_answer(0, (0, 0, ten_records(0))), fetch_answer(0, (0, 0, ten_records(10))))
    taken: list[int] = []

    async def take(records: list[RawRecord]) -> None:
        taken.extend(record.offset for record in records)

    async def read() -> None:
        reader = reader_of(rpc)
        with pytest.raises(RetriableError, match="10 of 20 was reached"):
            await reader.read_settling(0, 0, take, 1_000)
        assert (reader.position, taken) == (10, list(range(10)))
        await reader.read_settling(0, 0, take, 1_000)
        assert (reader.position, taken) == (20, list(range(20)))

    asyncio.run(read())


def test_what_was_not_taken_is_read_again() -> None:
    rpc = ScriptedRpc(*(fetch_answer(0, (0, 0, ten_records(at))) for at in (0, 0, 10)))

    async def refuse(_: list[RawRecord]) -> None:
        raise DamagedRecordError("no")

    async def take(_: list[RawRecord]) -> None:
        pass

    async def read() -> None:
        reader = reader_of(rpc)
        with pytest.raises(DamagedRecordError):
            await reader.read_settling(0, HANG_MS, refuse, 1_000)
        assert reader.position == 0
        await reader.read_settling(0, HANG_MS, take, 1_000)
        assert reader.position == 20

    asyncio.run(read())


@pytest.mark.parametrize(("earliest", "by_time", "begin"), [(3, 12, 12), (3, -1, 3), (14, 12, 14)])
def test_a_read_begins_with_a_time_only_where_there_is_something_of_it(
    earliest: int, by_time: int, begin: int
) -> None:
    rpc = ScriptedRpc(offsets_answer((0, 0, earliest)), offsets_answer((0, 0, by_time)))
    assert asyncio.run(reader_of(rpc).begin(1_700_000_000_000)) == begin
    assert [request._topics[0][1] for _, request in rpc.sent] == [[(0, -2)], [(0, 1_700_000_000_000)]]
    rpc = ScriptedRpc(offsets_answer((0, 0, earliest)))
    assert asyncio.run(reader_of(rpc).begin(-5)) == earliest

"""A reader of a log asks nobody by an older leader epoch than it has read by, and never reads another
topic."""

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
from kcontrol.errors import TopicError
from tests.support.patience import HANG_MS
from tests.unit.kafka.test_partitions import TOPIC_ID, ScriptedRpc, fetch_answer

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

"""Where outputs end is asked of their leaders alone, whoever leads now, and not for long."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcontrol.adapters.kafka.client.codes import ErrorCode
from kcontrol.adapters.kafka.client.leaders import TopicInfo
from kcontrol.adapters.kafka.read.output_ends import OutputEnds
from kcontrol.errors import AccessError, RetriableError
from tests.support.patience import HANG_S
from tests.unit.kafka.test_partitions import INFO, TOPIC_ID, ScriptedRpc, offsets_answer

MOVED = TopicInfo("t", TOPIC_ID, {0: 2, 1: 2}, {0: 6, 1: 9})


def _asked(rpc: Any, times: int = 1, asked_s: float = HANG_S) -> dict[tuple[str, int], int]:
    async def run() -> dict[tuple[str, int], int]:
        ends = OutputEnds(rpc, asked_s)
        for _ in range(times - 1):
            with pytest.raises(RetriableError):
                await ends.ends({"t": 2})
        return await ends.ends({"t": 2})

    return asyncio.run(run())


@pytest.mark.parametrize(
    "fault",
    [
        RetriableError("no connection to broker 1"),
        offsets_answer((0, ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)),
        offsets_answer((0, ErrorCode.OFFSET_NOT_AVAILABLE, -1)),
    ],
)
def test_where_a_leader_has_moved_it_is_asked_again_and_of_whoever_leads_now(fault: Any) -> None:
    rpc = ScriptedRpc(fault, offsets_answer((0, 0, 30), (1, 0, 31)), infos=(INFO, MOVED))
    assert _asked(rpc, times=2) == {("t", 0): 30, ("t", 1): 31}
    assert [node for node, _ in rpc.sent] == [1, 2]


def test_a_leader_that_says_nothing_is_not_waited_for() -> None:
    class Silent(ScriptedRpc):
        async def send(self, *_: Any) -> Any:
            await asyncio.Event().wait()

    with pytest.raises(RetriableError, match=r"no answer about t within 0\.05 s"):
        _asked(Silent(), asked_s=0.05)


def test_what_may_not_be_seen_is_not_asked_again() -> None:
    with pytest.raises(AccessError, match="where an output ends: topic 't'"):
        _asked(ScriptedRpc(offsets_answer((0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1))))

"""One client for leaders, ends, fetches and batches: what it asks, and what it makes of the answers."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from io import BytesIO
from typing import Any, TypeVar

import pytest
from aiokafka.protocol.offset import OffsetResponse_v3
from aiokafka.protocol.produce import ProduceResponse_v8

from kcontrol.adapters.kafka.client import produce_protocol, protocol
from kcontrol.adapters.kafka.client.codes import ErrorCode, Verdict
from kcontrol.adapters.kafka.client.connections import Lane
from kcontrol.adapters.kafka.client.leaders import NoPartitionError, TopicInfo
from kcontrol.adapters.kafka.client.partitions import Bound, Partitions
from kcontrol.adapters.kafka.client.protocol import FetchPosition, FetchResponse, FetchStruct
from kcontrol.adapters.kafka.client.rights import Operation, Right
from kcontrol.backoff import Backoff
from kcontrol.errors import AccessError, RetriableError
from tests.support.patience import HANG_MS

TOPIC_ID = uuid.UUID(int=7)
INFO = TopicInfo("t", TOPIC_ID, {0: 1, 1: 2}, {0: 5, 1: 9})
_T = TypeVar("_T")


class ScriptedRpc:
    """Answers what it is told to, one after the other; a RetriableError among them is
    raised. Keeps what was asked of whom."""

    def __init__(self, *answers: Any, infos: tuple[TopicInfo, ...] = (INFO,)) -> None:
        self._answers = list(answers)
        self._infos = list(infos)
        self.sent: list[tuple[int, Any]] = []
        self.looked = 0

    async def topic(self, name: str, wanted: Operation = Operation.READ) -> TopicInfo:
        self.looked += 1
        return self._infos.pop(0) if len(self._infos) > 1 else self._infos[0]

    async def send(self, node: int, request: Any, lane: Lane = Lane.PROMPT) -> Any:
        self.sent.append((node, request))
        answer = self._answers.pop(0)
        if isinstance(answer, RetriableError):
            raise answer
        return answer

    def raise_if_denied(self, code: int, right: Right, doing: str = "") -> None:
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise AccessError(f"{doing}: {right.resource}")


def run(rpc: ScriptedRpc, work: Callable[[Partitions], Awaitable[_T]]) -> _T:
    async def main() -> _T:
        return await work(Partitions(rpc))  # type: ignore[arg-type]

    return asyncio.run(main())


def fetch_answer(code: int, *parts: tuple[int, int, bytes]) -> FetchResponse:
    body = [(each, error, 20, 15, 3, [(4, 11, {})], -1, data, {}) for each, error, data in parts]
    sent = FetchResponse(0, code, 0, [(TOPIC_ID, body, {})] if body else [], {})
    return FetchResponse.decode(BytesIO(sent.encode()))


def offsets_answer(*parts: tuple[int, int, int]) -> Any:
    return OffsetResponse_v3(
        throttle_time_ms=0, topics=[("t", [(each, code, -1, offset) for each, code, offset in parts])]
    )


def produce_answer(code: int, offset: int = 40, why: str | None = None) -> Any:
    return ProduceResponse_v8(topics=[("t", [(0, code, offset, -1, 0, [], why)])], throttle_time_ms=0)


@pytest.mark.parametrize(
    ("layout", "path", "names"),
    [
        (protocol.FetchResponse, ("topics", "partitions"), protocol.FetchedPartition),
        (protocol.MetadataResponse, ("topics",), protocol.TopicAnswer),
        (protocol.MetadataResponse, ("topics", "partitions"), protocol.PartitionAnswer),
        (protocol.MetadataResponse, ("brokers",), protocol.BrokerAnswer),
        (OffsetResponse_v3, ("topics", "partitions"), protocol.ListedOffset),
        (ProduceResponse_v8, ("topics", "partitions"), produce_protocol.ProducedPartition),
    ],
)
def test_answers_are_named_as_in_their_layout(layout: Any, path: tuple[str, ...], names: Any) -> None:
    schema = layout.SCHEMA
    for name in path:
        schema = dict(zip(schema.names, schema.fields, strict=True))[name].array_of
    assert tuple(schema.names) == names._fields


def test_every_fetch_names_the_leader_epoch_of_the_metadata_that_it_goes_by() -> None:
    rpc = ScriptedRpc(fetch_answer(0, (0, 0, b"")))
    run(
        rpc,
        lambda client: client.fetch(INFO, 1, [FetchPosition(0, 12, 1_000), FetchPosition(1, 3, 9)], 0, 1_000),
    )
    node, request = rpc.sent[0]
    (topic,) = request.build(FetchStruct).topics
    assert (node, topic[0]) == (1, TOPIC_ID)
    assert [(part[0], part[1], part[2]) for part in topic[1]] == [(0, 5, 12), (1, 9, 3)]


def test_a_fetched_partition_says_what_it_is_by_name() -> None:
    rpc = ScriptedRpc(fetch_answer(0, (0, 0, b"batch")))
    (part,) = run(rpc, lambda client: client.fetch(INFO, 1, [FetchPosition(0, 12, 1_000)], 0, 1_000))
    assert (part.high_watermark, part.last_stable_offset, part.log_start_offset) == (20, 15, 3)
    assert (part.data, part.aborted_transactions) == (b"batch", ((4, 11),))


def test_an_error_of_a_whole_fetch_is_one_of_each_of_its_partitions() -> None:
    rpc = ScriptedRpc(fetch_answer(ErrorCode.UNKNOWN_TOPIC_ID))
    asked = [FetchPosition(0, 12, 1_000), FetchPosition(1, 3, 1_000)]
    parts = run(rpc, lambda client: client.fetch(INFO, 1, asked, 0, 1_000))
    assert [(part.partition, part.error_code, part.data) for part in parts] == [(0, 100, b""), (1, 100, b"")]


def test_ends_are_asked_of_each_leader() -> None:
    rpc = ScriptedRpc(offsets_answer((0, 0, 30)), offsets_answer((1, 0, 31)))
    assert run(rpc, lambda client: client.offsets(INFO, [0, 1], Bound.LATEST)) == {0: 30, 1: 31}
    assert [node for node, _ in rpc.sent] == [1, 2]


def test_ends_that_may_not_be_seen_say_which_right_is_missing() -> None:
    rpc = ScriptedRpc(offsets_answer((0, ErrorCode.TOPIC_AUTHORIZATION_FAILED, -1)))
    with pytest.raises(AccessError, match="step 3: topic 't'"):
        run(rpc, lambda client: client.offsets(INFO, [0], Bound.LATEST, doing="step 3"))


def test_what_a_topics_metadata_said_is_kept_until_it_is_forgotten_or_a_partition_is_missing_in_it() -> None:
    grown = TopicInfo("t", TOPIC_ID, {0: 1, 1: 2, 2: 1}, {0: 5, 1: 9, 2: 0})
    rpc = ScriptedRpc(infos=(INFO, grown))

    async def work(client: Partitions) -> list[int]:
        sizes = [
            len((await client.topic("t")).leaders),
            len((await client.topic("t", partitions=[1])).leaders),
        ]
        sizes.append(len((await client.topic("t", partitions=[2])).leaders))
        client.forget("t")
        await client.topic("t")
        return sizes

    assert run(rpc, work) == [2, 2, 3]
    assert rpc.looked == 3


def write(rpc: ScriptedRpc, partition: int = 0) -> Any:
    tries = Backoff(1, 1, deadline_ms=HANG_MS)
    return run(rpc, lambda client: client.write("t", partition, b"bytes", "tx", "writing", tries.begin()))


def test_a_batch_whose_answer_is_lost_goes_again_to_whoever_leads_now() -> None:
    moved = TopicInfo("t", TOPIC_ID, {0: 2}, {0: 6})
    rpc = ScriptedRpc(RetriableError("broken"), produce_answer(0), infos=(INFO, moved))
    assert write(rpc).base_offset == 40
    assert [node for node, _ in rpc.sent] == [1, 2]


@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_batch_that_came_to_the_wrong_broker_goes_to_whoever_leads_now(code: ErrorCode) -> None:
    moved = TopicInfo("t", TOPIC_ID, {0: 2}, {0: 6})
    rpc = ScriptedRpc(produce_answer(code), produce_answer(0), infos=(INFO, moved))
    assert write(rpc).verdict is Verdict.FINE
    assert [node for node, _ in rpc.sent] == [1, 2]


def test_what_passes_is_waited_out_and_a_leader_that_says_so_again_is_asked_about() -> None:
    rpc = ScriptedRpc(*[produce_answer(ErrorCode.REQUEST_TIMED_OUT)] * 3, produce_answer(0))
    assert write(rpc).verdict is Verdict.FINE
    assert rpc.looked == 3


@pytest.mark.parametrize(
    "code", [ErrorCode.PRODUCER_FENCED, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD]
)
def test_an_answer_that_is_final_is_the_callers(code: ErrorCode) -> None:
    rpc = ScriptedRpc(produce_answer(code, why="because"))
    answer = write(rpc)
    assert (answer.code, answer.message) == (code, "because")


def test_a_batch_for_a_partition_that_is_not_there_is_not_tried_again() -> None:
    with pytest.raises(NoPartitionError, match="partition 5"):
        write(ScriptedRpc(), partition=5)


def test_a_batch_that_nobody_takes_is_given_up_at_the_deadline() -> None:
    rpc = ScriptedRpc(*[produce_answer(ErrorCode.NOT_ENOUGH_REPLICAS)] * 1_000)
    tries = Backoff(1, 1, deadline_ms=30)
    with pytest.raises(RetriableError, match="writing did not succeed within 30 ms: NOT_ENOUGH_REPLICAS"):
        run(rpc, lambda client: client.write("t", 0, b"bytes", None, "writing", tries.begin()))

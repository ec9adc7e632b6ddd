"""Rows that are pushed into an input: each request once in the topic, whoever of its writers dies, and wherever."""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import signal
from collections import Counter
from dataclasses import replace

import pytest

from examples.topic_reading import read_topics
from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.push import log as pushing_log
from kcontrol.adapters.kafka.push.log import KafkaPushLog
from kcontrol.core.model import InputSpec
from kcontrol.errors import InputGoneError
from kcontrol.requests.push.bodies import InputRow
from kcontrol.requests.push.limits import MemoryLimits, OversizedPushError
from kcontrol.requests.push.log import OtherRowsError, Push, Pushed, TooMuchError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.completion import parse_token
from tests.conftest import TopicFactory
from tests.integration.kafka.pushing import PIPELINE, Life, answers, pushed, rows_of
from tests.support.patience import HANG_S
from tests.unit.core.made import SPEC

PARTITIONS = 3
LEAST_WRITES = 5
"""InitProducerId, AddPartitionsToTxn, rows, their request, EndTxn."""


class World:
    """An input, and pushes that nobody else sees."""

    def __init__(self, settings: ClusterSettings, new_topic: TopicFactory, **config: str) -> None:
        """config: of the input's topic."""
        self.settings = settings.model_copy(update={"prefix": f"u{secrets.token_hex(4)}"})
        topic = new_topic("pushed", partitions=PARTITIONS, config=config)
        topic_id = TopicAdmin(settings).get(topic, "the input").topic_id
        self.item: InputSpec = replace(SPEC.inputs[0], topic=topic, topic_id=topic_id, value_format="raw")

    def life(self, request_id: str, **more: int) -> Life:
        return Life(self.settings, self.item, request_id, **more)

    def committed(self) -> dict[bytes, list[tuple[int, int]]]:
        """By row: where it is."""
        found: dict[bytes, list[tuple[int, int]]] = {}
        for message in read_topics(self.settings.bootstrap_servers, [self.item.topic]):
            found.setdefault(message.value(), []).append((message.partition(), message.offset()))
        return found

    def check(self, tokens: dict[str, str]) -> None:
        """Each request's rows are there once, and its token names the last of them in each partition."""
        rows = self.committed()
        assert {row: len(places) for row, places in rows.items()} == {
            row.value: 1 for request_id in tokens for row in rows_of(request_id)
        }
        for request_id, token in tokens.items():
            last = Counter[int]()
            for row in rows_of(request_id):
                [(partition, offset)] = rows[row.value]
                last[partition] = max(last[partition], offset)
            named = {each.partition: each.offset for each in parse_token(token)}
            assert named == dict(last)


@pytest.fixture
def world(settings: ClusterSettings, topic_factory: TopicFactory) -> World:
    return World(settings, topic_factory)


def test_a_request_counts_once_behind_whichever_write_its_writer_dies(world: World) -> None:
    told = answers()
    world.life("whole").start(told).join(HANG_S)
    writes, token, replayed = told.get(timeout=HANG_S)
    assert not replayed
    tokens, deaths = {"whole": token}, 0
    for dies_after in range(writes):
        request_id = f"dies after {dies_after}"
        dead = world.life(request_id, dies_after=dies_after).start()
        dead.join(HANG_S)
        # A request to Kafka that was to be repeated is another write: the next life may need fewer.
        assert dead.exitcode in (0, -signal.SIGKILL)
        deaths += dead.exitcode != 0
        # Two clients that lost patience, with two servers.
        found = asyncio.run(_both(world, request_id))
        assert found[0].request == found[1].request
        assert found[0].replayed or found[1].replayed
        tokens[request_id] = found[0].request.token
    assert deaths >= LEAST_WRITES
    world.check(tokens)


async def _both(world: World, request_id: str) -> list[Pushed]:
    return list(await asyncio.gather(*(pushed(world.settings, world.item, request_id) for _ in range(2))))


def test_servers_that_take_the_shards_from_each_other_write_each_request_once(world: World) -> None:
    seed = random.randrange(2**32)
    logging.getLogger(__name__).warning("seed %d", seed)
    choose = random.Random(seed)
    requests = [f"request {number}" for number in range(12)]

    async def run() -> dict[str, str]:
        logs = [KafkaPushLog(world.settings, SystemClock()) for _ in range(2)]
        try:
            asked = [(each, log) for each in requests for log in logs if choose.random() < 0.7]
            asked += [(each, logs[0]) for each in requests]
            choose.shuffle(asked)
            found = await asyncio.gather(
                *(log.push(Push(PIPELINE, world.item, each, rows_of(each))) for each, log in asked)
            )
        finally:
            await asyncio.gather(*(log.close() for log in logs))
        tokens: dict[str, str] = {}
        for (each, _), one in zip(asked, found, strict=True):
            assert tokens.setdefault(each, one.request.token) == one.request.token
        assert Counter(one.replayed for one in found)[False] == len(requests)
        return tokens

    world.check(asyncio.run(run()))


def test_what_is_refused_writes_nothing_and_holds_nobody_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        log = KafkaPushLog(world.settings, SystemClock(), MemoryLimits(requests=2))
        try:
            whole = Push(PIPELINE, world.item, "a", rows_of("a"))
            assert not (await log.push(whole)).replayed
            with pytest.raises(OtherRowsError, match="has pushed 6 other rows to input 'in' already"):
                await log.push(replace(whole, rows=rows_of("b")))
            with pytest.raises(OversizedPushError, match=r"2097152 bytes .* raise its max\.message\.bytes"):
                await log.push(
                    Push(PIPELINE, world.item, "large", [*rows_of("large"), InputRow(None, bytes(2 << 20))])
                )
            with pytest.raises(InputGoneError, match="was recreated"):
                await log.push(
                    Push(PIPELINE, replace(world.item, topic_id="another"), "gone", rows_of("gone"))
                )
            with monkeypatch.context() as fewer:
                fewer.setattr(pushing_log, "MAX_TOKEN_RECORDS", 1)
                with pytest.raises(
                    OversizedPushError, match="of 3 partitions, and a completion token names 1"
                ):
                    await log.push(Push(PIPELINE, world.item, "wide", rows_of("wide")))
            await log.push(Push(PIPELINE, world.item, "c", rows_of("c")))
            with pytest.raises(TooMuchError, match="2 requests are remembered, which is all that may be"):
                await log.push(Push(PIPELINE, world.item, "d", rows_of("d")))
            assert (await log.push(whole)).replayed
        finally:
            await log.close()

    asyncio.run(run())
    rows = world.committed()
    assert set(rows) == {row.value for each in ("a", "c") for row in rows_of(each)}


def test_a_topic_that_takes_only_small_batches_takes_rows_that_fit(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    world = World(settings, topic_factory, **{"max.message.bytes": "10000"})
    rows = [InputRow(None, b"%04d" % number * 500) for number in range(17)]

    async def run() -> Pushed:
        log = KafkaPushLog(world.settings, SystemClock())
        try:
            with pytest.raises(
                OversizedPushError, match="a row of 10001 bytes is larger than the topic takes"
            ):
                await log.push(Push(PIPELINE, world.item, "large", [*rows, InputRow(None, bytes(10_001))]))
            first = await log.push(Push(PIPELINE, world.item, "a", rows))
            again = await log.push(Push(PIPELINE, world.item, "a", rows))
            assert (first.replayed, again.replayed) == (False, True)
            return first
        finally:
            await log.close()

    pushed_rows = asyncio.run(run()).request
    found = world.committed()
    places = [found[row.value] for row in rows]
    assert found.keys() == {row.value for row in rows}
    assert [len(each) for each in places] == [1] * len(rows)
    assert [offset for [(_, offset)] in places] == sorted(offset for [(_, offset)] in places), (
        "in their order"
    )
    assert (pushed_rows.ends[0].partition, pushed_rows.ends[0].offset) == places[-1][0]

"""What nodes sent each other in steps that the log has dropped is deleted, and not a record more."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Sequence
from dataclasses import replace

import pytest

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.exchange.attempt import StepTransaction
from kcontrol.adapters.kafka.exchange.purge import KafkaExchangePurge
from kcontrol.adapters.kafka.exchange.reader import ExchangeReader, Sent
from kcontrol.adapters.kafka.exchange.topic import ensure_exchange_topic
from kcontrol.adapters.kafka.exchange.writer import ExchangeWriter
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.core.model import ExchangeSlice, ExchangeSpec, StepBoundary
from kcontrol.errors import AccessError, ClusterError, InputGoneError
from kcontrol.settings.cluster import ClusterSettings
from tests.integration.exchanges import NAME, SCHEMA, SMALL, hashes_of, nodes_of, rows_of, runs_for, wanted
from tests.support.owning import commit_at_end
from tests.support.samples import boundary
from tests.support.transactions import TRANSACTION_MS

PIPELINE, SLOTS = "flights", 3


class Stage:
    """A pipeline's log and one exchange."""

    def __init__(self, settings: ClusterSettings) -> None:
        self.settings = settings.model_copy(update={"prefix": f"p{secrets.token_hex(4)}"})
        ensure_topics(self.settings, PIPELINE)
        made = ensure_exchange_topic(TopicAdmin(self.settings), self.settings, PIPELINE, NAME, SLOTS)
        self.exchange = ExchangeSpec(NAME, made.name, made.topic_id, ("user",), "x.send", 0)
        self.boundaries: dict[int, StepBoundary] = {}

    def steps(self, first: int, slots: Sequence[Sequence[int]]) -> None:
        asyncio.run(self._steps(first, slots))

    async def _steps(self, first: int, slots: Sequence[Sequence[int]]) -> None:
        transaction = KafkaTransaction(self.settings, PIPELINE)
        try:
            for step, used in enumerate(slots, first):
                producer = await transaction.init_producer(TRANSACTION_MS)
                where = [(self.exchange.topic, slot) for slot in range(SLOTS)]
                await transaction.add_partitions(
                    *producer, [*where, (self.settings.names().steps_topic(PIPELINE), 0)]
                )
                pieces = [await asyncio.to_thread(self._send, producer, step, slot) for slot in used]
                made = replace(boundary(PIPELINE, step, producer), exchanges=tuple(pieces))
                await commit_at_end(self.settings, transaction, producer, made)
                self.boundaries[step] = made
            await transaction.init_producer(TRANSACTION_MS)
        finally:
            await transaction.close()

    def _send(self, producer: tuple[int, int], step: int, slot: int) -> ExchangeSlice:
        who = StepTransaction(self.settings.names().transactional_id(PIPELINE), *producer, step)
        writer = ExchangeWriter(self.settings, who, NAME, self.exchange.topic, slot, 2, limits=SMALL)
        rows = self.rows(step, slot)
        writer.write(rows, nodes_of(rows, 2), *hashes_of(rows))
        sent = writer.finish()
        assert sent is not None
        return sent

    def rows(self, step: int, slot: int):  # type: ignore[no-untyped-def]
        return rows_of(200, seed=10 * step + slot)

    def purge(self, first_step: int, dropped: Sequence[int] = ()) -> None:
        asyncio.run(KafkaExchangePurge(self.settings, PIPELINE).purge([self.exchange], first_step, dropped))

    def begins(self) -> tuple[int, ...]:
        return TopicAdmin(self.settings).offsets(self.exchange.topic, SLOTS).earliest

    def sent(self, step: int, slot: int) -> ExchangeSlice:
        return next(piece for piece in self.boundaries[step].exchanges if piece.partition == slot)

    def read(self, step: int, slot: int) -> list[dict[str, object]]:
        token = self.boundaries[step].token
        by = Sent(step, 0, token.producer_id, token.producer_epoch, committed=True)
        reader = ExchangeReader(self.settings, NAME, self.exchange.topic, self.exchange.topic_id, SCHEMA)
        return [
            row for batch in reader.read(runs_for(0, self.sent(step, slot)), by) for row in batch.to_pylist()
        ]


@pytest.fixture
def stage(settings: ClusterSettings) -> Stage:
    return Stage(settings)


def test_what_was_sent_before_the_oldest_step_goes_and_the_rest_is_read_as_before(stage: Stage) -> None:
    stage.steps(1, [[0, 1], [0, 1], [0, 1], [0], [0, 1]])
    stage.purge(3)
    assert stage.begins() == (stage.sent(3, 0).from_, stage.sent(3, 1).from_, 0)
    for step in (3, 5):
        for slot in (0, 1):
            assert stage.read(step, slot) == wanted(stage.rows(step, slot), 0)
    with pytest.raises(InputGoneError, match=f"exchange '{NAME}'"):
        stage.read(2, 0)
    stage.purge(3)
    stage.purge(2)
    assert stage.begins() == (stage.sent(3, 0).from_, stage.sent(3, 1).from_, 0)


def test_a_slot_that_the_oldest_step_did_not_use_keeps_what_it_has_until_one_did(stage: Stage) -> None:
    stage.steps(1, [[0, 2], [0], [0], [0, 2]])
    asyncio.run(KafkaExchangePurge(stage.settings, PIPELINE).purge([stage.exchange], 4))
    assert stage.begins() == (stage.sent(4, 0).from_, 0, stage.sent(4, 2).from_)
    stage.steps(5, [[0]])
    stage.purge(5)
    assert stage.begins()[2] == stage.sent(4, 2).from_


def test_what_a_node_that_is_left_out_has_sent_goes_with_its_last_step(stage: Stage) -> None:
    """Its slots are written by nobody any more, so that no oldest step ever says where they begin."""
    stage.steps(1, [[0, 1, 2], [0, 1, 2], [0], [0, 2], [0]])
    stage.purge(2, [1])
    assert stage.begins() == tuple(stage.sent(2, slot).from_ for slot in range(3))
    stage.purge(3, [2])
    assert stage.begins() == (stage.sent(3, 0).from_, stage.sent(2, 1).to, stage.sent(4, 2).from_)
    assert stage.read(4, 2) == wanted(stage.rows(4, 2), 0), "a later step has written there"
    stage.purge(5, [3, 4])
    assert stage.begins() == (stage.sent(5, 0).from_, stage.sent(2, 1).to, stage.sent(4, 2).to)


def test_what_is_under_way_in_a_slot_that_the_oldest_step_did_not_use_stays(stage: Stage) -> None:
    """An attempt by a new layout: nothing of it is in the log yet."""
    stage.steps(1, [[0, 2], [0, 2], [0]])

    async def under_way() -> None:
        transaction = KafkaTransaction(stage.settings, PIPELINE)
        try:
            producer = await transaction.init_producer(TRANSACTION_MS)
            await transaction.add_partitions(*producer, [(stage.exchange.topic, 2)])
            sent = await asyncio.to_thread(stage._send, producer, 4, 2)
            await KafkaExchangePurge(stage.settings, PIPELINE).purge([stage.exchange], 3, [1, 2])
            by = Sent(4, 0, *producer, committed=False)
            where = NAME, stage.exchange.topic, stage.exchange.topic_id, SCHEMA
            rows = await asyncio.to_thread(
                lambda: [
                    row
                    for batch in ExchangeReader(stage.settings, *where).read(runs_for(0, sent), by)
                    for row in batch.to_pylist()
                ]
            )
            assert rows == wanted(stage.rows(4, 2), 0)
        finally:
            await transaction.close()

    asyncio.run(under_way())
    assert stage.begins()[2] == stage.sent(2, 2).to


def test_a_topic_that_is_another_one_now_is_left_alone(stage: Stage) -> None:
    stage.steps(1, [[0], [0]])
    right = stage.exchange
    for wrong in (replace(right, topic_id="AAAAAAAAAAAAAAAAAAAAAA"), replace(right, topic="no-such-topic")):
        stage.exchange = wrong
        stage.purge(2)
    stage.exchange = right
    assert stage.begins() == (0, 0, 0)


def test_without_the_right_it_is_said_once_and_a_fault_is_made_up_for_later(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stage.steps(1, [[0], [0]])
    asked: list[str] = []
    fault: Exception = ClusterError("no answer")

    def refuse(_admin: TopicAdmin, name: str, _offsets: object) -> None:
        asked.append(name)
        raise fault

    purge = KafkaExchangePurge(stage.settings, PIPELINE)
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "kcontrol"):
        patched.setattr(TopicAdmin, "delete_before", refuse)
        asyncio.run(purge.purge([stage.exchange], 2))
        assert caplog.records == []
        fault = AccessError("not allowed")
        for _ in range(3):
            asyncio.run(purge.purge([stage.exchange], 2))
    assert len(asked) == 2
    (record,) = caplog.records
    assert (
        "what its exchanges need no more stays, until their topics' own retention: not allowed"
        in record.getMessage()
    )
    stage.purge(2)
    assert stage.begins()[0] == stage.sent(2, 0).from_

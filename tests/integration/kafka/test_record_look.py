"""What a broker has at an offset of an input: a record, one that was aborted, a marker, or nothing any
more."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.read.record_look import KafkaRecordLook
from kcontrol.core.model import InputSlice, StepBoundary
from kcontrol.sessions.ports import Held
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.completion import Completion, CompletionState, InputRecord
from kcontrol.views.fates import fates
from tests.conftest import TopicFactory
from tests.support.patience import HANG_S
from tests.support.transactions import abort_then_commit
from tests.unit.core.made import SPEC, boundary

_DEADLINE_S = HANG_S


def _fill(settings: ClusterSettings, topic: str) -> None:
    """Offsets 0 to 4 plain, 5 and 6 aborted, 7 its marker, 8 and 9 committed, 10 its
    marker; then 0 and 1 are deleted."""
    plain = Producer({"bootstrap.servers": settings.bootstrap_servers})
    for _ in range(5):
        plain.produce(topic, b"x", partition=0)
    assert plain.flush(_DEADLINE_S) == 0
    abort_then_commit(settings, topic, 0)
    where = TopicPartition(topic, 0, 2)
    admin = AdminClient({"bootstrap.servers": settings.bootstrap_servers})
    admin.delete_records([where])[where].result(_DEADLINE_S)


def test_a_record_is_told_from_an_aborted_one_a_marker_and_one_that_was_deleted(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("looked")
    _fill(settings, topic)
    found = TopicAdmin(settings).get(topic, "input")
    item = replace(SPEC.inputs[0], topic=topic, topic_id=found.topic_id, start_offsets=(0,), node_of=(0,))
    look = KafkaRecordLook(settings)

    async def held() -> list[Held | str]:
        return [await look.holds(item, 0, offset) for offset in range(11)]

    gone, record, aborted, marker = Held.GONE, Held.RECORD, Held.ABORTED, Held.MARKER
    expected = [gone, gone, record, record, record, aborted, aborted, marker, record, record, marker]
    assert asyncio.run(held()) == expected
    assert asyncio.run(look.holds(replace(item, topic_id="A" * 22), 0, 3)) is Held.GONE
    assert "no Kafka topic id" in str(asyncio.run(look.holds(replace(item, topic_id="T1"), 0, 3))).replace(
        "not a", "no"
    )

    made = boundary(1)
    slice_ = InputSlice("in", topic, found.topic_id, 0, 0, 11, 7, "0" * 32)

    def states(step: StepBoundary) -> list[str]:
        async def boundary_of(_: Completion) -> StepBoundary:
            return step

        asked = [
            Completion(InputRecord(topic, 0, offset), "in", CompletionState.COMMITTED, 1)
            for offset in (0, 3, 5, 9, 10)
        ]
        told = asyncio.run(fates(replace(SPEC, inputs=(item,)), asked, boundary_of, look))
        return [one.state.value + ("?" if one.note else "") for one in told]

    # The step has read all of them, or began after the first two had gone.
    assert states(replace(made, inputs=(slice_,))) == [
        "committed?",
        "committed",
        "aborted",
        "committed",
        "no record",
    ]
    later = replace(made, inputs=(replace(slice_, records=5, from_=2),))
    assert states(later)[1:] == ["committed", "aborted", "committed", "no record"]

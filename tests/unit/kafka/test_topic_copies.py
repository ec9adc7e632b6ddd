"""To which topics a replay may write, which partition a record gets there, and what is
said when Kafka does not take it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from kcontrol.apps.topic_copies import CopyLimits, CopyTopic, TopicCopies, check_copies, partition_for
from kcontrol.errors import ClusterError, ConfigurationError, NotFoundError
from kcontrol.replay.delivery import ReplayedRecord
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.murmur2 import partition_of
from kcontrol.wire.names import Names
from tests.support.replayed import record, replayed
from tests.unit.core.made import SPEC

NAMES = Names(overrides={"steps_topic": "{pipeline}-log"})
OTHER = replace(SPEC, pipeline="q", outputs=(replace(SPEC.outputs[0], name="sums", topic="q-sums"),))


def check(wanted: dict[str, str]) -> None:
    check_copies(wanted, SPEC, [SPEC, OTHER], NAMES)


def test_a_topic_of_its_own_will_do() -> None:
    check({"out": "mine"})


@pytest.mark.parametrize(
    ("topic", "whose"),
    [
        ("output", "output 'out' of pipeline 'p'"),
        ("q-sums", "output 'sums' of pipeline 'q'"),
        ("p-log", "the steps topic of pipeline 'p'"),
        ("q-log", "the steps topic of pipeline 'q'"),
        ("kcontrol.control", "the control topic"),
    ],
)
def test_a_topic_with_readers_who_expect_each_step_once_is_refused(topic: str, whose: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"--topic out={topic}: the topic is {whose}, .* give it a topic of its own"
    ):
        check({"out": topic})


def test_an_output_that_is_not_there_is_named() -> None:
    with pytest.raises(NotFoundError, match="pipeline 'p' has no output 'sums'; it has out"):
        check({"sums": "mine"})


def test_partitions_stay_where_the_counts_agree_and_follow_the_key_elsewhere() -> None:
    assert partition_for(record(partition=2, key=b"elsewhere"), recorded_count=3, count=3) == 2
    for key in (b"", b"a", b"bcd"):
        assert partition_for(record(partition=2, key=key), recorded_count=3, count=7) == partition_of(key, 7)
    assert partition_for(record(partition=5, key=None), recorded_count=6, count=4) == 1


def test_silence_of_kafka_is_an_error_that_says_where() -> None:
    copies = TopicCopies(
        ClusterSettings(bootstrap_servers="127.0.0.1:1"),
        {"totals": CopyTopic("mine", 3)},
        CopyLimits(deadline_ms=200),
    )
    assert copies.deliver(replayed(1, record("copies"))) == 0, "an output without a topic is passed over"
    with pytest.raises(ClusterError, match="step 2, output 'totals' to topic 'mine', partition 1"):
        copies.deliver(replayed(2, record("totals", partition=1)))
    copies.close()


def test_what_waits_for_kafka_is_bounded() -> None:
    limits = CopyLimits(buffer_bytes=64 << 10, deadline_ms=300)
    copies = TopicCopies(
        ClusterSettings(bootstrap_servers="127.0.0.1:1"), {"totals": CopyTopic("mine", 3)}, limits
    )
    taken = 0

    def many() -> Iterator[ReplayedRecord]:
        nonlocal taken
        for _ in range(100):
            taken += 1
            yield record("totals", value=bytes(8 << 10))

    with pytest.raises(ClusterError, match="step 1, output 'totals'"):
        copies.deliver(replace(replayed(1), records=many()))
    assert taken < 15
    copies.close()

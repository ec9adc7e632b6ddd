"""Who leads what, by one answer; what is missing is said in one sentence."""

from __future__ import annotations

import uuid

import pytest

from kcontrol.adapters.kafka.client.leaders import NoLeaderError, NoPartitionError, TopicInfo

INFO = TopicInfo("t", uuid.UUID(int=1), {0: 1, 1: 2, 2: 1, 3: -1}, {0: 5, 1: 5, 2: 6, 3: 7})


def test_partitions_are_grouped_by_the_node_that_leads_them() -> None:
    assert INFO.by_node([0, 1, 2]) == {1: [0, 2], 2: [1]}
    assert INFO.leader(1) == 2


def test_a_partition_without_a_leader_is_a_passing_fault() -> None:
    assert INFO.led([0, 3]).by_nobody == [3]
    with pytest.raises(NoLeaderError, match=r"^topic 't', partition 3 has no leader$"):
        INFO.leader(3)


def test_a_partition_that_is_not_there_is_an_error_of_the_topic() -> None:
    with pytest.raises(
        NoPartitionError, match=r"^topic 't', partition 4: there is no such partition; the topic has 4.$"
    ):
        INFO.by_node([0, 4])

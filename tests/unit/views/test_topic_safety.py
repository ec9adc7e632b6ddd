"""What is said of topics that are not safe enough for exactly once."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from kcontrol.views.topic_safety import TopicSafety, TopicSettings, unsafe

SETTINGS = TopicSettings(min_in_sync=2, unclean_election=False, cleanup="compact")
SAFE = TopicSafety("the steps topic", "kcontrol.p.steps", compacted=True, replication=3, settings=SETTINGS)


def _with(**changes: object) -> TopicSafety:
    return replace(SAFE, settings=replace(SETTINGS, **changes))  # type: ignore[arg-type]


def test_a_safe_topic_gives_no_word() -> None:
    assert unsafe(3, [SAFE]) == []
    assert unsafe(5, [SAFE]) == []


def test_one_broker_is_said_once_and_gently() -> None:
    alone = replace(_with(min_in_sync=1), replication=1)
    assert unsafe(1, [alone, alone, alone]) == [
        "one broker: a lost disk loses the log, and all that is not saved elsewhere"
    ]


@pytest.mark.parametrize(
    ("brokers", "topic", "said"),
    [
        (3, replace(SAFE, replication=1), "is replicated once: .* with 3 brokers let it be 3 times"),
        (
            4,
            replace(_with(min_in_sync=1), replication=2),
            "is replicated twice: .* with 4 brokers let it be 3 times",
        ),
        (2, replace(_with(min_in_sync=1), replication=1), "with 2 brokers let it be twice"),
        (
            3,
            _with(min_in_sync=1),
            "min.insync.replicas=1: what a single broker has acknowledged is lost with it; set it to 2",
        ),
        (
            3,
            _with(min_in_sync=3),
            "min.insync.replicas=3 and as many replicas: it takes no write while .* set it to 2",
        ),
        (3, _with(unclean_election=True), "unclean.leader.election.enable=true"),
        (
            3,
            _with(cleanup="compact,delete"),
            "cleanup.policy=compact,delete: records that are needed would be deleted",
        ),
        (3, replace(SAFE, settings=None, unknown="no right"), "its settings can't be looked at .no right."),
    ],
)
def test_each_thing_that_is_not_safe_is_named_with_its_topic_and_remedy(
    brokers: int, topic: TopicSafety, said: str
) -> None:
    (sentence,) = unsafe(brokers, [SAFE, topic])
    assert sentence.startswith("the steps topic 'kcontrol.p.steps' ")
    assert re.search(said, sentence)


def test_a_users_topic_may_delete() -> None:
    assert unsafe(3, [replace(_with(cleanup="delete"), compacted=False)]) == []

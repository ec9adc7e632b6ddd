"""A peer's speed is from commit to commit, without its warm-up and without the last commit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from bench.peers import progress
from bench.peers.progress import Look, Progress, records_per_s


def test_the_first_third_and_the_last_commit_do_not_count() -> None:
    looks = [Look(1, 100), Look(20, 400), Look(21, 500), Look(23, 800), Look(90, 1_000)]
    assert records_per_s(looks, 1_000) == 400 / 3


def test_too_few_commits_are_no_figure_but_an_error() -> None:
    with pytest.raises(RuntimeError, match=r"only 2 commits .* a backlog of 1,000 records is too small"):
        records_per_s([Look(1, 100), Look(2, 400), Look(3, 700), Look(4, 1_000)], 1_000)


class ScriptedConsumer:
    """What a broker answers, by a script: the committed offset of each partition, or an error."""

    def __init__(self, *answers: int | KafkaException) -> None:
        self._answers = iter(answers)

    def committed(self, partitions: Sequence[TopicPartition], timeout: float) -> list[TopicPartition]:
        answer = next(self._answers)
        if isinstance(answer, KafkaException):
            raise answer
        return [TopicPartition(each.topic, each.partition, answer) for each in partitions]


def refused(code: int) -> KafkaException:
    return KafkaException(KafkaError(code))


def scripted(monkeypatch: pytest.MonkeyPatch, *answers: int | KafkaException) -> Progress:
    monkeypatch.setattr(progress, "Consumer", lambda _settings: ScriptedConsumer(*answers))
    monkeypatch.setattr(progress, "AdminClient", lambda _settings: None)
    return Progress("", "group", "source", "sink", 2)


def test_a_coordinator_that_is_being_found_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    coming_up = refused(KafkaError.NOT_COORDINATOR), refused(KafkaError.COORDINATOR_LOAD_IN_PROGRESS)
    seen = scripted(monkeypatch, coming_up[0], 7, coming_up[1], 8)
    assert [seen.committed() for _ in range(4)] == [0, 14, 14, 16]


def test_another_answer_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = scripted(monkeypatch, refused(KafkaError.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(KafkaException):
        seen.committed()

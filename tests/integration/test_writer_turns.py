"""Several writers in the same partitions of one transaction, on a real broker: what they wrote is there, once, each
one's records in their order, whatever becomes of answers, leaders and writers."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pytest

from kcontrol.adapters.kafka.embedded import EmbeddedCluster
from kcontrol.adapters.kafka.write.turns import WriteTurn
from kcontrol.adapters.kafka.write.writer import TransactionWriter, WriteLimits
from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.core.model import FailureKind, OutputSlice
from kcontrol.errors import StepFailedError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.conftest import BehindProxy
from tests.integration.data_path import DEADLINE_S, Owner, consume
from tests.support.proxy import PRODUCE, Cut
from tests.support.topics import create_topic
from tests.unit.spark.works import work

NOW_MS = int(time.time() * 1000)
SMALL = WriteLimits(max_batch_bytes=1_000, buffer_bytes=4_000)
TURN_S = DEADLINE_S


class LedgerTurns:
    """As `ChannelTurns`, without a channel."""

    def __init__(self, attempt: AttemptLedger, writer: int) -> None:
        self._attempt, self._writer = attempt, writer
        attempt.grant_turns("q", writer, task_attempt=writer, attempt_number=0)

    def take(self, back: Sequence[WriteTurn], wanted: Sequence[int]) -> Sequence[WriteTurn]:
        return self._attempt.take_turns(
            "q", self._writer, self._writer, "out", tuple(back), tuple(wanted), TURN_S
        )


class Writers:
    """So many writers of one attempt, each on a thread of its own."""

    def __init__(
        self,
        settings: ClusterSettings,
        owner: Owner,
        topic: str,
        partitions: int,
        writers: int,
        limits: WriteLimits = SMALL,
        compression: str = "none",
    ) -> None:
        self.attempt = AttemptLedger(1, work(), None, frozenset({"q"}))
        self.failures: dict[int, BaseException] = {}
        self._partitions = partitions
        self.writers = [
            TransactionWriter(
                settings, owner.transactional_id, *owner.producer, 3, NOW_MS, "out", topic, partitions,
                limits=limits, compression=compression, turns=LedgerTurns(self.attempt, number),
            )
            for number in range(writers)
        ]  # fmt: skip

    def run(self, rows: int, between: Mapping[int, Callable[[], None]] | None = None) -> None:
        """Each writer writes so many rows, dealt over all partitions, and reports."""
        threads = [
            threading.Thread(target=self._write, args=(number, rows, (between or {}).get(number)))
            for number in range(len(self.writers))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()

    def written(self) -> tuple[OutputSlice, ...]:
        assert not self.failures, self.failures
        return self.attempt.written("q")

    def _write(self, number: int, rows: int, between: Callable[[], None] | None) -> None:
        writer = self.writers[number]
        try:
            for start in range(0, rows, 20):
                if between is not None:
                    between()
                names = [f"{number}.{row}".encode().ljust(60, b".") for row in range(start, start + 20)]
                numbers = np.arange(20, dtype=np.int32) % self._partitions
                writer.write(pa.record_batch({"value": pa.array(names)}), numbers)
            self.attempt.report_written("q", number, number, tuple(writer.finish()))
        except BaseException as error:  # noqa: BLE001 - the test looks at it
            self.failures[number] = error
            if isinstance(error, StepFailedError):
                self.attempt.fail(error.kind, str(error))
            writer.abort()


def assert_all_there(
    settings: ClusterSettings, topic: str, slices: Sequence[OutputSlice], writers: int, rows: int
) -> None:
    """Every row once, those of a writer in their order in each partition, in the range that was said."""
    total = 0
    for item in slices:
        found = consume(settings, topic, item.partition)
        assert [message.offset() for message in found] == list(range(item.from_, item.to))
        assert len(found) == item.records
        names = [tuple(map(int, message.value().rstrip(b".").split(b"."))) for message in found]
        for number in range(writers):
            own = [row for writer, row in names if writer == number]
            assert own == sorted(set(own))
        total += len(set(names))
    assert total == writers * rows


@pytest.mark.parametrize(("writers", "partitions"), [(2, 2), (3, 1), (2, 20)])
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_writers_of_the_same_partitions(
    settings: ClusterSettings, topic_factory: TopicFactory, writers: int, partitions: int, compression: str
) -> None:
    topic = topic_factory("turns", partitions)
    owner = Owner(settings)
    owner.begin([(topic, partition) for partition in range(partitions)])
    them = Writers(settings, owner, topic, partitions, writers, compression=compression)
    them.run(600)
    slices = them.written()
    owner.end(commit=True)
    assert_all_there(settings, topic, slices, writers, 600)


def test_batches_that_the_topic_does_not_take_whole(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("turns-shrink", 2, config={"max.message.bytes": "2000"})
    owner = Owner(settings)
    owner.begin([(topic, partition) for partition in range(2)])
    them = Writers(settings, owner, topic, 2, 2, WriteLimits(max_batch_bytes=20_000))
    them.run(600)
    slices = them.written()
    owner.end(commit=True)
    assert_all_there(settings, topic, slices, 2, 600)


@pytest.mark.parametrize("cut", list(Cut))
def test_answers_that_are_lost_within_a_turn(behind_proxy: BehindProxy, cut: Cut) -> None:
    direct, proxy, topic = behind_proxy.direct, behind_proxy.proxy, behind_proxy.topic("turns-lost")
    owner = Owner(direct)
    owner.begin([(topic, 0)])
    rng = random.Random(8)
    them = Writers(behind_proxy.through, owner, topic, 1, 2)

    def sometimes() -> None:
        if rng.random() < 0.3:
            proxy.cut_next(PRODUCE, cut)

    them.run(300, {0: sometimes, 1: sometimes})
    slices = them.written()
    owner.end(commit=True)
    assert_all_there(direct, topic, slices, 2, 300)


def test_leaders_that_change_between_two_writers(whole_cluster3: EmbeddedCluster) -> None:
    settings = whole_cluster3.settings
    topic = "turns-leaders"
    create_topic(settings, topic)
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    them = Writers(
        settings,
        owner,
        topic,
        1,
        2,
        WriteLimits(max_batch_bytes=1_000, deadline_ms=round(DEADLINE_S * 1_000)),
    )
    parts = itertools.count(1)

    def kill_in_the_middle() -> None:
        if next(parts) == 50:
            whole_cluster3.brokers[whole_cluster3.leader(topic)].kill()

    them.run(2_000, {0: kill_in_the_middle})
    slices = them.written()
    owner.end(commit=True)
    assert_all_there(settings, topic, slices, 2, 2_000)


def test_a_writer_that_is_stopped_in_its_turn_ends_the_attempt_for_all(
    settings: ClusterSettings, topic_factory: TopicFactory
) -> None:
    topic = topic_factory("turns-killed")
    owner = Owner(settings)
    owner.begin([(topic, 0)])
    them = Writers(settings, owner, topic, 1, 2)
    turns = LedgerTurns(them.attempt, 2)
    (turn,) = turns.take((), (0,))
    waiting = threading.Thread(target=them.run, args=(200,))
    waiting.start()
    them.attempt.fail(FailureKind.LOST, "the task that had the turn was killed")
    waiting.join(DEADLINE_S)
    assert not waiting.is_alive()
    assert {type(error) for error in them.failures.values()} == {StepFailedError}
    assert (turn.partition, turn.sequence) == (0, 0)
    owner.end(commit=False)
    assert consume(settings, topic) == []

"""Writers of one query that share partitions: what ends the attempt, and what they wrote together."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from kcontrol.adapters.kafka.write.turns import UNKNOWN_END, WriteTurn
from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.core.model import FailureKind, OutputSlice
from kcontrol.errors import StepFailedError
from tests.support.patience import HANG_S
from tests.unit.spark.works import work

TURN_S = DEADLINE_S = HANG_S
FIRST = (WriteTurn(0, 0, UNKNOWN_END),)


def attempt(writers: int = 2) -> AttemptLedger:
    it = AttemptLedger(7, work(), None, frozenset({"q"}))
    for number in range(writers):
        it.grant_turns("q", number, task_attempt=10 + number, attempt_number=0)
    return it


def take(
    it: AttemptLedger,
    writer: int,
    back: tuple[WriteTurn, ...] = (),
    wanted: tuple[int, ...] = (0,),
    turn_s: float = TURN_S,
) -> tuple[WriteTurn, ...]:
    return it.take_turns("q", writer, 10 + writer, "out", back, wanted, turn_s)


def wrote(from_: int, to: int, records: int, digest: int) -> OutputSlice:
    return OutputSlice("out", "out-topic", 0, from_, to, records, f"{digest:032x}")


def test_a_turn_begins_where_the_one_before_has_ended() -> None:
    it = attempt()
    assert take(it, 0) == FIRST
    found: list[tuple[WriteTurn, ...]] = []
    other = threading.Thread(target=lambda: found.append(take(it, 1)))
    other.start()
    assert take(it, 0, back=(WriteTurn(0, 30, 130),), wanted=()) == ()
    other.join(DEADLINE_S)
    assert found == [(WriteTurn(0, 30, 130),)]


def test_what_writers_wrote_is_said_once_for_each_partition() -> None:
    it = attempt()
    take(it, 0)
    take(it, 0, back=(WriteTurn(0, 3, 103),), wanted=())
    take(it, 1)
    take(it, 1, back=(WriteTurn(0, 5, 105),), wanted=())
    take(it, 0)
    take(it, 0, back=(WriteTurn(0, 9, 109),), wanted=())
    it.report_written("q", 0, 10, (wrote(100, 109, 7, 2**128 - 1),))
    it.report_written("q", 1, 11, (wrote(103, 105, 2, 3),))
    assert it.written("q") == (wrote(100, 109, 9, 2),)


def test_records_that_were_not_written_in_a_turn_end_the_attempt() -> None:
    it = attempt(1)
    take(it, 0)
    take(it, 0, back=(WriteTurn(0, 3, 103),), wanted=())
    it.report_written("q", 0, 10, (wrote(100, 104, 4, 1),))
    with pytest.raises(StepFailedError, match="say that they wrote 4 records up to offset 104") as failed:
        it.written("q")
    assert failed.value.kind == FailureKind.LOST


@pytest.mark.parametrize(
    ("writer", "back", "wanted", "why"),
    [
        (1, FIRST, (), "writer 1 of query 'q' gives back a turn in partition 0 that it does not have"),
        (0, (), (1,), "writer 0 of query 'q' wants turns before it has given back"),
        (0, (WriteTurn(0, 3, -2),), (), "gives back partition 0 at offset -2"),
    ],
)
def test_who_does_not_keep_to_the_rules_ends_the_attempt(
    writer: int, back: tuple[WriteTurn, ...], wanted: tuple[int, ...], why: str
) -> None:
    it = attempt()
    take(it, 0)
    with pytest.raises(StepFailedError, match=why) as failed:
        take(it, writer, back, wanted)
    assert failed.value.kind == FailureKind.LOST
    with pytest.raises(StepFailedError, match="over"):
        take(it, 1)


def test_a_zombie_gets_no_turn() -> None:
    it = attempt()
    with pytest.raises(
        StepFailedError, match="task 99 takes turns as writer 0 of query 'q', and has no leave"
    ):
        it.take_turns("q", 0, 99, "out", (), (0,), TURN_S)
    it = attempt()
    it.report_written("q", 0, 10, ())
    with pytest.raises(StepFailedError, match="has no leave to take turns"):
        take(it, 0)


def test_who_says_that_it_has_written_all_has_no_turn() -> None:
    it = attempt()
    take(it, 0)
    with pytest.raises(StepFailedError, match="says that it has written all, and still has a turn"):
        it.report_written("q", 0, 10, (wrote(0, 1, 1, 1),))


def test_a_turn_that_is_not_given_back_ends_the_attempt() -> None:
    it = attempt()
    take(it, 0)
    with pytest.raises(
        StepFailedError, match="writer 0 of query 'q' has not given back its turn in output 'out'"
    ) as failed:
        take(it, 1, turn_s=0.01)
    assert failed.value.kind == FailureKind.LOST


def test_who_waits_for_a_turn_hears_of_the_end_of_the_attempt() -> None:
    it = attempt()
    take(it, 0)
    failures: list[StepFailedError] = []

    def wait() -> None:
        try:
            take(it, 1)
        except StepFailedError as error:
            failures.append(error)

    waiting = threading.Thread(target=wait)
    waiting.start()
    it.fail(FailureKind.LOST, "its holder was killed")
    waiting.join(DEADLINE_S)
    assert [failure.kind for failure in failures] == [FailureKind.LOST]


def test_a_replay_takes_no_turns_and_adds_up_alike() -> None:
    it = AttemptLedger(7, work(), None, frozenset({"q"}))
    it.expected = object()  # type: ignore[assignment]  # what it is does not matter here
    for number in range(2):
        it.grant_turns("q", number, task_attempt=10 + number, attempt_number=0)
        it.report_written("q", number, 10 + number, (replace(wrote(0, 0, 2, 5)),))
    assert it.written("q") == (wrote(0, 0, 4, 10),)

"""What a watcher finds out in passing about offsets that hold no record, against what a
reader of the same bytes is shown."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from kcontrol.adapters.kafka.read import input_gaps
from kcontrol.adapters.kafka.read.input_gaps import LookBudget, more_gaps
from kcontrol.core.model import Gap
from kcontrol.core.step.gaps import records_between
from kcontrol.wire.batches import Fetched, default_codec
from tests.property.batches.made import MadeBatch, MadeLog, MadeRecord, marker


def made(random: Random) -> tuple[MadeLog, list[tuple[int, int, int]]]:
    """A log with transactions that end either way, and holes that compaction left; and its aborted
    transactions: (producer, first offset, offset of the marker)."""
    batches: list[MadeBatch] = []
    gaps: list[int] = []
    begun: dict[int, int] = {}
    aborted = []
    offset = 0
    for _ in range(random.randrange(1, 30)):
        gaps.append(random.choice([0, 0, 0, 1, 5]))
        offset += gaps[-1]
        producer = random.randrange(-1, 3)
        if producer in begun and random.random() < 0.5:
            commit = random.random() < 0.5
            batches.append(marker(producer, commit))
            first = begun.pop(producer)
            if not commit:
                aborted.append((producer, first, offset))
        else:
            begun.setdefault(producer, offset)
            deltas = sorted(random.sample(range(6), random.randrange(0, 4)))
            records = [MadeRecord(delta, 0, None, b"x") for delta in deltas]
            batches.append(
                MadeBatch(
                    records,
                    0,
                    producer >= 0,
                    producer,
                    0 if producer >= 0 else -1,
                    skipped=random.choice([0, 0, 3]),
                )
            )
            if producer < 0:
                begun.pop(producer)
        offset += batches[-1].offsets
    for producer in begun:  # or the end would not be stable
        batches.append(marker(producer, True))
    return MadeLog(batches, gaps), aborted


def records_shown(data: bytes, aborted: list[tuple[int, int]], from_: int, to: int) -> int:
    return sum(run.rows.num_rows for run in Fetched(data, "t").decode(default_codec(), aborted, from_, to))


@pytest.mark.parametrize("seed", range(40))
def test_all_that_was_looked_at_is_counted_as_a_reader_sees_it(seed: int) -> None:
    log, transactions = made(Random(seed))
    data, aborted = log.encode(), [(producer, first) for producer, first, _ in transactions]
    end = Fetched(data, "t").next_offset(0)
    gaps = more_gaps((), data, aborted, 0, end, 10_000)
    assert all(one.to <= two.from_ for one, two in pairwise(gaps))
    assert records_between(gaps, 0, end) == records_shown(data, aborted, 0, end)


@pytest.mark.parametrize("seed", range(40))
def test_what_comes_in_several_fetches_adds_up(seed: int) -> None:
    """Cut between any batches, from where the fetch before ended or from before that,
    and never beyond the stable end."""
    random = Random(seed)
    log, transactions = made(random)
    parts = log.encoded()
    data, position = b"".join(parts), 0
    gaps: tuple[Gap, ...] = ()
    end = Fetched(data, "t").next_offset(0)
    first = 0
    while first < len(parts):
        last = random.randrange(first, len(parts)) + 1
        bytes_ = b"".join(parts[random.randrange(first + 1) : last])
        begin = Fetched(bytes_, "t").batches[0].base_offset
        # As a broker lists them: those that reach into what it returns.
        aborted = [(producer, offset) for producer, offset, marked_at in transactions if marked_at >= begin]
        gaps = more_gaps(gaps, bytes_, aborted, position, end, 10_000)
        position = Fetched(b"".join(parts[:last]), "t").next_offset(0)
        first = last
    shown = records_shown(data, [(producer, offset) for producer, offset, _ in transactions], 0, end)
    assert records_between(gaps, 0, end) == shown


def test_what_lies_beyond_the_stable_end_is_not_judged() -> None:
    log = MadeLog([MadeBatch([MadeRecord(0, 0, None, b"x")]), marker(1, True), marker(2, True)])
    assert more_gaps((), log.encode(), (), 0, 2, 10) == (Gap(1, 2, 1),)


def test_damaged_bytes_say_nothing() -> None:
    data = bytearray(MadeLog([marker(1, True)]).encode())
    data[-1] ^= 1
    assert more_gaps((Gap(3, 4, 1),), bytes(data), (), 0, 1, 10) == (Gap(3, 4, 1),)


def test_no_more_is_looked_at_than_a_second_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(input_gaps.time, "monotonic", lambda: now_s)
    budget = LookBudget(1_000)
    first = budget.allowed()
    budget.spend(first + 500)
    assert budget.allowed() == 1
    now_s += 1.0
    assert budget.allowed() == 500
    now_s += 1e6
    assert budget.allowed() == first

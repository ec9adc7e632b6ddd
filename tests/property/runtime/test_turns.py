"""Turns, dealt to writers that come, wait, write and go in any order: each sequence number is given out once,
nobody waits for ever."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from kcontrol.adapters.kafka.write.turns import WriteTurn
from kcontrol.adapters.spark.channel.turn_table import TurnTable, TurnWait, Writer

OUTPUT = "out"


class Writers:
    """So many writers with rows for all partitions, and a log of what each partition was given."""

    def __init__(self, seed: int, writers: int, partitions: int) -> None:
        self.rng = random.Random(seed)
        self.table = TurnTable()
        self.logs: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
        self.left = {
            ("q", number): {partition: self.rng.randint(0, 3) for partition in self.logs}
            for number in range(writers)
        }
        self.asked: list[tuple[int, Writer]] = []
        self.waits: dict[Writer, TurnWait] = {}
        self.held: dict[Writer, list[WriteTurn]] = {}
        for writer in self.left:
            self.table.join(writer)

    def act(self, writer: Writer) -> None:
        if writer in self.waits:
            if self.waits[writer].dealt:
                self.write(writer, self.waits.pop(writer).dealt)
            return
        back = self.held.pop(writer, [])
        self.table.give_back(writer, OUTPUT, back, 0.0)
        wanted = [partition for partition, batches in self.left[writer].items() if batches]
        if wanted:
            self.waits[writer] = self.table.want(writer, OUTPUT, wanted, 0.0)
        elif self.table.shares(writer):
            self.table.leave(writer)

    def write(self, writer: Writer, turns: list[WriteTurn]) -> None:
        held = []
        for turn in turns:
            log = self.logs[turn.partition]
            assert (turn.sequence, max(turn.end, 0)) == (len(log), len(log)), "somebody else has its numbers"
            log.extend([writer[1]] * self.rng.randint(1, 5))
            self.left[writer][turn.partition] -= 1
            held.append(WriteTurn(turn.partition, len(log), len(log)))
        self.held[writer] = held


@given(st.integers(0, 2**32), st.integers(1, 6), st.integers(1, 9))
def test_every_number_once_and_every_writer_to_its_end(seed: int, writers: int, partitions: int) -> None:
    world = Writers(seed, writers, partitions)
    names = list(world.left)
    for _ in range(200 * writers * partitions):
        world.act(world.rng.choice(names))
        holders = [turn.partition for held in world.held.values() for turn in held]
        holders += [turn.partition for wait in world.waits.values() for turn in wait.dealt]
        assert len(holders) == len(set(holders)), "a partition has two writers"
        stuck = [name for name, wait in world.waits.items() if not wait.dealt]
        assert not stuck or holders, "all wait, and nobody has a turn"
        if not any(world.table.shares(name) for name in names):
            break
    assert not any(world.table.shares(name) for name in names)
    for partition, log in world.logs.items():
        turn = world.table.written(OUTPUT, partition)
        assert (turn.sequence if turn else 0) == len(log)


def test_partitions_are_dealt_to_all_who_write() -> None:
    """The first writer that asks does not get all of them, or the second would wait for each of its batches."""
    table = TurnTable()
    one, other = ("q", 0), ("q", 1)
    table.join(one)
    table.join(other)
    assert [turn.partition for turn in table.want(one, OUTPUT, [0, 1, 2], 0.0).dealt] == [0, 1]
    assert [turn.partition for turn in table.want(other, OUTPUT, [0, 1, 2], 0.0).dealt] == [2]


def test_who_waits_longest_comes_first() -> None:
    table = TurnTable()
    writers = [("q", number) for number in range(3)]
    for writer in writers:
        table.join(writer)
    (turn,) = table.want(writers[0], OUTPUT, [0], 0.0).dealt
    second, third = (table.want(writer, OUTPUT, [0], 0.0) for writer in writers[1:])
    table.give_back(writers[0], OUTPUT, [turn], 0.0)
    assert (len(second.dealt), len(third.dealt)) == (1, 0)

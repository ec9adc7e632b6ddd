"""How far generated rows reach, as a node tells it: by the clock, never back."""

from __future__ import annotations

import asyncio

from kcontrol.adapters.generated.facts import AnyRecordLook, generated_kept, generated_reaches
from kcontrol.adapters.generated.watcher import GeneratedWatcher
from kcontrol.core.model import BadRecords, InputSpec
from kcontrol.sessions.ports import Held, Kept, Reach
from kcontrol.wire.addresses import ROWS_ID

ADDRESS = "generator:partitions=2,rows_per_second=1000,ramp_up_ms=0,rows=0,seed=0,start_ms=1000"


class SetClock:
    """Shows what it is told to, one time after the other."""

    def __init__(self, *times_ms: int) -> None:
        self.times_ms = list(times_ms)

    def now_ms(self) -> int:
        return self.times_ms.pop(0) if len(self.times_ms) > 1 else self.times_ms[0]

    def monotonic_ms(self) -> int:
        return 0


def test_what_is_due_is_told_and_a_clock_that_is_set_back_takes_nothing_back() -> None:
    async def body() -> list[tuple[int, int]]:
        watcher = GeneratedWatcher(ADDRESS, {1: 0}, SetClock(900, 1_000, 1_009, 500, 1_011))
        found = []
        async for partitions, size_bytes in watcher.arrivals():
            [one] = partitions
            assert (one.partition, one.topic_id, one.earliest) == (1, ROWS_ID, 0)
            found.append((one.to, size_bytes))
            if len(found) == 3:
                break
        await watcher.close()
        return found

    assert asyncio.run(body()) == [(0, 0), (5, 160), (6, 192)]


def test_what_is_not_a_topic_is_answered_without_kafka() -> None:
    reaches = generated_reaches(["orders", ADDRESS, "sftp:x=1"], 1_009)
    assert reaches[ADDRESS] == Reach(ROWS_ID, (5, 5))
    assert "orders" not in reaches
    assert "is no address" in str(reaches["sftp:x=1"])
    assert generated_kept([ADDRESS], 1_009) == {ADDRESS: Kept(ROWS_ID, (0, 0), None, -1, -1)}


def test_every_offset_of_an_address_holds_a_row() -> None:
    class Kafka:
        async def holds(self, item: InputSpec, partition: int, offset: int) -> Held:
            return Held.MARKER

        async def records(self, item: InputSpec, partition: int, from_: int, to: int) -> int:
            return 7

    async def body() -> list[object]:
        look = AnyRecordLook(Kafka())
        made, topic = (
            InputSpec("a", name, "", (0,), (0,), "raw", BadRecords.HALT, "", "")
            for name in (ADDRESS, "orders")
        )
        return [
            await look.holds(made, 0, 3),
            await look.records(made, 0, 3, 5),
            await look.holds(topic, 0, 3),
            await look.records(topic, 0, 3, 5),
        ]

    assert asyncio.run(body()) == [Held.RECORD, 2, Held.MARKER, 7]

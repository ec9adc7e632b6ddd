"""Passing faults are waited out and no longer; records go out in the order in which they were put."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence

import pytest

from kcontrol.core.events import Publish
from kcontrol.core.model import ControlRecord, Desired, DesiredMode, Logged
from kcontrol.errors import RetriableError
from kcontrol.sessions.publisher import Publisher
from kcontrol.sessions.retrying import follow, until_deadline
from kcontrol.sessions.ticker import Ticker
from tests.support.patience import HANG_S
from tests.support.virtual_time import in_virtual_time

LOG = logging.getLogger("test")


def desired(number: int) -> Desired:
    return Desired("p", DesiredMode.RUNNING, f"r{number}")


class SlowLog:
    """Keeps what is appended; the first `faults` appends fail."""

    def __init__(self, faults: int = 0) -> None:
        self.faults = faults
        self.appends: list[tuple[tuple[str, ...], tuple[str, ...]]] = []

    async def append(self, records: Sequence[ControlRecord], forget: Sequence[str] = ()) -> list[int]:
        await asyncio.sleep(0.001)
        if self.faults:
            self.faults -= 1
            raise RetriableError("away")
        self.appends.append((tuple(r.request_id for r in records if isinstance(r, Desired)), tuple(forget)))
        return list(range(len(records)))

    async def read_to_end(self) -> list[Logged]:
        return []

    async def tail(self) -> AsyncIterator[list[Logged]]:
        yield []

    async def close(self) -> None:
        pass


async def publish(log: SlowLog, batches: Sequence[Publish]) -> None:
    publisher = Publisher(log, LOG, deadline_ms=5_000)
    running = asyncio.create_task(publisher.run())
    for batch in batches:
        publisher.put(batch)
    await asyncio.wait_for(publisher.drained(), HANG_S)
    running.cancel()


def test_a_fault_that_passes_is_waited_out() -> None:
    faults = iter([RetriableError("one"), RetriableError("two")])

    async def action() -> str:
        fault = next(faults, None)
        if fault is not None:
            raise fault
        return "done"

    assert in_virtual_time(lambda: until_deadline(action, "trying", LOG)) == "done"


def test_a_fault_is_told_once_and_another_one_too(caplog: pytest.LogCaptureFixture) -> None:
    """As are those of three brokers that are away: each try names another one."""
    caplog.set_level(logging.INFO)
    faults = iter([RetriableError(text) for text in ("one", "one", "two", "two", "one")])

    async def action() -> None:
        fault = next(faults, None)
        if fault is not None:
            raise fault

    in_virtual_time(lambda: until_deadline(action, "trying", LOG))
    assert caplog.messages == [
        "trying: one; trying again",
        "trying: two; trying again",
        "trying: succeeded at try 6",
    ]


def test_faults_that_last_are_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    ends_s = 0.0

    async def action() -> None:
        nonlocal ends_s
        now_s = asyncio.get_running_loop().time()
        ends_s = ends_s or now_s + 150
        if now_s < ends_s:
            raise RetriableError(f"broker {int(now_s / 2) % 3} is away")

    in_virtual_time(lambda: until_deadline(action, "trying", LOG, deadline_ms=300_000))
    said = [message for message in caplog.messages if "away" in message]
    assert len(said) == 9
    assert len(set(said)) == 3


def test_a_fault_that_is_usual_is_told_only_when_it_lasts(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def over_at(try_number: int) -> None:
        tries = 0

        async def action() -> None:
            nonlocal tries
            tries += 1
            if tries < try_number:
                raise RetriableError("not ready")

        await until_deadline(action, "trying", LOG, deadline_ms=60_000, quiet_ms=1_000)

    in_virtual_time(lambda: over_at(4))
    assert caplog.messages == []
    in_virtual_time(lambda: over_at(10))
    assert caplog.messages == ["trying: not ready; trying again", "trying: succeeded at try 10"]


def test_a_fault_that_stays_is_an_error_that_names_what_was_tried() -> None:
    async def action() -> None:
        raise RetriableError("away")

    with pytest.raises(RetriableError, match=r"reading did not succeed within .* ms: away"):
        in_virtual_time(lambda: until_deadline(action, "reading", LOG, deadline_ms=100))


def test_a_stream_is_opened_again_after_a_fault_and_gives_up_in_the_end() -> None:
    opened = []
    taken: list[int] = []

    async def stream() -> AsyncIterator[int]:
        opened.append(len(opened))
        if len(opened) < 3:
            yield len(opened)
        raise RetriableError("away")

    with pytest.raises(RetriableError, match="tailing did not succeed within 200 ms: away"):
        in_virtual_time(lambda: follow(stream, taken.append, "tailing", LOG, deadline_ms=200))
    assert taken == [1, 2]
    assert len(opened) > 3


def test_records_go_out_in_order_and_tombstones_end_an_append() -> None:
    log = SlowLog()
    batches = [Publish((desired(n),)) for n in range(5)] + [
        Publish((desired(5),), ("k",)),
        Publish((desired(6),)),
    ]
    in_virtual_time(lambda: publish(log, batches))
    assert [request for requests, _ in log.appends for request in requests] == [f"r{n}" for n in range(7)]
    ended_by_tombstone = next(append for append in log.appends if append[1])
    assert ended_by_tombstone[0][-1] == "r5"
    assert len(log.appends) < len(batches), "what waits goes out together"


def test_an_append_that_fails_is_made_again_before_the_next() -> None:
    log = SlowLog(faults=2)
    batches = [Publish((desired(0),)), Publish((), ("k",)), Publish((desired(1),))]
    in_virtual_time(lambda: publish(log, batches))
    assert [request for requests, _ in log.appends for request in requests] == ["r0", "r1"]


def test_the_ticker_ticks_and_wakes_earlier_when_asked() -> None:
    class SteppingClock:
        now = 0

        def now_ms(self) -> int:
            raise AssertionError("nothing may wait for the wall clock")

        def monotonic_ms(self) -> int:
            return self.now

    async def scenario() -> list[int]:
        clock = SteppingClock()
        ticks: list[int] = []
        ticked = asyncio.Event()

        async def tick() -> None:
            ticks.append(clock.now)
            ticked.set()

        ticker = Ticker(clock, tick)
        running = asyncio.create_task(ticker.run())
        for now in (0, 30, 130):
            await asyncio.wait_for(ticked.wait(), HANG_S)
            ticked.clear()
            clock.now = now + 1
            ticker.wake_at(clock.now)
        running.cancel()
        return ticks

    ticks = in_virtual_time(scenario)
    assert len(ticks) == 3
    assert ticks == sorted(ticks)

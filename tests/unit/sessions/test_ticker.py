"""A ticker ends when it is cancelled, at whatever moment that is."""

from __future__ import annotations

import asyncio

import pytest

from kcontrol.sessions.ticker import Ticker
from tests.support.patience import HANG_S


class StillClock:
    def now_ms(self) -> int:
        raise AssertionError("nothing may wait for the wall clock")

    def monotonic_ms(self) -> int:
        return 1_000


@pytest.mark.parametrize("turns", range(8))
def test_a_cancel_counts_even_when_it_comes_together_with_a_wake_up(turns: int) -> None:
    async def run() -> None:
        ticks = asyncio.Event()

        async def tick() -> None:
            ticks.set()

        ticker = Ticker(StillClock(), tick)
        running = asyncio.create_task(ticker.run())
        await ticks.wait()
        await asyncio.sleep(0)
        ticker.wake_at(1_050)
        for _ in range(turns):
            await asyncio.sleep(0)
        running.cancel()
        done, _ = await asyncio.wait([running], timeout=HANG_S)
        assert done, "it goes on"
        assert running.cancelled()

    asyncio.run(run())

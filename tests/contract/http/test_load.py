"""The bench's requests are ones that a server answers, and its rate does not wait for the answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import islice

from bench.load import load, mix
from tests.support.patience import HANG_S

REQUESTS = 60


def test_every_request_of_the_mix_is_answered(address: str) -> None:
    paths = list(islice(mix("p", "input", "in"), REQUESTS))
    assert len(set(paths)) > 10

    async def run() -> None:
        stop = asyncio.Event()

        def until_the_last() -> Iterator[str]:
            for number, path in enumerate(paths, 1):
                if number == REQUESTS:
                    stop.set()
                yield path

        answered = await load(address, until_the_last(), 1_000, stop)
        assert (answered.asked, answered.answered) == (REQUESTS, REQUESTS)
        assert answered.p99_ms >= answered.median_ms > 0

    asyncio.run(asyncio.wait_for(run(), HANG_S))

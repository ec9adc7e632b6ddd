"""What an agent does again and again is done at once when there is news."""

from __future__ import annotations

import asyncio
from pathlib import Path

from kcontrol.apps.agent.repeating import again_and_again
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.core.cluster.entries import Prepare
from kcontrol.errors import RetriableError
from tests.support.patience import HANG_S
from tests.unit.agent.session import Log, Session
from tests.unit.agent.test_polling import NoSnapshots

LONG_MS = 3_600_000


def test_news_cut_a_pause_short_and_kafka_that_is_away_is_waited_for() -> None:
    async def play() -> list[int]:
        news, done = asyncio.Event(), list[int]()

        async def act() -> None:
            done.append(len(done))
            asyncio.get_running_loop().call_soon(news.set)
            if len(done) == 2:
                raise RetriableError("away")

        async with asyncio.timeout(HANG_S):
            await again_and_again(act, lambda: LONG_MS, lambda: len(done) == 4, news)
        return done

    assert asyncio.run(play()) == [0, 1, 2, 3]


def test_what_runs_is_looked_at_as_soon_as_the_log_says_something(tmp_path: Path) -> None:
    """However seldom it is looked at otherwise."""
    log = Log([Prepare("b", "b-1")])

    async def play(session: Session) -> None:
        seen = asyncio.Queue[int]()

        async def work() -> None:
            await seen.put(session.machine.next_offset)

        session.session._work = work  # type: ignore[method-assign]
        running = asyncio.create_task(session.session.run())
        try:
            async with asyncio.timeout(HANG_S):
                while await seen.get() != 1:
                    pass
                log.entries.append(Prepare("c", "c-1"))
                while await seen.get() != 2:
                    pass
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    with Session(tmp_path, log, SessionOptions(poll_ms=LONG_MS), store=NoSnapshots()) as session:
        asyncio.run(play(session))

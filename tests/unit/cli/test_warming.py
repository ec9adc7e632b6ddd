"""Who stands by warms up again until what it runs agrees with the log, and no more often than it should."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from kcontrol.apps.warming import TRIES, Warming, Warmth, WarmUp
from kcontrol.errors import RetriableError
from tests.support.patience import HANG_S

AWAY = RetriableError("Kafka is away")
TOO_MUCH = WarmUp(Warmth.WARM, "warm; not compared")
NOTHING_NEW = WarmUp(Warmth.WARM, "")
AGREES = WarmUp(Warmth.COMPARED, "warm: step 70 was run again and agrees")


class Scene:
    """outcomes: of the tries, in order. tried: with which step, and how warm it was."""

    def __init__(self, *outcomes: WarmUp | Exception) -> None:
        self.now_s = 0.0
        self.tried: list[tuple[int, Warmth]] = []
        self.said: list[str] = []
        self._outcomes = list(outcomes)
        self.warming = Warming(self._try, self.said.append, lambda: self.now_s)

    async def _try(self, step: int, warmth: Warmth) -> WarmUp:
        self.tried.append((step, warmth))
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def looks(self, step: int, checkpoint: int = 0, after_s: float = 0) -> int:
        """How many tries there were, after a look."""
        self.now_s += after_s
        self.warming.look(step, checkpoint)
        await self.warming.over()
        return len(self.tried)


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def body() -> None:
        async with asyncio.timeout(HANG_S):
            await scenario()

    asyncio.run(body())


def test_it_tries_again_where_kafka_was_away_but_not_at_once() -> None:
    scene = Scene(AWAY, AWAY, AGREES)
    first_s = TRIES.first_ms / 1000

    async def scenario() -> None:
        assert await scene.looks(0) == 0, "nothing was committed yet"
        assert await scene.looks(70) == 1
        assert await scene.looks(71, after_s=first_s - 1) == 1
        assert await scene.looks(72, after_s=1) == 2
        assert await scene.looks(73, after_s=2 * first_s - 1) == 2, "each pause is longer than the one before"
        assert await scene.looks(74, after_s=1) == 3
        assert await scene.looks(75, after_s=1_000 * first_s) == 3, "it is warm"

    run(scenario)
    assert scene.tried == [(70, Warmth.COLD), (72, Warmth.COLD), (74, Warmth.COLD)]
    assert scene.said == ["not warm: Kafka is away", "warm: step 70 was run again and agrees"]
    assert scene.warming.warmth is Warmth.COMPARED


def test_what_could_not_be_compared_is_compared_after_a_new_checkpoint() -> None:
    scene = Scene(TOO_MUCH, NOTHING_NEW, AWAY, AGREES)
    long_s = TRIES.longest_ms / 1000

    async def scenario() -> None:
        assert await scene.looks(60) == 1
        assert await scene.looks(960, after_s=long_s) == 1, "there is no newer checkpoint"
        assert await scene.looks(961, 960, after_s=1) == 2
        assert await scene.looks(1_861, 1_860, after_s=1) == 2, "it was tried a moment ago"
        assert await scene.looks(1_862, 1_860, after_s=long_s) == 3
        assert scene.warming.warmth is Warmth.WARM, "what has run has run"
        assert await scene.looks(2_762, 2_760, after_s=long_s) == 4

    run(scenario)
    assert [warmth for _, warmth in scene.tried] == [Warmth.COLD, Warmth.WARM, Warmth.WARM, Warmth.WARM]
    assert scene.said == [TOO_MUCH.said, AGREES.said]


def test_one_try_at_a_time_which_can_be_left() -> None:
    said: list[str] = []

    async def scenario() -> None:
        ends, tries = asyncio.Event(), 0

        async def never_ready(_step: int, _warmth: Warmth) -> WarmUp:
            nonlocal tries
            tries += 1
            try:
                await asyncio.Event().wait()
            finally:
                await ends.wait()
                raise AWAY

        warming = Warming(never_ready, said.append)
        await warming.over()
        for step in (1, 2):
            warming.look(step, 0)
            await asyncio.sleep(0)
        assert tries == 1
        warming.give_up()
        await warming.over(0)
        over = asyncio.create_task(warming.over())
        await asyncio.sleep(0)
        assert not over.done(), "it closes what it has opened"
        ends.set()
        await over

    run(scenario)
    assert said == []

"""How long requests are on their way, which are lost, and which arrive although nobody waits for them any
more."""

from __future__ import annotations

import asyncio
import contextvars
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from tests.simulation.broker import Fenced, NotTheEnd
from tests.simulation.ports import Lost
from tests.simulation.sessions.loop import Process, SeededLoop

_T = TypeVar("_T")

_FATES = ("before", "after")
_READS = frozenset({"end", "fetch"})
_WAITING_FETCH_S = 5.0
_GIVEN_UP_S = 2.0
"""After so long a client takes a request for lost."""
_DEAD_MENS_LETTERS = 0.5
"""How likely a request arrives whose sender has died."""


@dataclass
class Weather:
    """How the network is now. usual_ms: what a message takes on average. slow_rate: how
    many take up to slowest_ms longer.
    lost_rate: how many requests are lost, or their answers."""

    usual_ms: float = 1.0
    slow_rate: float = 0.0
    slowest_ms: float = 0.0
    lost_rate: float = 0.0


class Network:
    """Between all processes and the broker."""

    def __init__(self, loop: SeededLoop, random: Random, weather: Weather, counts: Counter[str]) -> None:
        self.loop = loop
        self.weather = weather
        self.counts = counts
        self.version = 0
        self.is_over = False
        """The schedule has ended: nothing arrives any more, and every call ends at once."""
        self.context = contextvars.Context()
        """Of what happens at the broker."""
        self.traps: dict[str, str] = {}
        """By what is asked for, what goes wrong with the next such request: `before` loses it, `after` its
        answer, and all else is for `spring`."""
        self.spring: Callable[[str, Process], None] = lambda trap, sender: None
        """Called at the broker with a trap and the sender of the request, which is done before or
        afterwards."""
        self.random = random
        self._waiting: list[asyncio.Future[None]] = []

    def at_broker(self, delay_s: float, do: Callable[..., None], *args: object) -> None:
        """Have something done there after a while, whoever lives then."""
        self.loop.call_later(delay_s, do, *args, context=self.context)

    def notify(self) -> None:
        """Readers may find something new."""
        self.version += 1
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            self.at_broker(self.delay_s(), _set, future, None)

    def wait(self, since: int, future: asyncio.Future[None]) -> None:
        """Set the future when the version is another one than `since`."""
        if self.version == since and not self.is_over:
            self._waiting.append(future)
        else:
            _set(future, None)

    def delay_s(self) -> float:
        """Of one message in one direction."""
        draw, weather = self.random.random, self.weather
        late_ms = draw() * weather.slowest_ms if weather.slow_rate and draw() < weather.slow_rate else 0.0
        return (draw() * weather.usual_ms * 2 + late_ms) / 1000

    def send(self, sender: Line, what: str, do: Callable[[], Any], future: asyncio.Future[Any]) -> None:
        """One request; what becomes of it is drawn now, from when it is sent."""
        draw = self.random.random
        trap = self.traps.pop(what, "")
        fate = trap if trap in _FATES else "" if draw() >= self.weather.lost_rate else _FATES[int(draw() * 2)]
        there_s = max(self.delay_s(), sender.deaf_until - self.loop.time())
        if there_s == float("inf"):
            return
        if fate:
            self.counts[f"{what}: {'request' if fate == 'before' else 'answer'} lost"] += 1
            self.at_broker(max(there_s, _GIVEN_UP_S * draw()), _set, future, Lost())
        if fate != "before":
            meets = "" if trap in _FATES else trap
            self.at_broker(there_s, self._arrive, sender, what, do, None if fate else future, meets)

    def _arrive(
        self, sender: Line, what: str, do: Callable[[], Any], future: asyncio.Future[Any] | None, trap: str
    ) -> None:
        if self.is_over or (sender.process.is_dead and self.random.random() >= _DEAD_MENS_LETTERS):
            return
        if trap:
            self.counts[f"{what}: {trap}"] += 1
            first = self.random.random() < 0.5
            self.at_broker(0.0, self.spring, trap, sender.process)
            if first:
                self.at_broker(0.0, self._arrive, sender, what, do, future, "")
                return
        answer: Any
        try:
            answer = do()
        except (Fenced, NotTheEnd) as error:
            answer = error
        except Exception as error:  # noqa: BLE001 - a violation ends the schedule, whoever waits for the answer
            self.loop.fail(error)
            return
        if what not in _READS:
            self.counts[f"{what} of a dead process"] += sender.process.is_dead
            self.notify()
        if future is not None:
            self.at_broker(self.delay_s(), _set, future, answer)


class Line:
    """The wire of one process for one purpose (`Wire` in ports.py)."""

    def __init__(self, network: Network, process: Process) -> None:
        self.network = network
        self.process = process
        self.deaf_until = 0.0
        """Nothing arrives at the broker before that time."""

    async def request(self, what: str, do: Callable[[], _T]) -> _T:
        """As the port says."""
        future: asyncio.Future[Any] = self.network.loop.create_future()
        if self.network.is_over:
            raise Lost
        self.network.send(self, what, do, future)
        answer = await future
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    @property
    def version(self) -> int:
        """As the port says."""
        return self.network.version

    async def changed(self, since: int) -> None:
        """As the port says."""
        future: asyncio.Future[None] = self.network.loop.create_future()
        self.network.wait(since, future)
        self.network.at_broker(_WAITING_FETCH_S, _set, future, None)
        await future


def _set(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)

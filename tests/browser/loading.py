"""Brings a page to an address, and tells what it waits for when it does not get there.

Now and then, on a machine that does much else, a browser begins a page and does not end it; why is not known yet. No
test here is about that, so it is loaded once more, in a page of its own: what was given up can come after all, and
would take the place of what is asked for. What was under way is printed both times, on the page's side and on the
server's, with what the browser's processes do and how long this one stood still.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress

import psutil
from playwright.async_api import BrowserContext, Page, Request
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from tests.browser.served import Served

LIMITS_MS = (60_000, 60_000)
"""Of each try at loading a page."""
_BEAT_S = 0.1
_CLOSING_S = 30.0
"""Until a page that was given up is left to the end of its context."""


class Loading:
    """Of one page after the other in a context: `page` is the one that is used."""

    page: Page

    def __init__(self, context: BrowserContext, server: Served) -> None:
        self._context = context
        self._server = server
        self.limits_ms: Sequence[float] = LIMITS_MS
        self._under_way: dict[Request, float] = {}
        self._ended = 0
        context.on("request", lambda request: self._under_way.update({request: time.monotonic()}))
        context.on("requestfinished", self._end)
        context.on("requestfailed", self._end)

    async def begin(self) -> None:
        """With a page that shows nothing yet."""
        self.page = await self._context.new_page()

    async def go(self, url: str) -> None:
        """Until the page has loaded."""
        for number, limit_ms in enumerate(self.limits_ms, 1):
            async with _stillness() as still:
                try:
                    await self.page.goto(url, timeout=limit_ms)
                except PlaywrightTimeoutError as error:
                    told = "\n".join(self._told(url, limit_ms, still))
                    print(told)  # noqa: T201 - shown by pytest when the test fails
                    if number == len(self.limits_ms):
                        raise AssertionError(told) from error
                else:
                    return
            await self._give_up()

    async def rests(self) -> None:
        """Until no request of the page is under way."""
        while self._under_way:  # noqa: ASYNC110 - the browser tells of each request for itself
            await asyncio.sleep(_BEAT_S)

    async def _give_up(self) -> None:
        given_up = self.page
        await self.begin()
        with suppress(TimeoutError, PlaywrightError):
            await asyncio.wait_for(given_up.close(), _CLOSING_S)
        self._under_way.clear()

    def _end(self, request: Request) -> None:
        self._ended += 1
        self._under_way.pop(request, None)

    def _told(self, url: str, limit_ms: float, still: list[float]) -> Iterator[str]:
        now = time.monotonic()
        yield f"{url} did not load within {limit_ms / 1000:g} s; the page is at {self.page.url}"
        yield f"  requests of the page that ended: {self._ended}; under way: {len(self._under_way)}"
        for request, since in self._under_way.items():
            yield f"    {request.method} {request.url}, for {now - since:.1f} s"
        yield f"  the server: {self._server.state()}"
        yield f"  the longest that this process stood still: {max(still):.1f} s"
        yield from _browser()
        yield f"  load average: {', '.join(f'{each:.1f}' for each in os.getloadavg())}"


@asynccontextmanager
async def _stillness() -> AsyncIterator[list[float]]:
    """A list with the longest time, so far, that the event loop ran nothing."""
    longest = [0.0]

    async def beat() -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(_BEAT_S)
            longest[0] = max(longest[0], time.monotonic() - before - _BEAT_S)

    beating = asyncio.create_task(beat())
    try:
        yield longest
    finally:
        beating.cancel()


def _browser() -> Iterator[str]:
    """What its processes are and do. One that is younger than its browser has been started again, or for this
    page."""
    now = time.time()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            kinds = [each for each in process.cmdline() if "type=" in each] or [process.name()]
            age_s, cpu = now - process.create_time(), process.cpu_times()
            busy = f"{process.status()}, {age_s:.0f} s old, {cpu.user + cpu.system:.1f} s of processor"
            yield f"  {process.pid} {' '.join(kinds)}: {busy}"

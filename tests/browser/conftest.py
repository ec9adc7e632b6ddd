"""Runs each test in a page of its own, on a real server over a cluster in memory, all in one event loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Locator, Page, expect

from kcontrol.adapters.http.access import AccessToken
from kcontrol.apps import http_server
from kcontrol.views.agents_facts import ClusterSeen
from kcontrol.views.regions_facts import RegionsSeen
from tests.browser.chromium import VARIABLE, chromium, find_browser
from tests.browser.loading import Loading
from tests.browser.served import NOBODY, Served, clock_ms, served
from tests.support.patience import HANG_MS
from tests.support.scenes import Cluster, busy_cluster, live
from tests.support.shared_api import app_of

DEADLINE_S = 300.0
PATIENCE_MS = HANG_MS
ASKS_FOR_LONG = f"""{{
  const timeout = AbortSignal.timeout.bind(AbortSignal);
  AbortSignal.timeout = (ms) => timeout(Math.max(ms, {PATIENCE_MS}));
}}"""
"""The page gives up no question that the server answers late, having stood still: no test is about that."""
WIDE = {"width": 1280, "height": 900}
PHONE = {"width": 360, "height": 740}

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session", autouse=True)
def _what_was_kept_is_not_collected_again() -> None:
    """Simulators that ran before in this process keep millions of objects, and a collection that walks through all of them
    stops the server, and the browser's driver, for ten seconds."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="package", autouse=True)
def _operations_are_built_once() -> Iterator[None]:
    """A server of its own has each test: to build and describe the operations of each anew takes half a second."""
    with patch.object(http_server, "make_app", app_of):
        yield


@dataclass
class Console:
    """A page, the server that it comes from, and the cluster behind that.

    The page is another one after it had to be loaded once more, so routes are the context's.
    """

    context: BrowserContext
    server: Served
    cluster: Cluster
    client: httpx.AsyncClient
    loading: Loading
    foreign: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def page(self) -> Page:
        return self.loading.page

    async def open(self, address: str = "clicks") -> None:
        """Go to `#/ADDRESS`, and wait until the pipeline is shown."""
        await self.go(f"/console/#/{address}")
        await expect(self.heading("Checkpoints")).to_be_attached()

    async def go(self, path: str) -> None:
        """Load a page of the server."""
        await self.loading.go(f"{self.server.url}{path}")

    def heading(self, name: str) -> Locator:
        # Behind a modal dialog nothing has a role.
        return self.page.get_by_role("heading", name=name, include_hidden=True)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def panel(self, name: str) -> Locator:
        return self.page.get_by_role("region", name=name, exact=True)

    async def seen(self, pipeline: str, offset: int) -> None:
        """Until the server has read this control record, whatever its page has."""
        (
            await self.client.get(f"/v1/pipelines/{pipeline}", params={"min_control_offset": offset})
        ).raise_for_status()

    def _heard(self, kind: str, text: str) -> None:
        # That a request was refused or not answered is what some tests are about.
        if kind == "error" and "Failed to load resource" not in text:
            self.complaints.append(text)

    def listen(self) -> None:
        """To what goes wrong, or elsewhere."""
        self.context.on("console", lambda message: self._heard(message.type, message.text))
        self.context.on("weberror", lambda error: self.complaints.append(str(error.error)))
        self.context.on(
            "request", lambda sent: sent.url.startswith(self.server.url) or self.foreign.append(sent.url)
        )


Scenario = Callable[[Console], Awaitable[None]]
Play = Callable[[Cluster], Awaitable[None]]
Run = Callable[..., None]


@pytest.fixture(scope="package")
def running() -> Iterator[tuple[asyncio.Runner, Browser]]:
    """One browser for all tests. Its event loop rests between them, so that it is in nobody's way."""
    path = find_browser()
    if path is None:
        pytest.skip(f"no Chromium is installed on this machine; install one, or name one with {VARIABLE}")
    with asyncio.Runner() as runner:
        opened = chromium(path)
        browser = runner.run(opened.__aenter__())
        yield runner, browser
        runner.run(opened.__aexit__(None, None, None))


@pytest.fixture
def run(running: tuple[asyncio.Runner, Browser]) -> Run:
    """`run(scenario, token=None, before=None, agents=NOBODY, **context)` runs a coroutine function with a Console.

    before: plays what is in the cluster's logs before the server reads them. regions: those that the server tells of. context:
    of the browser's page.

    Whatever a test is about, its page must not fail inside, and must ask nobody but its server for anything.
    """
    runner, browser = running

    async def with_console(
        scenario: Scenario,
        token: AccessToken | None,
        before: Play | None,
        agents: ClusterSeen,
        regions: RegionsSeen | None,
        options: dict[str, Any],
    ) -> None:
        cluster = await busy_cluster(clock_ms)
        if before is not None:
            await before(cluster)
        context = await browser.new_context(**{"viewport": WIDE, "locale": "en-GB", **options})
        living = asyncio.create_task(live(cluster))
        try:
            async with (
                served(cluster.kafka, token, agents, regions) as server,
                httpx.AsyncClient(base_url=server.url, timeout=PATIENCE_MS / 1000) as client,
            ):
                context.set_default_timeout(PATIENCE_MS)
                await context.add_init_script(ASKS_FOR_LONG)
                console = Console(context, server, cluster, client, Loading(context, server))
                console.listen()
                await console.loading.begin()
                await scenario(console)
                await context.close()
        finally:
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
            await context.close()
        assert console.complaints == []
        assert console.foreign == []

    def run_one(
        scenario: Scenario,
        token: AccessToken | None = None,
        before: Play | None = None,
        agents: ClusterSeen = NOBODY,
        regions: RegionsSeen | None = None,
        **options: Any,
    ) -> None:
        shown = with_console(scenario, token, before, agents, regions, options)
        runner.run(asyncio.wait_for(shown, DEADLINE_S))

    return run_one

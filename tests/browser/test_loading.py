"""A page that the browser does not get loaded is loaded once more, and what it waited for is told."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Error as PlaywrightError
from playwright.async_api import Route, expect
from playwright.async_api import TimeoutError as PlaywrightTimeoutError

from tests.browser.conftest import Console, Run
from tests.browser.loading import LIMITS_MS, Loading

pytestmark = pytest.mark.browser

SOON_MS = 1_000.0


def test_a_page_is_loaded_once_more(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    held: list[Route] = []

    async def hold_first(route: Route) -> None:
        if held:
            await route.continue_()
        held.append(route)

    async def scenario(console: Console) -> None:
        await console.page.route("**/console/main.js", hold_first)
        loading = Loading(console.page, console.server, (SOON_MS, *LIMITS_MS))
        await loading.go(f"{console.server.url}/console/#/clicks")
        await expect(console.page.get_by_role("heading", level=1)).to_have_text("clicks")

    run(scenario)
    told = capsys.readouterr().out
    assert "did not load within 1 s" in told
    assert "connections, not answered yet: nothing" in told


def test_a_page_that_comes_when_it_was_given_up_is_loaded_once_more_too(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Playwright's sentences, at the moments at which they were seen."""
    gone: list[str] = []

    async def scenario(console: Console) -> None:
        page, wanted, empty = console.page, f"{console.server.url}/console/#/clicks", "about:blank"
        goto = page.goto
        comes = {2: wanted, 3: empty, 5: empty}

        async def late(url: str, **options: Any) -> Any:
            gone.append(url)
            if len(gone) == 1:
                raise PlaywrightTimeoutError("Timeout 60000ms exceeded.")
            if came := comes.get(len(gone)):
                raise PlaywrightError(
                    f'Page.goto: Navigation to "{url}" is interrupted by another navigation to "{came}"'
                )
            return await goto(url, **options)

        monkeypatch.setattr(page, "goto", late)
        await Loading(page, console.server).go(wanted)
        await expect(page.get_by_role("heading", level=1)).to_have_text("clicks")
        assert gone == [wanted, empty, empty, empty, wanted, wanted]

    run(scenario)


def test_what_it_waits_for_is_told(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.page.route("**/console/main.js", lambda _route: None)
        loading = Loading(console.page, console.server, (10 * SOON_MS,))
        with pytest.raises(AssertionError, match=r"GET http://\S+/console/main.js, for \S+ s"):
            await loading.go(f"{console.server.url}/console/")

    run(scenario)

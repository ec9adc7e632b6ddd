"""A page that the browser does not get loaded is loaded once more, and what it waited for is told."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import Route, expect

from tests.browser.conftest import Console, Run
from tests.browser.loading import LIMITS_MS

pytestmark = pytest.mark.browser

SOON_MS = 1_000.0
TRIES = 3


def test_a_page_is_loaded_once_more(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """In a page of its own: what was given up is closed, and takes nobody's place when it comes after all."""
    told: list[str] = []

    def is_told() -> bool:
        told.append(capsys.readouterr().out)
        return "connections, not answered yet: nothing" in "".join(told)

    async def hold(route: Route) -> None:
        """Until a page has waited for this alone, as it does not where the machine stands still meanwhile."""
        if is_told():
            await route.continue_()

    async def scenario(console: Console) -> None:
        given_up = console.page
        await console.context.route("**/console/main.js", hold)
        console.loading.limits_ms = (*[SOON_MS] * TRIES, *LIMITS_MS)
        await console.open()
        await expect(console.page.get_by_role("heading", level=1)).to_have_text("clicks")
        assert console.page is not given_up
        if not given_up.is_closed():
            await given_up.wait_for_event("close")

    run(scenario)
    assert is_told()
    assert "did not load within 1 s" in "".join(told)


def test_what_it_waits_for_is_told(run: Run) -> None:
    wanted = re.compile(r"GET http://\S+/console/main.js, for \S+ s")

    async def scenario(console: Console) -> None:
        await console.context.route("**/console/main.js", lambda _route: None)
        console.loading.limits_ms = (10 * SOON_MS,)
        told = ""
        for _ in range(TRIES):
            with pytest.raises(AssertionError) as failed:
                await console.go("/console/")
            told = str(failed.value)
            if wanted.search(told):
                return
        pytest.fail(f"the page came so far in none of {TRIES} tries: {told}")

    run(scenario)

"""What stands between the reader and the cluster is said: a server that is gone, one that
waits, one that wants its token."""

from __future__ import annotations

from random import Random

import pytest
from playwright.async_api import expect

from kcontrol.adapters.http.access import AccessToken
from tests.browser.conftest import Console, Run
from tests.browser.loading import Loading
from tests.support.scenes import click_step

pytestmark = pytest.mark.browser

SECRET = "0123456789abcdef-secret"


def test_a_lost_connection_is_said_and_the_page_comes_back_by_itself(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        newest = console.cluster.clicks.steps
        await console.server.end()
        alert = console.page.get_by_role("alert")
        await expect(alert).to_contain_text("Connection lost. The server can't be reached.")
        await expect(alert).to_contain_text("What is shown is as of")
        await expect(console.page.get_by_role("banner")).to_contain_text("not connected")
        # What was known stays, and what is asked now is refused in words.
        await expect(console.page.get_by_role("table", name="Newest steps")).to_contain_text(f"{newest:,}")
        await console.button("Pause").click()
        await expect(console.page.get_by_role("list", name="Requests")).to_contain_text(
            "refused: The server can't be reached."
        )
        await click_step(console.cluster.clicks, Random(2))
        await console.server.begin()
        await expect(alert).to_be_empty()
        await expect(console.page.get_by_role("banner")).to_contain_text("connected ·")
        await expect(console.page.get_by_role("table", name="Newest steps")).to_contain_text(
            f"{newest + 1:,}"
        )

    run(scenario)


def test_trying_again_can_be_asked_for(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.page.clock.install()
        await console.open()
        # The page's clock stands still from here on: it does not try by itself.
        await console.page.clock.pause_at(await console.page.evaluate("(Date.now() + 600_000) / 1000"))
        await console.server.end()
        alert = console.page.get_by_role("alert")
        while "Connection lost" not in await alert.inner_text():
            await console.page.clock.run_for(2_500)
        await console.loading.rests()
        await console.server.begin()
        await console.button("Try now").click()
        await expect(alert).to_be_empty()

    run(scenario)


def test_a_server_that_waits_for_kafka_says_so(run: Run) -> None:
    async def scenario(console: Console) -> None:
        waits = [
            {"phase": "reading control partition 3", "since_ms": 0, "error": "broker 2 is not available"}
        ]
        body = {"status": "blocked", "blocked": waits, "broken": {}}
        await console.context.route("**/health/ready", lambda route: route.fulfill(status=503, json=body))
        await console.open()
        alert = console.page.get_by_role("alert")
        await expect(alert).to_contain_text("The server waits, and what is shown may be old.")
        await expect(alert).to_contain_text("reading control partition 3")
        await expect(alert).to_contain_text("broker 2 is not available")

    run(scenario)


def test_the_token_is_asked_for_and_kept_for_this_tab_only(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.go("/console/#/clicks")
        page = console.page
        field = page.get_by_role("textbox", name="Token")
        await expect(field).to_be_focused()
        await field.fill("a-token-that-is-wrong")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_contain_text("The server does not know this token.")
        await expect(field).to_have_value("")
        # Escape leaves the question, not the page: the button asks again.
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("alert")).to_contain_text("The server wants its token.")
        await console.button("Enter token").click()
        await field.fill(SECRET)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_have_text("clicks")
        await expect(page.get_by_role("alert")).to_be_empty()
        kept = await page.evaluate(
            "() => [Object.values(sessionStorage), Object.values(localStorage), document.cookie, "
            "location.href]"
        )
        assert kept == [[SECRET], [], "", f"{console.server.url}/console/#/clicks"]
        assert SECRET not in await page.content()
        await console.button("Pause").click()
        await expect(page.get_by_role("list", name="Requests")).to_contain_text("recorded at control offset")
        await page.reload()
        await expect(page.get_by_role("heading", level=1)).to_have_text("clicks")
        # Another tab has to be told; and once forgotten, nothing stays on the page.
        other = Loading(console.context, console.server)
        await other.begin()
        await other.go(f"{console.server.url}/console/#/clicks")
        await expect(other.page.get_by_role("textbox", name="Token")).to_be_visible()
        await console.button("Forget token").click()
        await expect(field).to_be_visible()
        await expect(page.get_by_role("heading", level=1, include_hidden=True)).to_have_count(0)
        assert await page.evaluate("() => Object.values(sessionStorage)") == []

    run(scenario, token=AccessToken(SECRET))


def test_the_browser_holds_the_page_to_its_policy(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        tried = """async () => {
          const broken = [];
          addEventListener("securitypolicyviolation", (event) => broken.push(event.effectiveDirective));
          const all = new Promise((done) => addEventListener("securitypolicyviolation", () => broken.length > 1 && done()));
          const answer = await fetch("http://127.0.0.1:9/").catch((error) => error.name);
          let made = "made";
          try { document.body.insertAdjacentHTML("beforeend", "<b>x</b>"); } catch (error) { made = error.name; }
          await all;
          return [answer, made, ...broken.sort()];
        }"""
        assert await console.page.evaluate(tried) == [
            "TypeError",
            "TypeError",
            "connect-src",
            "require-trusted-types-for",
        ]
        console.complaints.clear()
        console.foreign.clear()

    run(scenario)

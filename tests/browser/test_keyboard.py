"""Everything works without a mouse: in a sensible order, with a focus that can be seen, and Escape as the way
out."""

from __future__ import annotations

from random import Random

import pytest
from playwright.async_api import expect

from kcontrol.core.model import Desired
from tests.browser.conftest import Console, Run
from tests.support.scenes import click_step

pytestmark = pytest.mark.browser

FOCUSED = """() => {
  const at = document.activeElement, style = getComputedStyle(at);
  const seen = style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2;
  return [at.getAttribute("aria-label") ?? at.innerText.split("\\n")[0], seen];
}"""


async def tabs(console: Console, most: int) -> list[str]:
    """The names of what Tab leads to, one after the other; each must be seen to have the focus."""
    names = []
    for _ in range(most):
        await console.page.keyboard.press("Tab")
        name, seen = await console.page.evaluate(FOCUSED)
        assert seen, f"nothing shows that {name!r} has the focus"
        names.append(name)
    return names


def test_tab_goes_through_the_page_in_reading_order(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        found = await tabs(console, 24)
        assert found[:11] == [
            *(
                "Skip to the pipeline",
                "clicks",
                "daily-rollup",
                "fraud-alerts",
                "legacy-export",
                "orders-enriched",
            ),
            *("Pause", "Resume", "Checkpoint", "Stop…", "Hold"),
        ]
        newest = console.cluster.clicks.steps
        assert found[11].startswith(f"Step {newest:,}, ")
        assert found[12:22] == [f"{newest - back:,}" for back in range(10)]
        assert found[22:] == ["Find a step", "By partition"]

    run(scenario)


def test_skipping_leads_to_the_pipeline_and_keeps_its_address(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open("fraud-alerts")
        await console.page.keyboard.press("Tab")
        await console.page.keyboard.press("Enter")
        assert console.page.url.endswith("#/fraud-alerts")
        assert (await tabs(console, 1)) == ["Pause"]

    run(scenario)


def test_the_strip_is_one_stop_and_arrows_go_through_its_steps(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        newest, press = console.cluster.clicks.steps, console.page.keyboard.press
        await console.button("Hold").focus()
        await tabs(console, 1)
        for key in ("ArrowLeft", "ArrowLeft", "ArrowRight", "ArrowLeft"):
            await press(key)
        column = console.panel("Steps").get_by_role("link", name=f"Step {newest - 2:,},")
        await expect(column).to_be_focused()
        await expect(console.page.locator(".readout")).to_contain_text(f"Step {newest - 2:,},")
        # New steps don't take away what is looked at.
        for _ in range(3):
            await click_step(console.cluster.clicks, Random(5))
        await expect(console.panel("Steps")).to_contain_text("held while you look; 3 newer")
        await expect(column).to_be_focused()
        await press("Enter")
        dialog = console.page.get_by_role("dialog", name=f"Step {newest - 2:,} of clicks")
        await expect(dialog.get_by_role("button", name="Close")).to_be_focused()
        await press("Escape")
        await expect(dialog).to_have_count(0)
        await expect(column).to_be_focused()
        assert (await console.page.evaluate(FOCUSED))[1], "nothing shows that it has the focus again"
        await press("Home")
        assert not (await console.page.evaluate(FOCUSED))[0].startswith(f"Step {newest - 2:,}")
        await press("End")
        await expect(console.panel("Steps").get_by_role("link", name=f"Step {newest:,},")).to_be_focused()

    run(scenario)


def test_stop_by_keyboard_begins_on_cancel_stays_inside_and_escape_gives_the_focus_back(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        await console.cluster.clicks.control.read_to_end()
        stop, press = console.button("Stop…"), console.page.keyboard.press
        await stop.focus()
        await press("Enter")
        question = console.page.get_by_role("dialog", name="Stop clicks?")
        await expect(question.get_by_role("button", name="Cancel")).to_be_focused()
        await press("Tab")
        await expect(question.get_by_role("button", name="Stop it")).to_be_focused()
        await press("Escape")
        await expect(question).to_have_count(0)
        await expect(stop).to_be_focused()
        records = await console.cluster.clicks.control.read_to_end()
        assert not any(isinstance(each.record, Desired) for each in records)
        # At once, as a hand that knows the way does.
        for key in ("Space", "Escape", "Space", "Tab", "Enter"):
            await press(key)
        await expect(console.page.get_by_role("list", name="Requests")).to_contain_text("Stop recorded")

    run(scenario)

"""Light and dark, wide and narrow: it can be read, and nothing has to be scrolled sideways."""

from __future__ import annotations

import re

import pytest
from playwright.async_api import expect

from tests.browser.conftest import PHONE, WIDE, Console, Run

pytestmark = pytest.mark.browser

LEAST_CONTRAST = 4.5

CONTRASTS = """() => {
  const rgba = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  const light = (colour) => {
    const [r, g, b] = colour.slice(0, 3).map((part) => linear(part / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgba(getComputedStyle(at).backgroundColor);
      if (colour[3] !== 0) return colour;
    }
    return [255, 255, 255];
  };
  const found = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some((each) => each.nodeType === 3 && each.data.trim());
    if (!own || !node.checkVisibility() || node.closest(".unseen") || node.matches(".shape")) continue;
    const [a, b] = [light(rgba(getComputedStyle(node).color)), light(ground(node))];
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.className + ": " + node.textContent.slice(0, 40)]);
  }
  return found;
}"""
TOO_WIDE = """() => [...document.querySelectorAll("body *")]
  .filter((each) => each.checkVisibility() && !each.closest(".unseen") && each.getBoundingClientRect().right > innerWidth + 0.5)
  .map((each) => each.tagName + "." + each.className)"""
SCROLLS = "() => document.scrollingElement.scrollWidth - innerWidth"


async def lightness(console: Console) -> float:
    """Of the page's ground, 0 to 255."""
    colour = await console.page.evaluate("() => getComputedStyle(document.documentElement).backgroundColor")
    red, green, blue = (int(part) for part in colour[4:-1].split(","))
    return (red + green + blue) / 3


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read_in_light_and_in_dark(run: Run, scheme: str) -> None:
    async def scenario(console: Console) -> None:
        for address in (
            "clicks",
            "fraud-alerts",
            "daily-rollup",
            f"clicks/steps/{console.cluster.clicks.steps}",
        ):
            await console.open(address)
            if "steps" in address:
                await expect(console.page.get_by_role("heading", name="Division")).to_be_visible()
            found = await console.page.evaluate(CONTRASTS)
            assert len(found) > 40
            assert [(round(ratio, 2), what) for ratio, what in found if ratio < LEAST_CONTRAST] == []
        assert (await lightness(console) > 200) == (scheme == "light")
        assert (await lightness(console) < 40) == (scheme == "dark")

    run(scenario, color_scheme=scheme)


VIEWPORTS = {
    "phone": PHONE,
    "tablet": {"width": 768, "height": 1000},
    "laptop": {"width": 1024, "height": 700},
    "wide": WIDE,
}


@pytest.mark.parametrize("viewport", VIEWPORTS.values(), ids=VIEWPORTS)
def test_nothing_reaches_beyond_the_page(run: Run, viewport: dict[str, int]) -> None:
    async def scenario(console: Console) -> None:
        async def fits() -> None:
            assert await console.page.evaluate(SCROLLS) <= 0
            assert await console.page.evaluate(TOO_WIDE) == []

        for address in ("clicks", "fraud-alerts"):
            await console.open(address)
            await console.page.get_by_text("By partition").click()
            await expect(console.page.get_by_role("table", name="Partitions of")).not_to_have_count(0)
            await fits()
        await console.button("Stop…").click()
        await expect(console.page.get_by_role("dialog")).to_be_visible()
        await fits()
        await console.open(f"clicks/steps/{console.cluster.clicks.steps}")
        await expect(console.page.get_by_role("heading", name="Layout: how it was cut")).to_be_visible()
        await fits()
        table = console.page.get_by_role("table", name="Input clicks")
        await expect(table.get_by_role("row")).to_have_count(7 if viewport is not PHONE else 6)

    run(scenario, viewport=viewport, has_touch=viewport is PHONE, is_mobile=viewport is PHONE)


def test_states_and_phases_are_words_and_fingers_find_what_they_press(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        for badge in await console.page.locator(".badge").all():
            assert re.search(r"[a-z]{4,}$", await badge.inner_text())
        await expect(console.page.locator(".legend")).to_contain_text("preparing")
        await expect(console.page.locator(".legend")).to_contain_text("r records")
        for button in await console.page.get_by_role("button").all():
            box = await button.bounding_box()
            assert box is not None
            assert min(box["width"], box["height"]) >= 40, await button.inner_text()

    run(scenario, viewport=PHONE, has_touch=True, is_mobile=True)

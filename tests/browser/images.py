"""Makes the pictures of docs/console.md: python -m tests.browser.images. The cluster is
played, the page is the real one."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from playwright.async_api import Browser, Page

from tests.browser.chromium import VARIABLE, chromium, find_browser
from tests.browser.served import clock_ms, served
from tests.support.scenes import beat, busy_cluster, click_step

FOLDER = Path(__file__).parents[2] / "docs" / "images"
WIDE = {"width": 1280, "height": 860}
PHONE = {"width": 360, "height": 780}


async def main() -> None:
    """Writes all of them."""
    path = find_browser()
    if path is None:
        raise SystemExit(f"no Chromium is installed; name one with {VARIABLE}")
    FOLDER.mkdir(exist_ok=True)
    random = Random(11)
    cluster = await busy_cluster(clock_ms)
    async with served(cluster.kafka) as server, chromium(path) as browser:
        for name, scheme, size, address in (
            ("console-light", "light", WIDE, "clicks"),
            ("console-dark", "dark", WIDE, "fraud-alerts"),
            ("console-phone", "light", PHONE, "clicks"),
            ("console-step", "light", WIDE, f"clicks/steps/{cluster.clicks.steps}"),
        ):
            while cluster.clicks.now_ms < clock_ms() - 900:
                await click_step(cluster.clicks, random)
            await beat(cluster)
            await take(browser, f"{server.url}/console/#/{address}", FOLDER / f"{name}.png", scheme, size)


async def take(browser: Browser, address: str, file: Path, scheme: str, size: dict[str, int]) -> None:
    """One picture, as high as the page is."""
    context = await browser.new_context(viewport=size, color_scheme=scheme, device_scale_factor=1)  # type: ignore[arg-type]
    page: Page = await context.new_page()
    await page.goto(address)
    await page.get_by_role("heading", name="Checkpoints").wait_for(state="attached")
    if "/steps/" in address:
        await page.get_by_role("heading", name="Division").wait_for()
    await page.screenshot(path=file, full_page="/steps/" not in address)
    await context.close()


if __name__ == "__main__":
    asyncio.run(main())

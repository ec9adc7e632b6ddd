"""A real Chromium that is installed on this machine, driven without a window."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from playwright.async_api import Browser, async_playwright

VARIABLE = "KCONTROL_TEST_BROWSER"
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-dev-shm-usage",
    "--disable-gpu",
    # It would end its GPU process for being slow, in the middle of a page.
    "--disable-gpu-watchdog",
    "--no-proxy-server",
    "--force-color-profile=srgb",
]
START_MS = 120_000


def find_browser() -> str | None:
    """Path of the browser: what KCONTROL_TEST_BROWSER names, or else the first that there is."""
    named = os.environ.get(VARIABLE)
    return shutil.which(named) if named else next(filter(None, map(shutil.which, NAMES)), None)


@asynccontextmanager
async def chromium(path: str) -> AsyncIterator[Browser]:
    """Running for as long as the block does."""
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGUMENTS, timeout=START_MS)
        try:
            yield browser
        finally:
            await browser.close()

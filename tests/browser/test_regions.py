"""The page about regions: where each is, what its members are at, its cuts, and what it waits for."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from tests.browser.conftest import Console, Run
from tests.unit.http.test_regions import seen

pytestmark = pytest.mark.browser


def test_regions_are_shown_with_their_cuts_and_what_they_wait_for(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.go("/console/#/clicks")
        link = console.page.get_by_role("navigation", name="Pipelines").get_by_role("link", name="Regions")
        await expect(link).to_contain_text("2 regions, 1 not at work")
        await link.click()
        await expect(console.page).to_have_title("Regions · kcontrol")
        orders, idle = console.panel("orders"), console.panel("idle")
        await expect(orders).to_contain_text("draining")
        await expect(orders).to_contain_text("waits for b is late")
        members = orders.get_by_role("table", name="Members of orders").get_by_role("row")
        await expect(members).to_have_count(3)
        await expect(members.nth(1)).to_contain_text("triggerDrain")
        cuts = orders.get_by_role("table", name="Cuts of orders").get_by_role("row")
        await expect(cuts.nth(1)).to_contain_text("a 41, b 7")
        await expect(idle).to_contain_text("nobody has been in charge yet")
        await expect(idle).to_contain_text("It has no cut yet.")

    run(scenario, regions=seen())


def test_without_regions_there_is_no_link(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        navigation = console.page.get_by_role("navigation", name="Pipelines")
        await expect(navigation.get_by_role("link", name="Regions")).to_have_count(0)

    run(scenario)

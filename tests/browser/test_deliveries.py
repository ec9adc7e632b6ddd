"""Deliveries on the page of a pipeline."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.async_api import expect

from kcontrol.views.deliveries import StandsBy, ToldDelivery
from tests.browser.conftest import PHONE, Console, Run
from tests.browser.served import clock_ms

pytestmark = pytest.mark.browser


def told() -> list[ToldDelivery]:
    """One at work, one that has halted, and one that nobody has heard of for an hour."""
    now_ms = clock_ms()
    works = ToldDelivery(
        *("counts", "totals", "postgresql", "exactly_once", "running", 10, 12.0, "", now_ms),
        *(
            "postgresql://db:5432/shop",
            now_ms - 90_000,
            "host-a:7:beef",
            (StandsBy("host-b:8:cafe", now_ms),),
        ),
    )
    halted = replace(
        works,
        **{"target": "hooks.example.com/orders", "kind": "webhook", "state": "halted", "step": -1},
        guarantee="at_least_once",
        address="https://hooks.example.com/orders",
        reason="it was answered with 410",
        standing_by=(),
    )
    old = replace(works, target="old", kind="delta", address="delta:///old", at_ms=now_ms - 3_600_000)
    return [works, halted, old]


def test_deliveries_are_shown_and_a_halted_one_with_its_reason(run: Run) -> None:
    async def scenario(console: Console) -> None:
        console.server.deliveries.extend(told())
        await console.open()
        panel = console.panel("Deliveries")
        rows = panel.get_by_role("table", name="Deliveries").get_by_role("row")
        await expect(rows).to_have_count(4)
        halted, old, works = rows.nth(1), rows.nth(2), rows.nth(3)
        await expect(works).to_contain_text("postgresql totals at postgresql://db:5432/shop")
        await expect(works).to_contain_text("running")
        await expect(works).to_contain_text("host-a:7:beef standing by: host-b:8:cafe")
        await expect(halted.locator(".is-halted")).to_contain_text("halted")
        await expect(halted).to_contain_text("not known")
        await expect(panel.locator(".note.bad")).to_have_text(
            "counts to hooks.example.com/orders: it was answered with 410"
        )
        await expect(old).to_contain_text("silent for 1 h, was running")
        await expect(panel).to_contain_text("As of step")

    run(scenario)


def test_each_says_how_often_a_row_may_be_there(run: Run) -> None:
    """A webhook's receiver may be sent a step again, and has to be ready for it."""

    async def scenario(console: Console) -> None:
        console.server.deliveries.extend(told())
        await console.open()
        rows = console.panel("Deliveries").get_by_role("table", name="Deliveries").get_by_role("row")
        for row, said in (
            (1, "webhook hooks.example.com/orders at https://hooks.example.com/orders, at least once"),
            (2, "delta old at delta:///old, exactly once"),
            (3, "postgresql totals at postgresql://db:5432/shop, exactly once"),
        ):
            await expect(rows.nth(row).locator("[data-label=To]")).to_have_text(said)

    run(scenario)


def test_without_deliveries_there_is_nothing_of_them(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        await expect(console.panel("Nodes")).to_be_visible()
        await expect(console.panel("Deliveries")).to_have_count(0)

    run(scenario)


def test_they_fit_on_a_phone(run: Run) -> None:
    async def scenario(console: Console) -> None:
        console.server.deliveries.extend(told())
        await console.open()
        await expect(console.panel("Deliveries")).to_be_visible()
        wide = await console.page.evaluate("document.documentElement.scrollWidth")
        assert wide <= PHONE["width"]

    run(scenario, viewport=PHONE)

"""A pipeline that was stopped goes back after it was shown what would be void; what is refused is shown with its cause."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.async_api import expect

from kcontrol.errors import ConfigurationError
from kcontrol.requests.resets import ResetFacts, ResetOrder
from tests.browser.conftest import Console, Run

pytestmark = pytest.mark.browser

NAME = "legacy-export"


def test_what_would_be_void_is_shown_before_it_is(run: Run) -> None:
    async def scenario(console: Console) -> None:
        orders: list[ResetOrder] = []

        async def reset(order: ResetOrder) -> ResetFacts:
            orders.append(order)
            if not order.leave_behind:
                raise ConfigurationError("pipeline 'bills' reads topic 'shouts'")
            return ResetFacts(NAME, not order.only_plan, 1, 4, 2, 3, {"shouts": 7}, 1, 0, order.leave_behind)

        await console.server.end()
        console.server.resets = reset
        await console.server.begin()
        await console.open(NAME)
        panel = console.panel("Go back")
        await panel.get_by_label("Last step that counts").fill("1")
        await panel.get_by_label("Why").fill("a wrong rate")
        await panel.get_by_role("button", name="Go back…").click()
        requests = console.page.get_by_role("list", name="Requests")
        await expect(requests).to_contain_text("refused: pipeline 'bills' reads topic 'shouts'")
        await panel.get_by_label("Left behind").fill("bills, deliveries")
        await panel.get_by_role("button", name="Go back…").click()
        dialog = console.page.get_by_role("dialog")
        await expect(dialog).to_contain_text(f"{NAME}: back to step 1?")
        await expect(dialog).to_contain_text(
            "Steps 2 to 3 become void (7 records in topic shouts), for good."
        )
        await expect(dialog).to_contain_text("Left behind: bills, deliveries.")
        assert all(each.only_plan for each in orders)
        await dialog.get_by_role("button", name="Go back").click()
        await expect(requests).to_contain_text("done: steps 2 to 3 are void since step 4")
        left = ("bills", "deliveries")
        planned = ResetOrder(NAME, 1, "a wrong rate", "REST", left, None, only_plan=True)
        assert orders[1:] == [planned, replace(planned, by="Console", last_step=3, only_plan=False)]

    run(scenario)


def test_a_server_that_resets_nothing_says_so_and_a_pipeline_at_work_is_not_asked_about(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open("clicks")
        await expect(console.panel("Go back")).to_have_count(0)
        await console.open(NAME)
        panel = console.panel("Go back")
        await panel.get_by_label("Last step that counts").fill("1")
        await panel.get_by_role("button", name="Go back…").click()
        requests = console.page.get_by_role("list", name="Requests")
        await expect(requests).to_contain_text(
            "this server does not reset pipelines: start it with --allow-resets"
        )

    run(scenario)

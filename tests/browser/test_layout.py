"""The layout is shown, a change of it is asked for with the number of nodes, followed, and withdrawn."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from kcontrol.core.model import LayoutPhase, LayoutRequest, LayoutStatus
from tests.browser.conftest import Console, Run
from tests.support.played import Played

pytestmark = pytest.mark.browser


async def _asked(pipeline: Played) -> list[LayoutRequest]:
    return [
        each.record for each in await pipeline.control.read_to_end() if isinstance(each.record, LayoutRequest)
    ]


def test_progress_of_a_change_is_shown_and_it_is_withdrawn(run: Run) -> None:
    async def scenario(console: Console) -> None:
        clicks = console.cluster.clicks
        asked = LayoutRequest("clicks", "l1", 1, 4, 60_000)
        told = LayoutStatus(
            "l1", LayoutPhase.COPYING, 4, 80, 3, 1_000_000, 4_000_000, 12, "node 3 copies its state"
        )
        await clicks.say(asked)
        await clicks.status(layout=told)
        await console.open()
        panel = console.panel("Layout")
        await expect(panel).to_contain_text("3 nodes, which own 4, 4, 4 shards of state")
        await expect(panel).to_contain_text(
            "To 4 nodes: State is being copied; steps go on: node 3 copies its state"
        )
        await expect(panel).to_contain_text("3 shards move, 1 MB of 4 MB copied, about 12 s left")
        bar = panel.get_by_role("progressbar", name="State that is copied")
        await expect(bar).to_have_attribute("value", "1000000")
        await _asked(clicks)
        await console.button("Withdraw").click()
        await expect(console.page.get_by_role("list", name="Requests")).to_contain_text(
            "recorded at control offset"
        )
        (withdrawn,) = await _asked(clicks)
        assert withdrawn.nodes == 0

    run(scenario)


def test_another_number_of_nodes_is_asked_for_after_a_question_and_a_refusal_is_shown(run: Run) -> None:
    async def scenario(console: Console) -> None:
        clicks = console.cluster.clicks
        await console.open()
        await _asked(clicks)
        panel = console.panel("Layout")
        await panel.get_by_label("Nodes").fill("4")
        await panel.get_by_role("button", name="Change…").click()
        dialog = console.page.get_by_role("dialog")
        await expect(dialog).to_contain_text("clicks: 4 nodes instead of 3?")
        await expect(dialog).to_contain_text("kcontrol node FILE --node 3 --new")
        await dialog.get_by_role("button", name="Cancel").click()
        assert await _asked(clicks) == []
        await panel.get_by_role("button", name="Change…").click()
        await dialog.get_by_role("button", name="Change it").click()
        # The pipeline of this scene has no place for checkpoints.
        requests = console.page.get_by_role("list", name="Requests")
        await expect(requests).to_contain_text(
            "refused: pipeline 'clicks' keeps state and has no place for checkpoints"
        )
        assert await _asked(clicks) == []

    run(scenario)

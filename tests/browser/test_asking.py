"""The buttons write control records, as the command line does, and show what becomes of them."""

from __future__ import annotations

import pytest
from playwright.async_api import expect

from kcontrol.core.model import (
    CheckpointAnswer,
    CheckpointRequest,
    ControlRecord,
    Desired,
    DesiredMode,
    PipelinePhase,
    Resume,
)
from tests.browser.conftest import Console, Run
from tests.support.played import Played
from tests.support.scenes import WHY_HALTED

pytestmark = pytest.mark.browser


async def asked(pipeline: Played) -> list[ControlRecord]:
    """What users have asked of it since this was called last."""
    kinds = (Desired, Resume, CheckpointRequest)
    return [each.record for each in await pipeline.control.read_to_end() if isinstance(each.record, kinds)]


def test_pause_is_recorded_and_shown_as_done_once_a_coordinator_has_acted(run: Run) -> None:
    async def scenario(console: Console) -> None:
        clicks = console.cluster.clicks
        await console.open()
        await asked(clicks)
        await console.button("Pause").click()
        requests = console.page.get_by_role("list", name="Requests")
        await expect(requests).to_contain_text("no coordinator has acted on it yet")
        (wanted,) = await asked(clicks)
        assert isinstance(wanted, Desired)
        assert wanted.mode is DesiredMode.PAUSED
        await clicks.status(PipelinePhase.PAUSED, acknowledged=(wanted.request_id,))
        await expect(requests).to_contain_text("Pause done")
        await expect(console.page.get_by_role("main")).to_contain_text("paused")
        # The button says why it can't be used again, and the keyboard's place is where it was.
        pause = console.button("Pause")
        await expect(pause).to_have_accessible_description("It is to be paused already.")
        await expect(pause).to_have_attribute("aria-disabled", "true")
        await expect(pause).to_be_focused()
        await expect(console.page.locator("#announced")).to_have_text("Pause of clicks: done")
        await console.button("Dismiss: Pause").click()
        await expect(requests).to_have_count(0)

    run(scenario)


@pytest.mark.parametrize(
    ("name", "kinds"), [("fraud-alerts", [Resume, Desired]), ("daily-rollup", [Desired])]
)
def test_resume_lifts_a_halt_only_where_the_reader_has_seen_one(
    run: Run, name: str, kinds: list[type]
) -> None:
    async def scenario(console: Console) -> None:
        pipeline = console.cluster.fraud if name == "fraud-alerts" else console.cluster.paused
        await console.open(name)
        await asked(pipeline)
        await console.button("Resume").click()
        await expect(console.page.get_by_role("list", name="Requests")).to_contain_text(
            "recorded at control offset"
        )
        written = await asked(pipeline)
        assert [type(each) for each in written] == kinds
        assert isinstance(written[-1], Desired)
        assert written[-1].mode is DesiredMode.RUNNING

    run(scenario)


def test_a_refusal_is_shown_with_its_cause_and_remedy(run: Run) -> None:
    async def scenario(console: Console) -> None:
        paused, path = console.cluster.paused, "/v1/pipelines/daily-rollup"
        before = (await console.client.get(path)).text
        await console.context.route(
            f"**{path}", lambda route: route.fulfill(body=before, content_type="application/json")
        )
        await console.open("daily-rollup")
        # It halts, and the page has not seen it yet.
        await console.seen("daily-rollup", await paused.status(PipelinePhase.HALTED, WHY_HALTED))
        await asked(paused)
        await console.button("Resume").click()
        requests = console.page.get_by_role("list", name="Requests")
        await expect(requests).to_contain_text("refused: pipeline 'daily-rollup' has halted")
        await expect(requests).to_contain_text(WHY_HALTED)
        await expect(requests).to_contain_text("Put right what the detail names")
        assert await asked(paused) == []

    run(scenario)


def test_checkpoint_is_asked_for_and_answered(run: Run) -> None:
    async def scenario(console: Console) -> None:
        clicks = console.cluster.clicks
        await console.open()
        requests = console.page.get_by_role("list", name="Requests").get_by_role("listitem")
        for error, shown in (
            ("", f"done: step {clicks.steps} is saved"),
            ("node 1: disk full", "failed: node 1: disk full"),
        ):
            await asked(clicks)
            await console.button("Checkpoint").click()
            await expect(requests.first).to_contain_text("recorded at control offset")
            (wanted,) = await asked(clicks)
            assert isinstance(wanted, CheckpointRequest)
            await clicks.status(
                answers=(CheckpointAnswer(wanted.request_id, 0 if error else clicks.steps, error),)
            )
            await expect(requests.first).to_contain_text(shown)

    run(scenario)


def test_stop_asks_first(run: Run) -> None:
    async def scenario(console: Console) -> None:
        clicks = console.cluster.clicks
        await console.open()
        await asked(clicks)
        question = console.page.get_by_role("dialog", name="Stop clicks?")
        await console.button("Stop…").click()
        await expect(question).to_contain_text("the processes of its 3 nodes shut down")
        await question.get_by_role("button", name="Cancel").click()
        await expect(question).to_have_count(0)
        assert await asked(clicks) == []
        await console.button("Stop…").click()
        await question.get_by_role("button", name="Stop it").click()
        await expect(console.page.get_by_role("list", name="Requests")).to_contain_text(
            "recorded at control offset"
        )
        (wanted,) = await asked(clicks)
        assert isinstance(wanted, Desired)
        assert wanted.mode is DesiredMode.STOPPED

    run(scenario)

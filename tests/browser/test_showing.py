"""What the Console shows of pipelines, steps, nodes, inputs, checkpoints and failures is what the logs
say."""

from __future__ import annotations

import re
from random import Random

import pytest
from playwright.async_api import expect

from kcontrol.core.model import InputDesired, NodePhase, PipelinePhase, Reason, SkipRequest
from tests.browser.conftest import Console, Run
from tests.browser.served import clock_ms
from tests.support.played import Work
from tests.support.scenes import WHY_HALTED, Cluster, click_step

pytestmark = pytest.mark.browser


def test_pipelines_are_listed_with_state_and_lag(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.go("")
        links = console.page.get_by_role("navigation", name="Pipelines").get_by_role("link")
        await expect(links).to_have_count(5)
        for place, (name, state, lag) in enumerate(
            [
                ("clicks", "running", "1,242 waiting"),
                ("daily-rollup", "paused", "12.8K waiting, 1 h"),
                ("fraud-alerts", "halted", re.compile(r"7,720 waiting, [5-9] min")),
                ("legacy-export", "stopped", "12.8K waiting, 1 d"),
                ("orders-enriched", "running", "nothing waits"),
            ]
        ):
            for text in (name, state, lag):
                await expect(links.nth(place)).to_contain_text(text)
        # Without a name in the address, the first is looked at; another is a click away.
        await expect(console.page.get_by_role("heading", level=1)).to_have_text("clicks")
        await links.nth(2).click()
        await expect(console.page.get_by_role("heading", level=1)).to_have_text("fraud-alerts")
        await expect(links.nth(2)).to_have_attribute("aria-current", "page")
        await expect(console.page).to_have_title("fraud-alerts · kcontrol")

    run(scenario)


def test_a_halt_is_shown_with_its_root_cause_first(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open("fraud-alerts")
        causes = console.panel("Why it has halted").get_by_role("listitem")
        await expect(causes).to_have_count(3)
        await expect(causes.nth(0)).to_contain_text("root cause")
        await expect(causes.nth(0)).to_contain_text(WHY_HALTED)
        await expect(causes.nth(1)).to_contain_text("node 1 attempt: query")
        await expect(causes.nth(1)).to_contain_text("is not JSON")
        await expect(causes.nth(2)).to_contain_text("access denied")

    run(scenario)


def test_what_is_not_safe_is_said_as_the_status_says_it(run: Run) -> None:
    """The cluster of these tests has no broker, so that whether its topics are safe is what can't be
    known."""

    async def scenario(console: Console) -> None:
        await console.open()
        remarks = console.panel("Worth attention").get_by_role("listitem")
        unsafe = remarks.filter(has_text="Not safe: whether the topics are safe can't be looked at: ")
        await expect(unsafe).to_have_count(1)
        # What may go wrong one day is beside it, in words of its own.
        await expect(remarks.filter(has_not_text="Not safe")).to_contain_text("is saved nowhere")

    run(scenario)


def test_steps_appear_as_they_are_committed_and_can_be_held(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        clicks, rows = (
            console.cluster.clicks,
            console.page.get_by_role("table", name="Newest steps").get_by_role("row"),
        )
        made = await clicks.step(
            Work({("clicks", 0): 1_234}, {("page-views", 1): 56}, waiting_ms=500, working_ms=77, attempt=2)
        )
        cells = rows.nth(1).get_by_role("cell")
        await expect(cells.nth(0)).to_have_text(f"{made.step:,}")
        assert (await cells.all_inner_texts())[2:] == [
            "records",
            "1,234",
            "56",
            "500 ms",
            "3 ms",
            "77 ms",
            "2",
        ]
        await expect(console.panel("Steps")).to_contain_text(
            f"Step {made.step:,}, records: 1,234 records in, 56 out"
        )
        await console.button("Hold").click()
        await console.page.mouse.move(0, 0)
        await click_step(clicks, Random(3))
        await expect(console.panel("Steps")).to_contain_text("held; 1 newer")
        await expect(cells.nth(0)).to_have_text(f"{made.step:,}")
        await console.button("Hold").click()
        await expect(cells.nth(0)).to_have_text(f"{made.step + 1:,}")

    run(scenario)


def test_an_opened_step_shows_division_digests_and_output_offsets(run: Run) -> None:
    async def scenario(console: Console) -> None:
        clicks = console.cluster.clicks
        made = await clicks.step(
            Work({("clicks", p): 10 + p for p in range(6)}, {("page-views", 2): 9}, working_ms=61)
        )
        await console.open()
        await (
            console.page.get_by_role("table", name="Newest steps")
            .get_by_role("link", name=f"{made.step:,}")
            .click()
        )
        dialog = console.page.get_by_role("dialog", name=f"Step {made.step:,} of clicks")
        for name, slices in (
            ("Input clicks", made.inputs[:6]),
            ("Input users", made.inputs[6:]),
            ("Output page-views", made.outputs),
        ):
            rows = dialog.get_by_role("table", name=name).get_by_role("row")
            await expect(rows).to_have_count(len(slices) + 1)
            for place, each in enumerate(slices, 1):
                figures = [f"{number:,}" for number in (each.partition, each.from_, each.to, each.records)]
                assert await rows.nth(place).get_by_role("cell").all_inner_texts() == [*figures, each.digest]
        await expect(dialog).to_contain_text("records: enough records had arrived")
        await expect(
            dialog.get_by_role("definition").filter(has_text="nodes read, compute and write")
        ).to_contain_text("61 ms")
        await expect(dialog).to_contain_text(f"1 of claim epoch {made.token.claim_epoch}")
        assert (
            await dialog.get_by_role("table", name="Splits").get_by_role("row").count()
            == len(made.layout.splits) + 1
        )
        # The one before, by its button; the address is that of the step, and the
        # browser's own way back leaves it.
        await dialog.get_by_role("button", name="Previous step").click()
        await expect(console.page.get_by_role("dialog", name=f"Step {made.step - 1:,}")).to_contain_text(
            "Division"
        )
        assert console.page.url.endswith(f"#/clicks/steps/{made.step - 1}")
        await console.page.go_back()
        await expect(console.page.get_by_role("dialog")).to_have_count(0)

    run(scenario)


def test_a_step_that_is_old_or_gone_is_asked_for_and_explained(run: Run) -> None:
    async def scenario(console: Console) -> None:
        first = console.cluster.clicks.steps - 90
        await console.open(f"clicks/steps/{first}")
        dialog = console.page.get_by_role("dialog")
        await expect(dialog.get_by_role("heading", name="Division")).to_be_visible()
        await console.open("clicks/steps/3")
        await expect(dialog).to_contain_text("its log begins with step 18115")

    run(scenario)


def test_a_void_step_says_since_when_and_by_whom(run: Run) -> None:
    async def scenario(console: Console) -> None:
        clicks = console.cluster.clicks
        good, bad = [await click_step(clicks, Random(6)) for _ in range(2)]
        reset = await clicks.reset(good, bad, "a wrong rate")
        await console.open(f"clicks/steps/{bad.step}")
        dialog = console.page.get_by_role("dialog")
        await expect(dialog).to_contain_text(
            f"Void since step {reset.step:,}, a reset to step {good.step:,} (a wrong rate), by ana"
        )
        await console.open(f"clicks/steps/{good.step}")
        await expect(dialog).to_contain_text("Division")
        await expect(dialog).not_to_contain_text("Void since")

    run(scenario)


def test_a_step_is_found_by_what_it_read_and_by_what_it_wrote(run: Run) -> None:
    async def scenario(console: Console) -> None:
        made = await click_step(console.cluster.clicks, Random(4))
        await click_step(console.cluster.clicks, Random(5))
        await console.open()
        dialog = console.page.get_by_role("dialog", name=f"Step {made.step:,} of clicks")
        await console.page.get_by_text("Find a step").first.click()
        for way, name, place in (
            ("that read an offset", "clicks", made.inputs[3]),
            ("that wrote an offset", "web.page-views", made.outputs[1]),
        ):
            await console.page.get_by_role("combobox", name="Which").select_option(way)
            await console.page.get_by_role(
                "combobox", name="Input" if place is made.inputs[3] else "Topic"
            ).select_option(name)
            await console.page.get_by_role("spinbutton", name="Partition").fill(str(place.partition))
            await console.page.get_by_role("spinbutton", name="Offset").fill(str(place.from_))
            await console.button("Open").click()
            await expect(dialog).to_be_visible()
            await console.page.keyboard.press("Escape")
        await console.page.get_by_role("spinbutton", name="Offset").fill("99999999")
        await console.button("Open").click()
        await expect(console.panel("Steps")).to_contain_text("no committed step in the log")
        await console.page.get_by_role("combobox", name="Which").select_option("by its number")
        await console.page.get_by_role("spinbutton", name="Step").fill(str(made.step))
        await console.page.keyboard.press("Enter")
        await expect(dialog).to_be_visible()

    run(scenario)


def test_nodes_are_shown_with_their_step_silence_and_error(run: Run) -> None:
    async def before(cluster: Cluster) -> None:
        cluster.clock.past_ms = clock_ms() - 65 * 60_000
        await cluster.clicks.node(1, step=18_000)
        cluster.clicks.silent.add(1)
        cluster.clock.past_ms = None
        await cluster.clicks.node(2, NodePhase.FAILED, "the query ended: out of memory")

    async def scenario(console: Console) -> None:
        await console.open()
        rows = console.page.get_by_role("table", name="Nodes").get_by_role("row")
        await expect(rows.nth(1)).to_contain_text("worker-a:1200")
        await expect(rows.nth(1)).to_contain_text("running")
        await expect(rows.nth(2)).to_contain_text("silent18,000")
        await expect(rows.nth(2)).to_contain_text("silent for 1 h")
        await expect(rows.nth(3)).to_contain_text("failed")
        await expect(console.panel("Nodes")).to_contain_text("Node 2: the query ended: out of memory")
        await expect(console.panel("Failures")).to_contain_text("node 2 failed")
        await expect(console.panel("Failures")).to_contain_text("nothing was heard of it for 1 h")

    run(scenario, before=before)


def test_a_node_that_a_stop_has_closed_may_say_nothing(run: Run) -> None:
    async def before(cluster: Cluster) -> None:
        cluster.clock.past_ms = clock_ms() - 65 * 60_000
        await cluster.clicks.status(PipelinePhase.STOPPED)
        await cluster.clicks.node(1, NodePhase.CLOSED)
        cluster.clicks.silent.add(1)
        cluster.clock.past_ms = None

    async def scenario(console: Console) -> None:
        await console.open()
        row = console.page.get_by_role("table", name="Nodes").get_by_role("row").nth(2)
        await expect(row).to_contain_text("closed")
        await expect(row).to_contain_text(re.compile(r"1 h.* ago"))
        await expect(row).not_to_contain_text("silent")

    run(scenario, before=before)


def test_checkpoints_and_what_waits_by_partition(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        rows = console.page.get_by_role("table", name="Checkpoints").get_by_role("row")
        await expect(rows).to_have_count(3)
        for text in ("18,185", "1.8 s", "214 MB", "on request"):
            await expect(rows.nth(1)).to_contain_text(text)
        await expect(console.panel("Checkpoints")).to_contain_text("at s3://state/clicks")
        await expect(rows.nth(2)).to_contain_text("by the clock")
        await console.page.get_by_text("By partition").click()
        partitions = console.page.get_by_role("table", name="Partitions of clicks").get_by_role("row")
        await expect(partitions).to_have_count(7)
        assert (await partitions.nth(1).get_by_role("cell").all_inner_texts())[4] == "207"

    run(scenario)


def test_a_paused_input_and_what_is_passed_over(run: Run) -> None:
    async def scenario(console: Console) -> None:
        clicks = console.cluster.clicks
        skip = {("clicks", 2): 40}
        made = await clicks.step(Work({("clicks", 2): 5}, {}, reason=Reason.SKIP, skip=skip))
        end = made.inputs[2].to
        await clicks.say(
            InputDesired(clicks.name, "users", True, "r1"),
            SkipRequest(clicks.name, "clicks", 2, end, end + 7, "ann@laptop", clock_ms(), "r2"),
        )
        await console.open()
        rows = console.page.get_by_role("table", name="Inputs").get_by_role("row")
        await expect(rows.nth(2)).to_contain_text("users")
        await expect(rows.nth(2)).to_contain_text("paused (not yet noted)")
        asked = f"ann@laptop asked to pass over offsets {end:,} to {end + 6:,} of clicks, partition 2."
        await expect(console.panel("Inputs")).to_contain_text(asked)
        await console.open(f"clicks/steps/{made.step}")
        cells = (
            console.page.get_by_role("table", name="Passed over")
            .get_by_role("row")
            .nth(1)
            .get_by_role("cell")
        )
        await expect(cells).to_have_count(6)
        (passed,) = made.skipped_ranges
        assert (await cells.all_inner_texts())[:5] == [
            "2",
            "clicks",
            f"{passed.from_:,}",
            f"{passed.to:,}",
            "ann@console",
        ]

    run(scenario)


def test_a_pipeline_whose_log_is_damaged_is_shown_as_broken_and_the_others_go_on(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.open()
        idle = console.cluster.idle
        idle.steps += 3
        await idle.step(Work({}, {}))
        link = console.page.get_by_role("navigation", name="Pipelines").get_by_role(
            "link", name="orders-enriched"
        )
        await expect(link).to_contain_text("broken")
        await link.click()
        await expect(console.page.get_by_role("main")).to_contain_text(
            "The log of steps was changed from outside: restore it."
        )

    run(scenario)


def test_an_empty_cluster_says_how_a_pipeline_comes_to_be(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.context.route(
            "**/v1/pipelines?*",
            lambda route: route.fulfill(json={"pipelines": [], "broken": {}, "next_after": None}),
        )
        await console.go("/console/")
        await expect(console.page.get_by_role("navigation")).to_contain_text("kcontrol run FILE.py")
        await console.go("/console/#/no-such")
        await expect(console.page.get_by_role("main")).to_contain_text(
            "there is no pipeline 'no-such' in this cluster"
        )

    run(scenario)

"""The page about the cluster of agents: hosts, slots, what runs where, and why something waits."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.async_api import expect

from kcontrol.core.cluster.troubles import AgentTroubles
from tests.browser.conftest import Console, Run
from tests.support.agents_scene import NAMES, hosts

pytestmark = pytest.mark.browser


def test_hosts_and_jobs_are_shown_with_why_one_waits(run: Run) -> None:
    async def scenario(console: Console) -> None:
        await console.go("/console/#/clicks")
        link = console.page.get_by_role("navigation", name="Pipelines").get_by_role("link", name="Hosts")
        await expect(link).to_contain_text("3 agents")
        await link.click()
        await expect(console.page).to_have_title("Hosts · kcontrol")
        agents = console.panel("Agents").get_by_role("row")
        await expect(agents).to_have_count(1 + len(NAMES))
        await expect(agents.nth(1)).to_contain_text("2 of 4")
        await expect(agents.nth(1)).to_contain_text("ended with code 2: /var/lib/kcontrol can't be written")
        await expect(agents.nth(3)).to_contain_text("draining")
        await expect(agents.nth(3)).to_contain_text("18 entries behind")
        jobs = console.panel("Jobs")
        await expect(jobs).to_contain_text("nodes/0 on host-1")
        await expect(jobs).to_contain_text(
            "fraud-alerts: task nodes needs 2 slots with tags gpu; there are 0"
        )
        await expect(jobs).to_contain_text("there is no column `origin`")
        await expect(console.panel("What happened").get_by_role("row").nth(1)).to_contain_text("drains")

    run(scenario, agents=hosts())


def test_what_a_host_starts_in_vain_is_shown(run: Run) -> None:
    why = "clicks/nodes/0 was started 4 times in vain, and will be again after 16 s: ended with code 3: no leader"
    seen = hosts()
    agent = seen.replica.agents[NAMES[0]]

    async def scenario(console: Console) -> None:
        await console.go("/console/#/:hosts")
        await expect(console.panel("Agents")).to_contain_text(f"{NAMES[0]}: {why}")

    run(scenario, agents=replace(seen, troubles=[AgentTroubles(agent.name, agent.incarnation, (why,))]))

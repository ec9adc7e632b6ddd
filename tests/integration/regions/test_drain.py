"""Three real pipelines that read each other's topics are drained while records flow: what each had written at a cut follows
from the outer input before it, record by record; and a drain that is killed holds nobody."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from kcontrol.apps.drain import DrainedStep, drain
from kcontrol.errors import RetriableError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.regions.chain import PATIENCE_S
from tests.integration.regions.three import NAMES, ThreePipelines
from tests.support.processes import KcontrolProcess, run_kcontrol, until


@pytest.mark.heavy
@pytest.mark.timeout(600)
def test_cuts_of_three_pipelines_are_what_the_outer_input_leads_to(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path
) -> None:
    region = ThreePipelines(settings, tmp_path, topic_factory)
    with region.running() as processes, region.flowing():
        region.until_all_have_made_a_step()
        before: dict[str, int] = {}
        region.until_saved("totals")
        for killed, loses_disk in ((False, False), (True, False), (True, True), (False, False)):
            if killed:
                processes["totals"].kill()
            if loses_disk:
                region.lose_disk()
            if killed:
                processes["totals"].start()
            found = asyncio.run(drain(region.settings, NAMES, PATIENCE_S))
            region.check(found)
            steps = {one.pipeline: one.boundary.step for one in found}
            assert all(step > before.get(name, 0) for name, step in steps.items()), (before, steps)
            before = steps

        # One that does not come to its limits ends the drain, and nobody stays held.
        processes["totals"].kill()
        with pytest.raises(RetriableError, match="these were waited for: totals"):
            asyncio.run(drain(region.settings, NAMES, 15))
        region.until_read_beyond("enrich", before["enrich"])

        # Whoever drains is killed while it holds one, which waits for `totals`: it goes on once the lease is over.
        arguments = ("cut", *NAMES, "--drain", "--json")
        with KcontrolProcess(*arguments, log=tmp_path / "drain.log", cwd=tmp_path) as draining:
            until(lambda: region.is_any_held(), "one is held", PATIENCE_S)
            with pytest.raises(NotNowError, match="'enrich' is held by"):
                asyncio.run(drain(region.settings, NAMES, PATIENCE_S))
            draining.kill()
        processes["totals"].start()
        again: list[tuple[DrainedStep, ...]] = []

        def drained() -> bool:
            try:
                again.append(asyncio.run(drain(region.settings, NAMES, PATIENCE_S)))
            except NotNowError:
                return False
            return True

        until(drained, "it can be drained again", PATIENCE_S)
        region.check(again[0])

        printed = run_kcontrol(*arguments, cwd=tmp_path, timeout_s=120)
        assert printed.returncode == 0, printed.stderr
        assert [json.loads(line)["pipeline"] for line in printed.stdout.splitlines()] == list(NAMES)

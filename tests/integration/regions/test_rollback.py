"""Three real pipelines that read each other's topics are taken back to a cut, and go on: what they wrote since counts for
nobody, and nobody of them reads it. The controller that does so is killed at each record of a rollback."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from kcontrol import RegionConsumer
from kcontrol.apps.regions.asking import ask_region, plan_region_rollback, request_of
from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import LoggedStep
from kcontrol.core.regions.records import RegionRequest, RegionRequestKind
from kcontrol.core.step.resetting import stands_at
from kcontrol.errors import CutsVoidedError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.regions.chain import PATIENCE_S
from tests.integration.regions.test_region import Region, cuts_said, has_ended, stopped
from tests.integration.regions.three import NAMES
from tests.support.processes import until
from tests.support.serving import client_of, serving

LONGEST_ROLLBACK = 50
"""Records of a controller from its first to the end of a rollback, before and after each."""
PERIOD = "500 ms"
SILENT_S = 90.0
"""Until nobody is taken to be at work for a pipeline whose processes were killed."""


class Rolled(Region):
    """The three pipelines, and where they are taken back to."""

    answer_s = 60.0
    """Until whoever is asked for a rollback has answered."""

    def steps_of(self, number: int) -> dict[str, int]:
        return {one.pipeline: one.step for one in self.view().cuts[number].pipelines}

    def make_cuts(self, many: int) -> list[int]:
        """So many, in which all three have made steps since the one before."""
        with self.running(), self.flowing(0.2):
            self.until_all_have_made_a_step()
            self.until_saved("totals")
            with self.controlled("maker") as maker:
                until(lambda: cuts_said(maker) > many, f"{many} cuts", 600, maker.text)
                for name in NAMES:
                    self.until_read_beyond(name, self.steps_of(max(self.view().cuts))[name])
                self.apply(trigger="operator_driven", max_reset_attempts=10_000)
                self.until_nobody_is_held()
                stopped(maker)
        self.check_kept(self.view().cuts[max(self.view().cuts)])
        return sorted(self.view().cuts)

    def roll_back(self, to_cut: int) -> None:
        """As the command does, in this process; again, where the one that was asked is in charge no more."""
        deadline_s = time.monotonic() + SILENT_S
        while True:
            try:
                plans, as_of = asyncio.run(
                    plan_region_rollback(
                        self.settings, "all", to_cut, (), self.home / "home", timeout_s=self.answer_s
                    )
                )
                assert [plan.pipeline for plan in plans] == list(NAMES), "writers first"
                asked = request_of("all", RegionRequestKind.ROLLBACK, "a test")
                request = RegionRequest(
                    *("all", asked.kind, asked.by, asked.at_ms, asked.request_id),
                    to_cut=to_cut,
                    as_of=as_of,
                )
                asyncio.run(ask_region(self.settings, request, self.answer_s))
            except NotNowError:
                if time.monotonic() > deadline_s:
                    raise
                time.sleep(0.5)
            else:
                return

    def plan_over_rest(self, to_cut: int) -> None:
        """It says what the command says, and refuses what is asked as of another change, or by nobody's leave."""
        said = json.loads(self.command("rollback", "all", "--to-cut", str(to_cut), "--plan", "--json"))
        body = {"to_cut": to_cut, "plan": True}
        path = "/v1/regions/all/rollback"
        with serving(self.home) as process, closing(client_of(process)) as client:
            refused = client.post(path, json=body)
            assert (refused.status_code, "--allow-resets" in refused.text) == (409, True), refused.text
        with serving(self.home, "--allow-resets") as process, closing(client_of(process)) as client:
            told = client.post(path, json=body)
            assert told.status_code == 202, told.text
            plan = told.json()
            assert (plan["pipelines"], plan["request_id"]) == (said["pipelines"], "")
            late = client.post(path, json={"to_cut": to_cut, "as_of": plan["as_of"] + 1})
            assert (late.status_code, "plan the rollback anew" in late.text) == (409, True), late.text

    def is_back(self, number: int) -> bool:
        """Whether the log says that all are at the cut: what is written then is of no rollback."""
        newest = self.view().newest
        return newest is not None and newest.rollback is None and newest.last_completed_seq_id == number

    def check_back(self, number: int) -> None:
        """All stand at the cut, and none was reset twice for one rollback."""
        view = self.view()
        assert view.newest is not None
        assert view.newest.rollback is None
        assert view.newest.last_completed_seq_id == number == max(view.cuts)
        for name, step in self.steps_of(number).items():
            found = self.boundaries(name)
            steps = StepsView(name)
            for offset, one in enumerate(found):
                steps = evolve(steps, LoggedStep(offset, one))
            assert stands_at(steps, step), (name, step, steps.resets)
            resets = Counter(one.reset.request_id for one in found if one.reset is not None)
            assert not resets or max(resets.values()) == 1, (name, resets)


@pytest.fixture
def rolled(settings: ClusterSettings, topic_factory: TopicFactory, tmp_path: Path) -> Rolled:
    region = Rolled(settings, tmp_path, topic_factory)
    region.apply(period=PERIOD)
    return region


@pytest.mark.heavy
@pytest.mark.timeout(580)
def test_all_are_taken_back_and_read_nothing_that_is_void(rolled: Rolled) -> None:
    numbers = rolled.make_cuts(6)
    target, newest = numbers[2], numbers[-1]
    with RegionConsumer("all", rolled.settings, after_cut=newest, timeout=PATIENCE_S) as told:
        code, words = rolled.refused("rollback", "all", "--to-cut", str(target))
        assert (code, "start kcontrol region-controller" in words) == (1, True), words
        with rolled.controlled("first") as first:
            code, words = rolled.refused("rollback", "all", "--to-cut", str(newest + 5))
            assert (code, "is not in the log of region" in words) == (2, True), words
            plan = ("rollback", "all", "--to-cut", str(target), "--plan")
            until(lambda: rolled.refused(*plan)[0] == 0, "nobody is at work any more", SILENT_S)
            assert "nothing was reset" in rolled.command(*plan)
            rolled.plan_over_rest(target)
            assert max(rolled.view().cuts) == newest
            done = rolled.command("rollback", "all", "--to-cut", str(target), "--why", "a wrong rate")
            assert "start the pipelines again" in done
            rolled.check_back(target)
            with pytest.raises(CutsVoidedError) as void:
                next(told)
            assert (void.value.to_cut, void.value.taken) == (target, newest)
            with rolled.running(), rolled.flowing():
                for name in NAMES:
                    rolled.until_read_beyond(name, 0)
                after = rolled.drain()
                assert after.number > newest, "no number is used twice"
                assert after.follows == target
                assert next(told).number == after.number
                later = rolled.drain()
                assert next(told).number == later.number
                code, words = rolled.refused("rollback", "all", "--to-cut", str(target))
                assert (code, "Stop it first" in words) == (1, True), words
            rolled.check_log()
            stopped(first)
    for name in ("totals", "alerts"):
        (reset,) = [one for one in rolled.boundaries(name) if one.reset is not None]
        assert reset.skipped_ranges, f"{name} passes over what is void"
        assert reset.reset is not None
        assert reset.reset.why.startswith("a wrong rate")


@pytest.mark.heavy
@pytest.mark.timeout(2_000)
def test_a_controller_that_is_killed_at_any_record_of_a_rollback_is_succeeded(rolled: Rolled) -> None:
    targets = rolled.make_cuts(LONGEST_ROLLBACK)[:-1]
    with ThreadPoolExecutor(1) as asking:
        for crash_at in range(1, LONGEST_ROLLBACK):
            target = targets.pop()
            with rolled.controller(f"crashing-{crash_at}", crash_at) as crashing:
                asked = asking.submit(rolled.roll_back, target)
                until(lambda: has_ended(crashing) or asked.done(), "killed, or taken back", 150)  # noqa: B023
                if not has_ended(crashing):
                    asked.result()
                    rolled.check_back(target)
                    stopped(crashing)
                    break
                assert crashing.process is not None
                assert crashing.process.returncode == -signal.SIGKILL, crashing.text()
                over = rolled.is_back(target)
                with rolled.controlled(f"next-{crash_at}") as successor:
                    asked.result(150)
                    stopped(successor)
            rolled.check_back(target)
            rolled.check_log()
            if over:
                break
        else:
            raise AssertionError(f"a rollback is never over within {LONGEST_ROLLBACK} records")
    assert crash_at > 12, crash_at
    with rolled.controlled("last") as last, rolled.running(), rolled.flowing():
        for name in NAMES:
            rolled.until_read_beyond(name, 0)
        assert rolled.drain().follows == target
        stopped(last)

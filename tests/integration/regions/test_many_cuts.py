"""Two hundred cuts of three real pipelines, one after the other while records flow and nodes are killed: each is what the outer
input before it leads to, record by record."""

from __future__ import annotations

from collections.abc import Container, Mapping
from functools import cache

import pytest

from bench.regions.relay import placed_values_of
from kcontrol.core.model import StepBoundary
from kcontrol.core.regions.cut import Place
from kcontrol.core.regions.records import RegionCut
from kcontrol.settings.cluster import ClusterSettings
from tests.conftest import TopicFactory
from tests.integration.regions.chain import PATIENCE_S
from tests.integration.regions.test_region import Region, cuts_said
from tests.integration.regions.three import NAMES
from tests.support.dice import seeded
from tests.support.processes import until

CUTS = 200
KILL_EVERY = 25
"""Cuts between two kills of a node."""


class _ReadOnce(Region):
    """Reads each partition and each log of steps once, however many cuts are recomputed from them."""

    made: Mapping[str, list[StepBoundary]] = {}
    ends: Mapping[Place, int]
    """As far as the last of these cuts reaches."""

    def recompute(self, cuts: Mapping[int, RegionCut]) -> None:
        last = cuts[max(cuts)]
        self.ends = {
            (each.topic, each.partition): each.offset
            for one in last.pipelines
            for each in (*one.positions, *one.ends)
        }
        self.lying = cache(self._lying)
        self.made = {name: self.boundaries(name) for name in NAMES}
        for cut in cuts.values():
            self.check_kept(cut)

    def boundaries(self, name: str) -> list[StepBoundary]:
        return self.made[name] if self.made else super().boundaries(name)

    def _rows(
        self, topic: str, ends: Mapping[Place, int], without: Container[int] = ()
    ) -> dict[int, list[bytes]]:
        assert not without, "nothing was taken back"
        name = self.topics[topic]
        return {
            place[1]: [value for offset, value in self.lying(place) if offset < end]
            for place, end in ends.items()
            if place[0] == name
        }

    def _lying(self, place: Place) -> list[tuple[int, bytes]]:
        return list(placed_values_of(self.settings, *place, 0, self.ends[place]))


@pytest.mark.heavy
@pytest.mark.timeout(1_800)
def test_two_hundred_cuts_are_what_the_outer_input_leads_to(
    settings: ClusterSettings, topic_factory: TopicFactory, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chosen = seeded()
    region = _ReadOnce(settings, tmp_path_factory.mktemp("cuts"), topic_factory)
    with region.running() as processes, region.flowing(0.5):
        region.until_all_have_made_a_step()
        region.apply(period="100 ms")
        with region.controlled("first") as controller:
            cuts: dict[int, RegionCut] = {}
            kills = 0
            while len(cuts) < CUTS:
                wanted = len(cuts) + KILL_EVERY
                until(
                    lambda: cuts_said(controller) >= wanted,  # noqa: B023
                    f"{wanted} cuts",
                    PATIENCE_S,
                    controller.text,
                )
                cuts.update(region.view().cuts)
                killed = processes[chosen.choice(NAMES)]
                killed.kill()
                if killed is processes["totals"] and chosen.random() < 0.5:
                    region.lose_disk()
                killed.start()
                kills += 1
            region.check_log()
    given_up = max(cuts) - min(cuts) + 1 - len(cuts)
    assert given_up <= kills, "a drain is given up when a node that it waits for is killed, and else never"
    region.recompute(cuts)

"""What of an upgrade is refused before its first change is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.model import PipelineSpec, UpgradeWay
from kcontrol.requests.upgrading import refused_turns
from kcontrol.views.upgrades import turns
from tests.unit.core.test_layout_change import FOUR


def refused(spec: PipelineSpec, way: UpgradeWay) -> str:
    nodes = tuple(range(spec.nodes))
    return refused_turns(spec, 7, turns(way, nodes, spec.nodes, spec.nodes))


@pytest.mark.parametrize("way", list(UpgradeWay))
def test_a_pipeline_of_two_nodes_can_be_upgraded_in_each_way(way: UpgradeWay) -> None:
    assert refused(FOUR, way) == ""
    assert refused(replace(FOUR, stateful=False, exchanges=()), way) == ""


@pytest.mark.parametrize("way", [UpgradeWay.OUT_IN, UpgradeWay.IN_OUT])
def test_what_is_one_nodes_alone_can_not_be_removed_with_it(way: UpgradeWay) -> None:
    """Whatever comes before: with the first way a node was added by then."""
    for pinned in (0, 1):
        spec = replace(FOUR, outputs=(replace(FOUR.outputs[0], node=pinned),))
        assert f"output 'out' is node {pinned}'s alone" in refused(spec, way)


@pytest.mark.parametrize("way", [UpgradeWay.REPLACE, UpgradeWay.IN_PLACE])
def test_it_stays_with_its_number_where_there_are_as_many_nodes_as_before(way: UpgradeWay) -> None:
    assert refused(replace(FOUR, outputs=(replace(FOUR.outputs[0], node=1),)), way) == ""

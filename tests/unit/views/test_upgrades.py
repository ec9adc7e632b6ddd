"""Where an upgrade goes on that was interrupted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.log.control_view import PipelineView
from kcontrol.core.log.control_view import evolve as see
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.log.steps_view import evolve as fold
from kcontrol.core.model import (
    LayoutPhase,
    LayoutRequest,
    Logged,
    LoggedStep,
    PipelinePhase,
    Status,
    UpgradeWay,
)
from kcontrol.core.model import LayoutStatus as Told
from kcontrol.views.upgrades import fate_of, nodes_left
from tests.unit.core.made import boundary
from tests.unit.core.test_layout_change import given

ASKED = LayoutRequest("p", "l1", 1, 3, 60_000, (1,), way="replace", left=(2,))
ALL = (0, 1, 2)


@pytest.mark.parametrize(
    ("fate", "left"),
    [
        (None, (1, 2)),
        (LayoutPhase.GIVEN_UP, (1, 2)),
        (LayoutPhase.REFUSED, (1, 2)),
        (LayoutPhase.DONE, (2,)),
    ],
)
def test_it_goes_on_with_the_node_that_it_was_at_unless_that_is_done(
    fate: LayoutPhase | None, left: tuple[int, ...]
) -> None:
    assert nodes_left(ASKED, fate, UpgradeWay.REPLACE, ALL) == left


def test_nothing_is_left_of_another_way_of_a_change_that_is_no_upgrade_and_of_nodes_that_are_not_wanted() -> (
    None
):
    assert nodes_left(ASKED, None, UpgradeWay.IN_PLACE, ALL) == ()
    assert nodes_left(replace(ASKED, way=""), None, UpgradeWay.REPLACE, ALL) == ()
    assert nodes_left(ASKED, None, UpgradeWay.REPLACE, (2,)) == (2,)


def test_what_became_of_it_is_read_in_the_log_of_steps_before_the_status() -> None:
    view, steps = PipelineView.empty("p"), StepsView("p")
    assert fate_of(view, steps, ASKED) is None
    told = Told("l1", LayoutPhase.GIVEN_UP, 3, 0, 0, 0, 0, 0, "not ready")
    status = Status("p", 1, PipelinePhase.RUNNING, 1, "", (), 0, "", (), layout=told)
    view = see(view, Logged(1, 0, status))
    assert fate_of(view, steps, ASKED) is LayoutPhase.GIVEN_UP
    for offset, record in enumerate((boundary(1, nodes=2), replace(given(), request_id="l1", live=True))):
        steps = fold(steps, LoggedStep(offset, record))
    assert fate_of(view, steps, ASKED) is LayoutPhase.DONE
    assert fate_of(PipelineView.empty("p"), steps, replace(ASKED, request_id="l2")) is LayoutPhase.GIVEN_UP

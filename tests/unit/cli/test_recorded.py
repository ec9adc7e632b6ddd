"""Recorded steps, cut where the number of nodes changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.apps.recorded import RecordedSteps
from kcontrol.core.step.division import of_size
from kcontrol.errors import NotFoundError
from kcontrol.replay.verify import Beginning
from tests.unit.core.made import SPEC, boundary

STATELESS = replace(SPEC, stateful=False, nodes=2, inputs=(replace(SPEC.inputs[0], node_of=(0, 1)),))


def recorded(*sizes: int) -> RecordedSteps:
    """Steps 4, 5, ... of so many nodes each."""
    steps = [boundary(4 + index, nodes=size) for index, size in enumerate(sizes)]
    return RecordedSteps(STATELESS, steps, 4, 3 + len(sizes), Beginning(3))


def test_steps_of_one_size_are_one_piece() -> None:
    [piece] = recorded(2, 2, 2).pieces()
    assert piece == recorded(2, 2, 2)


def test_each_piece_has_the_definition_as_it_was() -> None:
    one, two, again = recorded(1, 1, 2, 1).pieces()
    assert [(each.first, each.last, each.begin.step, each.spec.nodes) for each in (one, two, again)] == [
        (4, 5, 3, 1),
        (6, 6, 5, 2),
        (7, 7, 6, 1),
    ]
    assert one.spec == of_size(STATELESS, 1)
    assert one.spec.inputs[0].node_of == (0, 0)
    assert two.spec == STATELESS


def test_steps_that_were_all_made_by_the_earlier_number_are_run_by_it() -> None:
    [piece] = recorded(1, 1).pieces()
    assert piece.spec == of_size(STATELESS, 1)


def test_state_does_not_go_over_a_change() -> None:
    changed = replace(recorded(1, 2), spec=replace(STATELESS, stateful=True))
    with pytest.raises(NotFoundError, match="steps 4 to 4 alone of those needed were made by 1 nodes"):
        list(changed.pieces())

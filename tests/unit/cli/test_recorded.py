"""Recorded steps, cut where the number of nodes changed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.apps.recorded import RecordedSteps
from kcontrol.core.log.steps_view import StepsView
from kcontrol.core.model import Assignment, ExchangeLayout, PartitionNodes
from kcontrol.core.step.division import of_size
from kcontrol.errors import NotFoundError
from kcontrol.replay.verify import Beginning
from tests.unit.core.made import SPEC, boundary, checkpoint

STATELESS = replace(SPEC, stateful=False, nodes=2, inputs=(replace(SPEC.inputs[0], node_of=(0, 1)),))


def recorded(*sizes: int) -> RecordedSteps:
    """Steps 4, 5, ... of so many nodes each."""
    steps = [boundary(4 + index, nodes=size) for index, size in enumerate(sizes)]
    return RecordedSteps(STATELESS, steps, 4, 3 + len(sizes), Beginning(3), StepsView("p"))


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


STATEFUL = replace(STATELESS, stateful=True)
ASSIGNED = Assignment("p", 1, 4, 2, (0, 1), (PartitionNodes("in", (1, 0)),), (), 1, 9, "r", 1)


def test_state_goes_over_a_change_with_the_checkpoint_that_it_was_made_over_and_not_without() -> None:
    changed = replace(recorded(1, 2), spec=STATEFUL, steps=StepsView("p", assignments=(ASSIGNED,)))
    with pytest.raises(
        NotFoundError, match=r"steps 5 to 5 alone .* the checkpoint of step 4, .* is not kept"
    ):
        list(changed.pieces())
    saved = checkpoint(4, 1)
    one, two = replace(changed, steps=replace(changed.steps, checkpoints=(saved,))).pieces()
    assert (one.spec.nodes, one.first, one.last, one.begin) == (1, 4, 4, Beginning(3))
    assert (two.spec.nodes, two.first, two.last, two.begin) == (2, 5, 5, Beginning(4, saved))
    assert (two.spec.owners, two.spec.assignment) == ((0, 1), 1)
    assert (one.spec.owners, one.spec.assignment) == ((), 0)


def test_steps_of_as_many_nodes_are_cut_where_the_layout_was_changed() -> None:
    changed = replace(recorded(2, 2), steps=StepsView("p", assignments=(ASSIGNED,)))
    one, two = changed.pieces()
    assert (one.spec.inputs[0].node_of, two.spec.inputs[0].node_of) == ((0, 1), (1, 0))


def test_what_nodes_sent_each_other_is_not_run_again_by_a_definition_of_one_node() -> None:
    alone = replace(STATELESS, nodes=1)
    sent = replace(
        boundary(4, nodes=2), layout=replace(boundary(4).layout, exchanges=(ExchangeLayout("x", 1, 1),))
    )
    with pytest.raises(NotFoundError, match="its 2 nodes sent each other rows"):
        list(RecordedSteps(alone, [sent], 4, 4, Beginning(3), StepsView("p")).pieces())

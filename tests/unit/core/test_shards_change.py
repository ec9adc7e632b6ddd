"""A layout with another number of shards: what becomes of its tables, what is refused, and what the log says of the state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kcontrol.core.log.steps_view import StepsView, evolve
from kcontrol.core.model import LoggedStep, SavedPart, StepRecord
from kcontrol.core.step.assignment import can_reshard, moves_between, owners_of, resharded, saved_owners
from kcontrol.core.step.layout_change import as_made, assigned, changed, refused_shards
from tests.unit.core.made import boundary, checkpoint
from tests.unit.core.test_layout_change import FOUR, folded, given

TWO = replace(FOUR, layout=replace(FOUR.layout, shuffle_partitions=4))
"""Nodes, and 4 shards."""
ANEW = (SavedPart(0, 8, "new/0", 1, 1), SavedPart(1, 8, "new/1", 1, 1))


def test_a_table_is_doubled_and_halved_as_often_as_it_takes() -> None:
    assert resharded((0, 1), 8) == (0, 1) * 4
    assert resharded((0, 1, 1, 0), 1) == (0,)
    assert resharded((0, 1, 1), 12) == (0, 1, 1) * 4
    assert resharded((0, 1, 1), 3) == (0, 1, 1)
    for before, after in ((2, 6), (4, 3), (3, 1), (6, 4), (2, 0)):
        assert not can_reshard(before, after)
        with pytest.raises(ValueError, match="by doubling or halving"):
            resharded((0,) * before, after)
    assert all(can_reshard(before, after) for before, after in ((2, 2), (2, 8), (16, 1), (3, 12), (12, 6)))


def test_doubling_moves_nothing_and_halving_what_has_two_owners() -> None:
    more = changed(TWO, 2, shards=16)
    assert (more.owners, more.moves, more.cuts, more.finer) == ((0, 1) * 8, (), True, 16)
    split = assigned(TWO, given(owners=(0, 1, 1, 0)))
    fewer = changed(split, 2, shards=2)
    assert (fewer.owners, fewer.shards_before, fewer.finer) == ((0, 1), 4, 4)
    assert [(move.shard, move.from_, move.to) for move in fewer.moves] == [(2, 1, 0), (3, 0, 1)]
    assert not changed(FOUR, 3).cuts


def test_what_halving_leaves_to_one_node_alone_is_balanced() -> None:
    split = assigned(TWO, given(owners=(0, 0, 1, 1)))
    change = changed(split, 2, shards=2)
    assert sorted(change.owners) == [0, 1]
    assert len(change.moves) == len(moves_between((0, 0, 1, 1), change.owners)) == 2


@pytest.mark.parametrize(
    ("spec", "shards", "why"),
    [
        (TWO, 4, "has 4 shards already"),
        (TWO, 6, "do not become 6 by that: ask for 8 or 2"),
        (TWO, 1, "has 2 nodes, some of which would own none of 1 shards"),
        (TWO, 16_384, "at most 10000 shards"),
        (replace(TWO, layout=replace(TWO.layout, shuffle_partitions=3)), 4, "ask for 6, or for more"),
        (replace(TWO, kept_in_place=("q",)), 8, "query 'q' keeps state of the partitions"),
    ],
)
def test_what_can_not_be_done_right_is_refused(spec: object, shards: int, why: str) -> None:
    assert why in refused_shards(spec, shards)  # type: ignore[arg-type]


def test_what_can_be_done_is_not_refused() -> None:
    assert [refused_shards(TWO, shards) for shards in (2, 8, 64)] == [""] * 3


def test_a_definition_has_as_many_shards_as_its_assignment() -> None:
    spec = assigned(TWO, given(owners=(0, 1) * 4))
    assert (spec.layout.shuffle_partitions, owners_of(spec)) == (8, (0, 1) * 4)
    assert as_made(spec, 2, None, 4).layout.shuffle_partitions == 4
    assert owners_of(as_made(spec, 2, None, 4)) == (0, 1, 0, 1)
    assert as_made(spec, 2, given(owners=(0, 1) * 4), 8) == spec


# --- the log ------------------------------------------------------------------------------------------------


CUT = replace(given(1, 2, owners=(0, 1) * 4), parts=ANEW)
STEPS: tuple[StepRecord, ...] = (
    boundary(1, nodes=2),
    replace(checkpoint(1, 2), first_step=1),
    boundary(2, (6, 1), (7, 2), nodes=2),
    replace(checkpoint(2, 2), first_step=1),
)


def test_the_parts_that_were_made_anew_are_the_checkpoint_from_then_on() -> None:
    before, view = folded(*STEPS), folded(*STEPS, CUT)
    now = view.checkpoint_of(2)
    assert now is not None
    assert (now.parts, saved_owners(now, 4)) == (ANEW, (0, 1) * 4)
    assert view.checkpoint_of(1) == before.checkpoint_of(1)
    assert view.doubles == ()
    later = evolve(view, LoggedStep(9, given(2, 2)))
    assert later.checkpoint_of(2) == now, "a change of nodes alone is made over the same parts"


def test_a_reader_that_begins_at_a_later_checkpoint_knows_them_too() -> None:
    newest = replace(checkpoint(3, 2), assignment=CUT, first_step=1, resized_step=2)
    records = (*STEPS, CUT, boundary(3, (7, 2), (8, 3), nodes=2), newest)
    late = folded(*records, view=StepsView.begun_at("p", newest))
    assert late.checkpoint_of(2) == folded(*records).checkpoint_of(2)
    assert late.checkpoint_of(2) != folded(*STEPS).checkpoint_of(2)

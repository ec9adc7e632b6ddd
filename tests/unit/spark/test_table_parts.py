"""The parts of a checkpoint that `kcontrol query` reads are put together by the shards that there were when it was made."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kcontrol.apps.table_parts import AskedStep, StepFiles
from kcontrol.core.model import Layout, SavedPart
from kcontrol.core.step.assignment import dealt
from tests.support.dice import seeded
from tests.support.owned_state import STORES, History, SavedCheckpoint
from tests.unit.core.made import SPEC, boundary, checkpoint

STEP, NODES = 3, 2


@pytest.mark.parametrize("since", [4, 16])
def test_a_checkpoint_of_before_the_shards_were_cut_anew_is_read_by_those_of_then(
    tmp_path: Path, since: int
) -> None:
    then = 8
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), then, STEP), dealt(then, NODES))
    parts = tuple(SavedPart(node, 2, saved.manifests[node], 1, 1) for node in range(NODES))
    asked = AskedStep(
        replace(SPEC, nodes=NODES, layout=replace(SPEC.layout, shuffle_partitions=since)),
        replace(boundary(STEP, nodes=NODES), layout=Layout((), then, ())),
        replace(checkpoint(STEP, NODES), location=saved.location, parts=parts),
        str(STEP),
        1,
        {},
    )
    tables = StepFiles(tmp_path / "asked", asked, tmp_path).states(lambda: None)
    assert {each.name.partition("__")[0] for each in tables} == set(STORES)

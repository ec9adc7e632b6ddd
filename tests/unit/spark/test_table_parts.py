"""The parts of a checkpoint that `kcontrol query` reads are put together by the shards that there were when it was made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from kcontrol.adapters.spark.tables.gathering import GatheredState
from kcontrol.apps import table_parts
from kcontrol.apps.table_parts import AskedStep, StepFiles
from kcontrol.core.model import Layout, SavedPart
from kcontrol.core.step.assignment import dealt
from tests.support.dice import seeded
from tests.support.owned_state import STORES, History, SavedCheckpoint
from tests.unit.core.made import SPEC, boundary, checkpoint

STEP, NODES, THEN = 3, 2, 8


@pytest.mark.parametrize("since", [4, 16])
def test_a_checkpoint_of_before_the_shards_were_cut_anew_is_read_by_those_of_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, since: int
) -> None:
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), THEN, STEP), dealt(THEN, NODES))
    parts = tuple(SavedPart(node, 2, saved.manifests[node], 1, 1) for node in range(NODES))
    asked = AskedStep(
        replace(SPEC, nodes=NODES, layout=replace(SPEC.layout, shuffle_partitions=since)),
        replace(boundary(STEP, nodes=NODES), layout=Layout((), THEN, ())),
        replace(checkpoint(STEP, NODES), location=saved.location, parts=parts),
        str(STEP),
        1,
        {},
    )
    found: dict[str, GatheredState] = {}

    def tables(states: Mapping[str, GatheredState], step: int) -> list[object]:
        found.update(states)
        return []

    monkeypatch.setattr(table_parts, "state_tables", tables)
    StepFiles(tmp_path / "asked", asked, tmp_path).states(lambda: None)
    assert set(found) == set(STORES)
    assert found["counts"].nodes == dict(enumerate(dealt(THEN, NODES)))
    (place,) = found["counts"].places.values()
    shards = {path.name for path in (place / "state" / "0").iterdir()}
    assert shards >= {str(shard) for shard in range(THEN)}

"""What parts of a checkpoint say of states before and behind an exchange, and what follows for a layout of one node."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from kcontrol.adapters.checkpoints import CheckpointStore, HeldShards, PartPlace
from kcontrol.apps.layout import refuse_states_between
from kcontrol.core.model import Checkpoint, SavedPart
from kcontrol.errors import ConfigurationError
from tests.unit.core.made import SPEC, checkpoint


def saved(tmp_path: Path, *cut: str) -> Checkpoint:
    """Of two nodes, whose queries with state are these."""
    store, location = CheckpointStore(), str(tmp_path / "durable")
    pin = tmp_path / "pin"
    (pin / "totals").mkdir(parents=True, exist_ok=True)
    (pin / "totals" / "metadata").write_text("{}")
    parts = []
    for node in (0, 1):
        place = PartPlace(location, "p", "log", node, 1, 7, 3)
        made = store.save(place, pin, held=HeldShards(cut=cut))
        parts.append(SavedPart(node, 1, made.manifest, made.files, made.size_bytes))
    return replace(checkpoint(3, 2), location=location, parts=tuple(parts))


def test_a_state_of_its_own_before_an_exchange_can_not_become_part_of_another(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigurationError, match=r"through exchange 'mine' comes from a query that keeps state"
    ):
        refuse_states_between(SPEC, saved(tmp_path, "mine.send", "totals"), tmp_path)


def test_states_behind_exchanges_alone_can_go_to_one_node(tmp_path: Path) -> None:
    refuse_states_between(SPEC, saved(tmp_path, "totals"), tmp_path)


def test_what_can_not_be_read_here_is_left_to_the_node_that_is_given_it(tmp_path: Path) -> None:
    away = replace(saved(tmp_path, "mine.send"), location=str(tmp_path / "elsewhere"))
    refuse_states_between(SPEC, away, tmp_path)

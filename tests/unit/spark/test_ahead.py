"""State that is copied for a new layout while others still have it: what is copied, what is linked, and what is left of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcontrol.adapters.spark.state.ahead import AheadCopy, ahead_home, forget_ahead
from kcontrol.adapters.spark.state.assembling import PartsOfNodes, QueryNeeds, Taker
from kcontrol.adapters.spark.state.pinning import store_of
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.model import Checkpoint
from kcontrol.core.step.assignment import Owners, dealt, rebalanced
from kcontrol.errors import CheckpointCancelledError, CheckpointError
from tests.support.dice import seeded
from tests.support.owned_state import STORES, History, SavedCheckpoint, contents
from tests.support.patience import HANG_S
from tests.unit.core.made import checkpoint

NEEDS = {query: QueryNeeds(stateful=True, cut=True, sources=1) for query in STORES}
STEP = 3
THEN, NOW = dealt(4, 2), rebalanced(dealt(4, 2), range(3))


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing crashes here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


@pytest.fixture
def saved(tmp_path: Path) -> SavedCheckpoint:
    """By two nodes."""
    return SavedCheckpoint(tmp_path / "of", History(seeded(), 4, STEP), THEN)


def told(saved: SavedCheckpoint) -> Checkpoint:
    """The record of it."""
    made = checkpoint(saved.history.step, len(saved.manifests))
    parts = tuple(replace(part, manifest=saved.manifests[part.node]) for part in made.parts)
    return replace(made, location=saved.location, parts=parts)


def ahead(root: Path, node: int, owner: Owners = NOW, *, whole: bool = False) -> AheadCopy:
    return AheadCopy(root, "p", Taker(node, owner), NEEDS, root / "own", whole=whole)


def had(saved: SavedCheckpoint, nodes: tuple[int, ...], shards: frozenset[int]) -> Mapping[str, bytes]:
    """The files of state that these nodes have of these shards."""
    found = {}
    for node in nodes:
        for path, content in contents(saved.pin(node)).items():
            place = store_of(Path(*Path(path).parts[1:]))
            if place is not None and place[1] in shards:
                found[path] = content
    return found


def test_who_is_to_be_a_node_copies_the_state_of_its_shards_and_nothing_else(
    saved: SavedCheckpoint, tmp_path: Path
) -> None:
    root = tmp_path / "new"
    copy = ahead(root, 2)
    assert (copy.step, copy.total_bytes, copy.copied_bytes()) == (0, -1, 0)
    copy.copy(told(saved))
    expected = had(saved, (0, 1), Taker(2, NOW).shards)
    assert expected
    assert contents(ahead_home(root, "p", 2) / f"step-{STEP}") == expected
    size = sum(map(len, expected.values()))
    assert (copy.step, copy.total_bytes, copy.copied_bytes(), copy.linked_bytes) == (STEP, size, size, 0)


def test_a_node_copies_what_others_have_and_whoever_takes_its_place_all_of_it(
    saved: SavedCheckpoint, tmp_path: Path
) -> None:
    owner = (0, 0, 0, 1)
    mine = Taker(0, owner).shards
    beside, instead = ahead(tmp_path / "a", 0, owner), ahead(tmp_path / "b", 0, owner, whole=True)
    for copy, nodes in ((beside, (1,)), (instead, (0, 1))):
        copy.copy(told(saved))
        assert copy.total_bytes == sum(map(len, had(saved, nodes, mine).values()))
    assert instead.total_bytes > beside.total_bytes > 0


def test_in_the_place_of_a_node_on_its_host_nothing_is_copied(saved: SavedCheckpoint) -> None:
    """S001-129."""
    root = saved.root / "nodes"
    copy = ahead(root, 1, THEN, whole=True)
    copy.copy(told(saved))
    assert copy.linked_bytes == copy.total_bytes > 0
    here = ahead_home(root, "p", 1) / f"step-{STEP}"
    assert all(path.stat().st_nlink > 1 for path in here.rglob("*") if path.is_file())


def test_whoever_opens_the_checkpoint_then_has_what_was_copied_at_hand(
    saved: SavedCheckpoint, tmp_path: Path
) -> None:
    root = tmp_path / "new"
    copy, taker = ahead(root, 2), Taker(2, NOW)
    copy.copy(told(saved))
    at_hand = WorkDir(root, "p", 2, 5, tuple(NEEDS), 100).at_hand()
    linked = 0
    for query, needs in NEEDS.items():
        total = saved.parts().bring(query, needs, taker, tmp_path / "opened", at_hand)
        linked += 0 if total is None else total.fetched.linked_bytes
    assert linked == copy.total_bytes


def test_what_was_copied_before_is_linked_where_it_is_the_same_and_then_goes(
    saved: SavedCheckpoint, tmp_path: Path
) -> None:
    root = tmp_path / "new"
    home = ahead_home(root, "p", 2)
    ahead(root, 2).copy(told(saved))
    (home / f"step-{STEP}").rename(home / "step-1")
    again = ahead(root, 2)
    again.copy(told(saved))
    assert again.linked_bytes == again.total_bytes > 0
    assert [each.name for each in home.iterdir()] == [f"step-{STEP}"]
    forget_ahead(root, "p", 2)
    assert not home.exists()


def test_what_is_linked_from_a_checkpoint_that_was_copied_for_the_same_request_was_copied_for_it(
    saved: SavedCheckpoint, tmp_path: Path
) -> None:
    copy = ahead(tmp_path / "new", 2)
    for _ in range(2):
        copy.copy(told(saved))
        assert copy.total_bytes > 0
        assert copy.linked_bytes == 0


def test_what_can_not_be_copied_leaves_what_there_was(saved: SavedCheckpoint, tmp_path: Path) -> None:
    root, there = tmp_path / "new", told(saved)
    home = ahead_home(root, "p", 2)
    ahead(root, 2).copy(there)
    before = (home / f"step-{STEP}").rename(home / "step-1")
    copy = ahead(root, 2)
    with pytest.raises(CheckpointError):
        copy.copy(replace(there, parts=tuple(replace(each, manifest="gone") for each in there.parts)))
    assert (copy.step, copy.copied_bytes()) == (0, 0)
    for path in [*Path(saved.location).rglob("*"), *before.rglob("*.zip"), *before.rglob("*.changelog")]:
        if path.is_file() and path.parent.name != "manifests":
            path.unlink()
    with pytest.raises(CheckpointError):
        copy.copy(there)
    assert (copy.step, copy.copied_bytes()) == (0, 0)
    assert [each.name for each in home.iterdir()] == ["step-1"], "nothing half is left beside it"


class HeldUp:
    """The first copy that is made waits with its files, before or after they are brought, until it may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, after: bool) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()
        bring = PartsOfNodes.bring_moved

        def held(*given: Any) -> Any:
            if self.begun.is_set():
                return bring(*given)
            brought = bring(*given) if after else None
            self.begun.set()
            assert self.go_on.wait(HANG_S)
            return brought or bring(*given)

        monkeypatch.setattr(PartsOfNodes, "bring_moved", held)


@pytest.mark.parametrize("after", [False, True])
def test_a_copy_that_was_given_up_does_nothing_to_the_next_one(
    saved: SavedCheckpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool
) -> None:
    """A thread goes on when the task that waits for it is cancelled."""
    root, there, held = tmp_path / "new", told(saved), HeldUp(monkeypatch, after=after)
    first, second = ahead(root, 2), ahead(root, 2)
    with ThreadPoolExecutor(1) as pool:
        left = pool.submit(first.copy, there)
        assert held.begun.wait(HANG_S)
        first.give_up()
        second.copy(there)
        held.go_on.set()
        with pytest.raises(CheckpointCancelledError):
            left.result(HANG_S)
    home = ahead_home(root, "p", 2)
    assert (first.step, second.step) == (0, STEP)
    assert contents(home / f"step-{STEP}") == had(saved, (0, 1), Taker(2, NOW).shards)
    assert [each.name for each in home.iterdir()] == [f"step-{STEP}"]

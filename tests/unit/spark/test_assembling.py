"""A directory out of the parts of several nodes is that of one node that owned the same shards, whoever owned what; and of the
parts nothing is fetched but what is needed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from kcontrol.adapters.checkpoints import BroughtBytes
from kcontrol.adapters.spark.internals import NOT_RUN
from kcontrol.adapters.spark.state.assembling import Assembled, PartsOfNodes, QueryNeeds, Taker
from kcontrol.adapters.spark.state.formats import planned_ends
from kcontrol.adapters.spark.state.pinning import store_of
from kcontrol.core.step.assignment import Owners, dealt, owned_by, rebalanced
from kcontrol.errors import CheckpointDamagedError, CheckpointError
from tests.support.dice import seeded
from tests.support.owned_state import QUERIES, SENDER, STORES, History, SavedCheckpoint, contents, whole

NEEDS = {query: QueryNeeds(query in STORES, query in STORES, 1) for query in QUERIES}
AtHand = Callable[[str], Iterable[Path]]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing crashes here."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def assembled(parts: PartsOfNodes, taker: Taker, target: Path, at_hand: AtHand | None = None) -> Assembled:
    total = Assembled()
    for query, needs in NEEDS.items():
        total += parts.bring(query, needs, taker, target, at_hand) or Assembled()
    return total


def of_state(directory: Path) -> dict[str, bytes]:
    """Files of state stores."""
    found = {}
    for path, content in contents(directory).items():
        if store_of(Path(*Path(path).parts[1:])) is not None:
            found[path] = content
    return found


def of_shards(files: dict[str, bytes], shards: Iterable[int]) -> dict[str, bytes]:
    wanted = set(shards)
    return {path: content for path, content in files.items() if int(path.split("/")[3]) in wanted}


def ids(directory: Path, query: str, step: int) -> dict[str, list[list[str]]]:
    record = (directory / query / "commits" / str(step - 1)).read_text().splitlines()
    assert record[0] == "v2"
    told: dict[str, list[list[str]]] = json.loads(record[1])["stateUniqueIds"]
    return told


def test_whoever_takes_what_has_it_as_one_node_had_it_that_owned_all(tmp_path: Path) -> None:
    dice = seeded()
    for number in range(5):
        root = tmp_path / str(number)
        shards, step = dice.choice([4, 8]), dice.randrange(2, 6)
        history = History(dice, shards, step)
        full = whole(root / "one", history).pin(0)
        everything = of_state(full)
        then = dealt(shards, dice.randrange(1, 4))
        # That of one node may be of an older kcontrol.
        tells = max(then) > 0 or dice.random() < 0.5
        saved = SavedCheckpoint(root / "many", history, then, tells=tells)
        now = rebalanced(then, range(dice.randrange(1, 5)))
        for node in range(max(now) + 1):
            mine, taken = Taker(node, now), root / f"taken-{node}"
            total = assembled(saved.parts(), mine, taken)
            assert of_state(taken) == of_shards(everything, mine.shards)
            own = of_shards(everything, owned_by(then, node) & mine.shards)
            assert total.kept_bytes == sum(map(len, own.values()))
            assert total.kept_bytes + total.moved_bytes == sum(map(len, of_state(taken).values()))
            for query in STORES:
                complete, found = ids(full, query, step), ids(taken, query, step)
                for operator, partitions in complete.items():
                    assert found[operator] == [
                        each if shard in mine.shards else [NOT_RUN] * len(each)
                        for shard, each in enumerate(partitions)
                    ]


def test_every_file_of_state_is_of_exactly_one_shard(tmp_path: Path) -> None:
    dice = seeded()
    for number in range(3):
        history = History(dice, 4, dice.randrange(2, 6))
        saved = SavedCheckpoint(tmp_path / str(number) / "of", history, dealt(4, dice.randrange(1, 4)))
        for node, name in saved.manifests.items():
            manifest = saved.store.manifest(saved.location, name)
            for file in manifest.files:
                query, _, inner = file.path.partition("/")
                place = store_of(Path(inner))
                told = None if file.shard is None else manifest.shards[file.shard]
                assert place == (None if told is None else (told.operator, told.shard)), file
                assert told is None or told.query == query
            assert {each.shard for each in manifest.shards} == owned_by(saved.owner, node)
            assert set(manifest.cut) == set(STORES)
            assert len(set(manifest.shards)) == len(manifest.shards)


def test_only_parts_of_those_who_owned_what_it_takes_are_read(tmp_path: Path) -> None:
    """Here a node that keeps what it had: other nodes may have their checkpoints on hosts of their own."""
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), 4, 3), (0, 1, 0, 2))
    for manifest in list(saved.manifests.values())[1:]:
        for path in (Path(saved.location) / manifest).parents[1].rglob("*"):
            if path.is_file():
                path.unlink()
    kept = Taker(0, (0, 1, 0, 1))
    assert saved.parts().readable(NEEDS, kept)
    assert assembled(saved.parts(), kept, tmp_path / "kept").moved_bytes == 0
    with pytest.raises(CheckpointDamagedError, match="there is no checkpoint part"):
        saved.parts().readable(NEEDS, Taker(0, (0, 0, 0, 1)))


def test_a_file_that_is_missing_is_told_beforehand_by_whoever_needs_it(tmp_path: Path) -> None:
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), 4, 3), dealt(4, 2))
    lost = next(
        file
        for file in saved.store.manifest(saved.location, saved.manifests[1]).files
        if file.path.startswith("counts/state/0/3/")
    )
    life = (Path(saved.location) / saved.manifests[1]).parents[1]
    (life / lost.stored).unlink()
    assert saved.parts().readable(NEEDS, Taker(0, (0, 0, 0, 1)))
    assert not saved.parts().readable(NEEDS, Taker(0, (0, 1, 0, 0)))
    with pytest.raises(CheckpointDamagedError, match="is missing"):
        assembled(saved.parts(), Taker(0, (0, 1, 0, 0)), tmp_path / "taken")


def test_what_is_on_the_host_is_linked_if_it_is_the_same(tmp_path: Path) -> None:
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), 4, 3), dealt(4, 2))
    taker = Taker(0, (0, 0, 0, 1))
    first = assembled(saved.parts(), taker, tmp_path / "first")
    assert first.fetched.linked_bytes == 0
    directory = tmp_path / "of" / "nodes" / "p" / "node-1" / "inc-1" / "history-1"
    stored = (path for path in directory.rglob("*") if path.suffix in (".changelog", ".zip"))
    taken = (path for path in stored if path.parts[-2] == "1")
    [damaged, *_] = sorted(
        path for path in taken if (tmp_path / "first" / path.relative_to(directory)).exists()
    )
    damaged.write_bytes(b"x" * damaged.stat().st_size)
    histories = sorted((tmp_path / "of" / "nodes" / "p").glob("node-*/inc-*/history-*"))
    second = assembled(
        saved.parts(), taker, tmp_path / "second", lambda path: (each / path for each in histories)
    )
    assert of_state(tmp_path / "second") == of_state(tmp_path / "first")
    assert second.fetched.bytes + second.fetched.linked_bytes == first.fetched.bytes
    state = sum(map(len, of_state(tmp_path / "first").values()))
    assert second.fetched.linked_bytes == state - damaged.stat().st_size
    linked = tmp_path / "second" / damaged.relative_to(directory)
    assert linked.stat().st_nlink == 1
    assert second.moved_bytes == first.moved_bytes


def test_what_is_put_together_has_an_id_of_its_own(tmp_path: Path) -> None:
    """Spark stops a query that runs when another one of its id is started, and the one that was saved may run, in this very
    process."""
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), 4, 3), dealt(4, 2))
    owner = rebalanced(saved.owner, range(3))
    found = {}
    for node in range(3):
        assembled(saved.parts(), Taker(node, owner), tmp_path / f"taken-{node}")
        found[node] = json.loads((tmp_path / f"taken-{node}" / "counts" / "metadata").read_text())["id"]
    assert len(set(found.values())) == 3
    assert not any(each.startswith("of-") for each in found.values())


def test_a_query_that_reads_more_or_fewer_streams_than_it_did_ends_at_the_step_in_all(tmp_path: Path) -> None:
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), 4, 3), dealt(4, 1), sources=1)
    parts, taker = saved.parts(), Taker(1, dealt(4, 2))
    assert parts.bring("pairs", QueryNeeds(True, True, 2), taker, tmp_path / "two") is not None
    plans = tmp_path / "two" / "pairs" / "offsets"
    assert [planned_ends(plans / str(batch)) for batch in (1, 2)] == [[2, 2], [3, 3]]


def test_a_query_without_state_that_nobody_ran_begins_by_itself(tmp_path: Path) -> None:
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), 4, 3), dealt(4, 1), tuple(STORES))
    taker = Taker(0, dealt(4, 2))
    assert saved.parts().bring(SENDER, NEEDS[SENDER], taker, tmp_path / "taken") is None
    assert not (tmp_path / "taken").exists()
    with pytest.raises(CheckpointError, match="holds nothing of query 'more'"):
        saved.parts().bring("more", QueryNeeds(True, True, 1), taker, tmp_path / "taken")


def test_state_that_follows_no_shards_stays_where_it_is_or_is_refused(tmp_path: Path) -> None:
    """Of a query whose rows are not exchanged: a node may have it back, and nobody else may."""
    history = History(seeded(), 4, 3)
    saved = SavedCheckpoint(tmp_path / "of", history, dealt(4, 2))
    apart, needs = saved.parts(), QueryNeeds(stateful=True, cut=False, sources=1)
    assert apart.bring("counts", needs, Taker(1, saved.owner), tmp_path / "back") is not None
    assert of_state(tmp_path / "back")
    for taker in (Taker(1, (0, 0, 1, 1)), Taker(2, dealt(4, 3)), Taker(0, dealt(4, 1))):
        with pytest.raises(CheckpointError, match=r"query 'counts' .* is not divided into shards"):
            saved.parts().chosen("counts", needs, taker)


@pytest.mark.parametrize("owner", [(0, 1, 1, 1), (0, 0, 0, 0)])
def test_a_table_of_then_that_is_not_that_of_the_parts_is_noticed(tmp_path: Path, owner: Owners) -> None:
    """A shard must never begin empty because it was looked for in the wrong part."""
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), 4, 3), dealt(4, 2))
    with pytest.raises(CheckpointDamagedError, match=r"does not hold shards \[.*\] of operator 0"):
        assembled(saved.parts(owner), Taker(0, (0, 0, 0, 0)), tmp_path / "taken")


def test_parts_of_several_nodes_that_do_not_say_what_they_hold_go_back_to_those_who_saved_them(
    tmp_path: Path,
) -> None:
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), 4, 3), dealt(4, 2), tells=False)
    assembled(saved.parts(), Taker(1, saved.owner), tmp_path / "back")
    assert of_state(tmp_path / "back") == of_state(saved.pin(1))
    with pytest.raises(CheckpointError, match=r"query 'counts' .* is not divided into shards"):
        saved.parts().chosen("counts", NEEDS["counts"], Taker(1, (0, 1, 1, 1)))


def test_a_query_that_every_node_runs_whole_has_rows_of_a_shard_on_its_owner_alone(tmp_path: Path) -> None:
    """As one whose rows move after the state. What another node takes over is nowhere else then, so that no window closes
    twice."""
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), 4, 3), dealt(4, 2), runs_all=True)
    for owner in ((0, 1, 0, 2), (0, 0, 0, 0), (1, 0, 1, 0)):
        for node in range(max(owner) + 1):
            taker = Taker(node, owner)
            base = saved.parts().base("counts", node)
            assert base is not None
            donors = saved.parts().donors("counts", base, taker)
            assert set(donors) == {(0, shard) for shard in range(4)}
            for (_, shard), donor in donors.items():
                assert (donor == saved.owner[shard]) == (shard in taker.shards)


def test_another_number_of_shards_is_refused(tmp_path: Path) -> None:
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), 4, 3), dealt(4, 2))
    with pytest.raises(CheckpointError, match="has 4 shards and the pipeline has 8"):
        saved.parts().chosen("counts", NEEDS["counts"], Taker(0, dealt(8, 2)))


def test_a_part_that_is_gone_is_named(tmp_path: Path) -> None:
    saved = SavedCheckpoint(tmp_path / "of", History(seeded(), 4, 3), dealt(4, 2))
    del saved.manifests[1]
    with pytest.raises(CheckpointDamagedError, match="has no part of node 1, which owned shard 1"):
        saved.parts().chosen("counts", NEEDS["counts"], Taker(0, (0, 0, 0, 1)))
    assert BroughtBytes(1, 2) + BroughtBytes(3, 4) == BroughtBytes(4, 6)

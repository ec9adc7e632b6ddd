"""What is saved comes back as it was, nothing is copied twice, and what is dropped or
broken off leaves nothing behind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcontrol.adapters.checkpoints import CheckpointStore, PartPlace, StoreLimits
from kcontrol.adapters.checkpoints.files import Files
from kcontrol.errors import CheckpointCancelledError, CheckpointDamagedError, CheckpointError
from tests.contract.checkpoints.conftest import Place
from tests.support.parts import contents_of, make_pin, place

FIRST = {
    "out/commits/1": b"v2\n{}",
    "out/state/0/0/2_x.changelog": b"ab" * 70,
    "out/metadata": b"",
    "other/offsets/1": b"12",
}
SECOND = {**FIRST, "out/commits/2": b"v2\n{}", "out/state/0/0/3_y.changelog": b"cd"}


def restored(store: CheckpointStore, where: Place, manifest: str, target: Path) -> dict[str, bytes]:
    store.restore(where.location, manifest, target)
    return contents_of(target)


def test_a_part_comes_back_as_it_was(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore(StoreLimits(chunk_bytes=16))
    part = place(where.location, step=2)
    saved = store.save(part, make_pin(tmp_path / "pin", FIRST))
    assert saved.place == part
    assert (saved.files, saved.size_bytes, saved.copied_bytes) == (4, 147, 147)
    assert store.readable(where.location, saved.manifest)
    manifest = store.restore(where.location, saved.manifest, tmp_path / "back")
    assert contents_of(tmp_path / "back") == FIRST
    assert (manifest.step, manifest.incarnation, manifest.claim_epoch, manifest.node) == (2, 5, 7, 0)
    assert {(file.path, file.size_bytes) for file in manifest.files} == {
        (path, len(each)) for path, each in FIRST.items()
    }


def test_path_and_manifest_carry_life_and_claim(where: Place, tmp_path: Path) -> None:
    saved = CheckpointStore().save(place(where.location, step=2), make_pin(tmp_path / "pin", FIRST))
    assert saved.manifest == "orders/Kq3-Xz_9TpWbV0aB1cD2eF/node-0/inc-5/manifests/step-2.epoch-7.json"
    told = json.loads(where.read(saved.manifest))
    assert {name: told[name] for name in told if name != "files"} == {
        "version": 1,
        "pipeline": "orders",
        "log_id": "Kq3-Xz_9TpWbV0aB1cD2eF",
        "node": 0,
        "incarnation": 5,
        "claim_epoch": 7,
        "step": 2,
    }


def test_what_the_same_life_has_stored_is_not_copied_again_and_outlives_the_drop(
    where: Place, tmp_path: Path
) -> None:
    store = CheckpointStore()
    first = store.save(place(where.location, step=2), make_pin(tmp_path / "first", FIRST))
    second = store.save(place(where.location, step=3), make_pin(tmp_path / "second", SECOND))
    assert second.copied_bytes == len(b"v2\n{}" + b"cd")
    assert CheckpointStore().save(place(where.location, step=4), tmp_path / "second").copied_bytes == 0
    store.drop(where.location, first.manifest)
    assert not store.readable(where.location, first.manifest)
    assert restored(store, where, second.manifest, tmp_path / "back") == SECOND


def test_another_file_of_the_same_name_and_size_is_copied(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore()
    first = store.save(place(where.location, step=2), make_pin(tmp_path / "first", {"a": b"one"}))
    second = store.save(place(where.location, step=3), make_pin(tmp_path / "second", {"a": b"two"}))
    assert restored(store, where, first.manifest, tmp_path / "back-1") == {"a": b"one"}
    assert restored(store, where, second.manifest, tmp_path / "back-2") == {"a": b"two"}


def test_a_stored_file_that_has_gone_is_copied_again(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore()
    pin = make_pin(tmp_path / "pin", FIRST)
    first = store.save(place(where.location, step=2), pin)
    lost = next(path for path in where.files() if path.endswith("2_x.changelog"))
    where.delete(lost)
    assert not store.readable(where.location, first.manifest)
    second = store.save(place(where.location, step=3), pin)
    assert second.copied_bytes == 140
    assert restored(store, where, second.manifest, tmp_path / "back") == FIRST


def test_what_an_earlier_life_has_stored_is_not_copied_again_and_outlives_it(
    where: Place, tmp_path: Path
) -> None:
    old = CheckpointStore().save(place(where.location, step=2), make_pin(tmp_path / "first", FIRST))
    changed = {**SECOND, "other/offsets/1": b"21"}
    store, pin = CheckpointStore(), make_pin(tmp_path / "second", changed)
    new = store.save(place(where.location, step=3, incarnation=9), pin)
    assert new.copied_bytes == len(b"v2\n{}" + b"cd" + b"21")
    store.drop(where.location, old.manifest)
    store.sweep(where.location, "orders", "Kq3-Xz_9TpWbV0aB1cD2eF", 0, incarnation=9)
    assert {path.split("/")[3] for path in where.files()} == {"inc-9"}
    assert restored(store, where, new.manifest, tmp_path / "back") == changed


def test_of_earlier_lives_the_newest_part_that_can_be_read_is_taken(where: Place, tmp_path: Path) -> None:
    store, pin = CheckpointStore(), make_pin(tmp_path / "pin", FIRST)
    store.save(place(where.location, step=2), pin)
    damaged = store.save(place(where.location, step=2, incarnation=6), pin)
    where.write(damaged.manifest, b"{")
    later = make_pin(tmp_path / "later", {"out/metadata": b"", "another": b"1"})
    store.save(place(where.location, step=9, incarnation=12), later)
    saved = CheckpointStore().save(place(where.location, step=3, incarnation=9), pin)
    assert saved.copied_bytes == 0
    assert restored(store, where, saved.manifest, tmp_path / "back") == FIRST


def test_a_file_of_an_earlier_life_that_goes_meanwhile_is_copied(
    where: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, pin = CheckpointStore(), make_pin(tmp_path / "pin", FIRST)
    old = store.save(place(where.location, step=2), pin)
    copy_within = Files.copy_within

    def dropped_before(files: Files, source: str, path: str) -> bool:
        CheckpointStore().drop(where.location, old.manifest)
        return copy_within(files, source, path)

    monkeypatch.setattr(Files, "copy_within", dropped_before)
    saved = CheckpointStore().save(place(where.location, step=2, incarnation=9), pin)
    assert saved.copied_bytes == 147
    assert restored(store, where, saved.manifest, tmp_path / "back") == FIRST


def test_another_node_shares_nothing(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore()
    pin = make_pin(tmp_path / "pin", FIRST)
    parts = [place(where.location, 2), place(where.location, 2, node=1)]
    saved = [store.save(part, pin) for part in parts]
    assert [each.copied_bytes for each in saved] == [147, 147]
    store.drop(where.location, saved[0].manifest)
    assert restored(store, where, saved[1].manifest, tmp_path / "back") == FIRST
    assert {path.split("/")[2] for path in where.files()} == {"node-1"}


def test_a_save_that_is_repeated_finds_its_part(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore()
    pin = make_pin(tmp_path / "pin", FIRST)
    first = store.save(place(where.location, step=2), pin)
    before = where.files()
    again = store.save(place(where.location, step=2), pin)
    assert (again.manifest, again.copied_bytes, again.size_bytes) == (first.manifest, 0, 147)
    assert where.files() == before


def test_parts_of_all_lives_are_found_newest_first(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore()
    pin = make_pin(tmp_path / "pin", {"a": b"1"})
    for step, incarnation, claim_epoch in ((2, 5, 7), (10, 5, 7), (10, 9, 8), (10, 5, 8)):
        store.save(place(where.location, step, incarnation, claim_epoch), pin)
    store.save(place(where.location, 11, node=1), pin)
    found = store.parts(where.location, "orders", "Kq3-Xz_9TpWbV0aB1cD2eF", 0)
    assert [(part.step, part.incarnation, part.claim_epoch) for part in found] == [
        (10, 9, 8),
        (10, 5, 8),
        (10, 5, 7),
        (2, 5, 7),
    ]
    assert all(store.readable(where.location, part.manifest) for part in found)
    assert store.parts(where.location, "orders", "another-log", 0) == ()


@pytest.mark.parametrize("damage", ["other bytes", "fewer bytes", "gone"])
def test_a_damaged_file_is_told_with_its_place(where: Place, tmp_path: Path, damage: str) -> None:
    store = CheckpointStore()
    saved = store.save(place(where.location, step=2), make_pin(tmp_path / "pin", FIRST))
    broken = next(path for path in where.files() if path.endswith("2_x.changelog"))
    if damage == "gone":
        where.delete(broken)
    else:
        where.write(broken, b"cd" * 70 if damage == "other bytes" else b"ab")
    with pytest.raises(CheckpointDamagedError) as raised:
        store.restore(where.location, saved.manifest, tmp_path / "back")
    assert broken in str(raised.value)
    assert saved.manifest in str(raised.value)
    assert "older checkpoint" in str(raised.value)
    assert store.readable(where.location, saved.manifest) == (damage == "other bytes")


@pytest.mark.parametrize("content", [b"", b'{"version": 1', b'{"version": 99}'])
def test_a_damaged_manifest_is_told_and_is_no_part(where: Place, tmp_path: Path, content: bytes) -> None:
    store = CheckpointStore()
    saved = store.save(place(where.location, step=2), make_pin(tmp_path / "pin", FIRST))
    where.write(saved.manifest, content)
    assert not store.readable(where.location, saved.manifest)
    with pytest.raises(CheckpointDamagedError, match=re.escape(saved.manifest)):
        store.restore(where.location, saved.manifest, tmp_path / "back")


def test_a_manifest_can_not_lead_out_of_its_place(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore()
    saved = store.save(place(where.location, step=2), make_pin(tmp_path / "pin", {"a": b"1"}))
    told = json.loads(where.read(saved.manifest))
    told["files"][0]["path"] = "../../escaped"
    where.write(saved.manifest, json.dumps(told).encode())
    with pytest.raises(CheckpointDamagedError, match="relative path"):
        store.restore(where.location, saved.manifest, tmp_path / "a" / "back")
    with pytest.raises(CheckpointError, match="not the path of a part's manifest"):
        store.restore(
            where.location, "../x/node-0/inc-1/manifests/step-1.epoch-1.json", tmp_path / "a" / "back"
        )


def test_a_manifest_in_another_parts_place_is_refused(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore()
    saved = store.save(place(where.location, step=2), make_pin(tmp_path / "pin", {"a": b"1"}))
    elsewhere = saved.manifest.replace("step-2", "step-3")
    where.write(elsewhere, where.read(saved.manifest))
    with pytest.raises(CheckpointDamagedError, match="another part"):
        store.restore(where.location, elsewhere, tmp_path / "back")


def test_a_part_that_is_not_there_is_told(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore()
    absent = "orders/log/node-0/inc-1/manifests/step-4.epoch-1.json"
    assert not store.readable(where.location, absent)
    with pytest.raises(CheckpointDamagedError, match=re.escape(absent)):
        store.restore(where.location, absent, tmp_path / "back")
    store.drop(where.location, absent)


def test_a_restore_into_a_directory_that_is_in_use_is_refused(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore()
    saved = store.save(place(where.location, step=2), make_pin(tmp_path / "pin", FIRST))
    with pytest.raises(CheckpointError, match="not empty"):
        store.restore(where.location, saved.manifest, tmp_path / "pin")
    assert contents_of(tmp_path / "pin") == FIRST


def test_a_pin_that_is_not_there_is_told(where: Place, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="there is no pin"):
        CheckpointStore().save(place(where.location, step=2), tmp_path / "nothing")
    assert where.files() == set()


def test_a_cancelled_save_leaves_nothing(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore(StoreLimits(chunk_bytes=16))
    first = store.save(place(where.location, step=2), make_pin(tmp_path / "first", FIRST))
    before, pin = where.files(), make_pin(tmp_path / "second", SECOND)
    for moment in (1, 3, 8, 12):
        asked = iter(range(1, 1000))
        with pytest.raises(CheckpointCancelledError):
            store.save(
                place(where.location, step=3), pin, lambda asked=asked, moment=moment: next(asked) >= moment
            )
        assert where.files() == before
    assert restored(store, where, first.manifest, tmp_path / "back") == FIRST


def test_everything_that_is_dropped_is_gone(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore()
    first = store.save(place(where.location, step=2), make_pin(tmp_path / "first", FIRST))
    second = store.save(place(where.location, step=3), make_pin(tmp_path / "second", SECOND))
    store.drop(where.location, second.manifest)
    store.drop(where.location, first.manifest)
    assert where.files() == set()


def test_a_sweep_leaves_parts_and_newer_lives_alone(where: Place, tmp_path: Path) -> None:
    store = CheckpointStore()
    pin = make_pin(tmp_path / "pin", FIRST)
    saved = [store.save(place(where.location, 2, incarnation=life), pin) for life in (5, 9, 12)]
    node = "orders/Kq3-Xz_9TpWbV0aB1cD2eF/node-0"
    for life in (5, 9, 12):
        where.write(f"{node}/inc-{life}/data/step-3.epoch-7.0123456789abcdef/out/half", b"left")
    for life in (5, 12):
        where.write(f"{node}/inc-{life}/saving/step-3.epoch-7.0123456789abcdef", b"")
    store.drop(where.location, saved[0].manifest)
    assert any(path.startswith(f"{node}/inc-5/data") for path in where.files()), "its save may be under way"
    store.sweep(where.location, "orders", "Kq3-Xz_9TpWbV0aB1cD2eF", 0, incarnation=9)
    left = where.files()
    assert not any(path.startswith(f"{node}/inc-5/") for path in left)
    assert {path for path in left if path.endswith("half")} == {
        f"{node}/inc-12/data/step-3.epoch-7.0123456789abcdef/out/half"
    }
    for each in saved[1:]:
        assert restored(store, where, each.manifest, tmp_path / each.manifest) == FIRST


def test_a_zombie_whose_files_are_swept_away_at_any_moment_writes_no_manifest(
    where: Place, tmp_path: Path
) -> None:
    """The sweep takes its life for dead. It has then either written its part whole before, or it never
    does."""
    newer, pin, told = CheckpointStore(), make_pin(tmp_path / "pin", FIRST), set()
    for moment in range(2, 22):
        zombie, part = (
            CheckpointStore(StoreLimits(chunk_bytes=16, parallel_files=1)),
            place(where.location, 2, moment),
        )
        asked = iter(range(1, 1000))

        def swept_meanwhile(
            part: PartPlace = part, moment: int = moment, asked: Iterator[int] = asked
        ) -> bool:
            if next(asked) == moment:
                newer.sweep(where.location, part.pipeline, part.log_id, part.node, part.incarnation + 1)
            return False

        try:
            zombie.save(part, pin, swept_meanwhile)
        except CheckpointError as error:
            told.add("not the node any more" in str(error))
        newer.sweep(where.location, part.pipeline, part.log_id, part.node, part.incarnation + 1)
        for found in newer.parts(where.location, part.pipeline, part.log_id, part.node):
            assert restored(newer, where, found.manifest, tmp_path / "back" / str(moment)) == FIRST
            newer.drop(where.location, found.manifest)
        assert where.files() == set()
    assert True in told

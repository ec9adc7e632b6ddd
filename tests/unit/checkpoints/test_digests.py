"""Files that this process has read are known, and none of another content is taken for one of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kcontrol.adapters.checkpoints import CheckpointStore, digests, restoring
from kcontrol.adapters.checkpoints.digests import KnownDigests, key_of
from kcontrol.adapters.checkpoints.model import BroughtBytes
from tests.support.parts import contents_of, make_pin, place

FIRST = {"out/state/0/0/SSTs/1-a.sst": b"ab" * 70}
[PATH] = FIRST
SIZE = len(FIRST[PATH])


class _Scene:
    """A part that was saved, and was fetched ahead by another process."""

    def __init__(self, tmp_path: Path) -> None:
        self.where, self.ahead, self.target = tmp_path / "store", tmp_path / "ahead", tmp_path / "opened"
        part = place(self.where.as_uri(), step=2)
        saver = CheckpointStore(known=KnownDigests())
        self.name = saver.save(part, make_pin(tmp_path / "pin", FIRST)).manifest
        self.store = CheckpointStore(known=KnownDigests())
        assert self.fetched(self.ahead, None) == BroughtBytes(bytes=SIZE)

    def fetched(self, target: Path, at_hand: Path | None) -> BroughtBytes:
        location = self.where.as_uri()
        files = self.store.manifest(location, self.name).files
        candidates = None if at_hand is None else lambda path: [at_hand / path]
        return self.store.fetch(location, self.name, files, target, candidates)


def test_what_was_copied_ahead_is_linked_without_being_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = _Scene(tmp_path)
    for module in (digests, restoring):
        monkeypatch.setattr(module, "sha256", None)
    assert scene.fetched(scene.target, scene.ahead) == BroughtBytes(linked_bytes=SIZE)
    assert contents_of(scene.target) == FIRST


def test_what_was_changed_since_is_not_taken(tmp_path: Path) -> None:
    scene = _Scene(tmp_path)
    changed = scene.ahead / PATH
    before = changed.stat().st_mtime_ns
    changed.write_bytes(b"x" * SIZE)
    os.utime(changed, ns=(before + 1, before + 1))
    assert scene.fetched(scene.target, scene.ahead) == BroughtBytes(bytes=SIZE)
    assert contents_of(scene.target) == FIRST


def test_what_was_asked_for_longest_ago_is_forgotten(tmp_path: Path) -> None:
    known = KnownDigests(most_files=2)
    keys = [(0, inode, 1, 0) for inode in range(3)]
    for key in keys[:2]:
        known.note(key, str(key))
    assert known.of(keys[0])
    known.note(keys[2], "new")
    assert [known.of(key) is not None for key in keys] == [True, False, True]


def test_a_file_that_is_gone_or_has_another_size_is_not_known(tmp_path: Path) -> None:
    known, file = KnownDigests(), tmp_path / "a"
    known.note_file(file, 1, "digest")
    file.write_bytes(b"ab")
    known.note_file(file, 1, "digest")
    assert known.of(key_of(file.stat())) is None


def test_the_same_file_under_another_name_is_not_stored_twice(tmp_path: Path) -> None:
    where, store = (tmp_path / "store").as_uri(), CheckpointStore(known=KnownDigests())
    first = make_pin(tmp_path / "first", FIRST)
    store.save(place(where, step=2), first)
    renamed = tmp_path / "second" / PATH.replace("1-a", "1-b")
    renamed.parent.mkdir(parents=True)
    renamed.hardlink_to(first / PATH)
    saved = store.save(place(where, step=3), tmp_path / "second")
    assert saved.copied_bytes == 0
    store.restore(where, saved.manifest, tmp_path / "back")
    assert contents_of(tmp_path / "back") == {PATH.replace("1-a", "1-b"): FIRST[PATH]}

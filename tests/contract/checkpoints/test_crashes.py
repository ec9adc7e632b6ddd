"""`kill -9` of a real process in the middle of a save, at every moment that there is: older parts stay, no
half part appears, and the next life clears up."""

from __future__ import annotations

import multiprocessing
import shutil
import signal
from pathlib import Path

from kcontrol.adapters.checkpoints import CheckpointStore, PartPlace
from tests.contract.checkpoints.conftest import Place
from tests.support.dice import seeded
from tests.support.parts import SMALL_PIECES, contents_of, make_pin, place, save_and_die, save_in_parallel
from tests.support.patience import HANG_S

OLD = {"out/commits/1": b"record", "out/state/0/0/2_x.changelog": b"changes", "out/metadata": b"id"}
NEW = {
    "out/commits/2": b"record 2",
    "out/state/0/0/2_x.changelog": b"changes",
    "out/metadata": b"id",
    "more/empty": b"",
}
LOG_ID = "Kq3-Xz_9TpWbV0aB1cD2eF"

# Forked from a process that has imported everything and has no threads yet: cheap, and as real as any other.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["tests.support.parts"])


def dies(where: Place, part: PartPlace, pinned: Path, moment: int) -> bool:
    """Whether the save was killed at that moment; otherwise it had ended before."""
    process = _processes.Process(target=save_and_die, args=(dict(where.environment), part, pinned, moment))
    process.start()
    process.join(HANG_S)
    assert process.exitcode in (0, -signal.SIGKILL), f"moment {moment}: exit code {process.exitcode}"
    return process.exitcode != 0


def check(where: Place, old: str, tmp_path: Path, moment: int) -> bool:
    """The old part is whole; the new one is whole or not there, and which."""
    store = CheckpointStore()
    found = {part.step: part.manifest for part in store.parts(where.location, "orders", LOG_ID, 0)}
    assert found[2] == old
    back = tmp_path / f"back-{moment}"
    for step, expected in ((2, OLD), (3, NEW)):
        if step in found:
            assert store.readable(where.location, found[step])
            store.restore(where.location, found[step], back / str(step))
            assert contents_of(back / str(step)) == expected, f"moment {moment}, step {step}"
    shutil.rmtree(back)
    return 3 in found


def check_next_life(where: Place, pinned: Path, tmp_path: Path) -> None:
    """A new life saves and sweeps; then there is nothing that no manifest names."""
    store = CheckpointStore()
    saved = store.save(place(where.location, step=3, incarnation=9), pinned)
    store.sweep(where.location, "orders", LOG_ID, 0, incarnation=9)
    store.restore(where.location, saved.manifest, tmp_path / "next")
    assert contents_of(tmp_path / "next") == NEW
    shutil.rmtree(tmp_path / "next")
    named = set()
    for part in store.parts(where.location, "orders", LOG_ID, 0):
        manifest = store.restore(
            where.location, part.manifest, tmp_path / "each" / str(part.incarnation) / str(part.step)
        )
        named |= {
            part.manifest,
            *(f"orders/{LOG_ID}/node-0/inc-{part.incarnation}/{file.stored}" for file in manifest.files),
        }
    shutil.rmtree(tmp_path / "each")
    assert where.files() == named


def test_a_save_that_is_killed_at_any_moment(where: Place, tmp_path: Path) -> None:
    old_pin, new_pin = make_pin(tmp_path / "old", OLD), make_pin(tmp_path / "new", NEW)
    old = CheckpointStore(SMALL_PIECES).save(place(where.location, step=2), old_pin)
    before = {path: where.read(path) for path in where.files()}
    outcomes = []
    for moment in range(1, 200):
        killed = dies(where, place(where.location, step=3), new_pin, moment)
        outcomes.append(check(where, old.manifest, tmp_path, moment))
        check_next_life(where, new_pin, tmp_path)
        if not killed:
            break
        for path in where.files() - set(before):
            where.delete(path)
        assert {path: where.read(path) for path in where.files()} == before
    assert outcomes == sorted(outcomes), "once the part was there, it is there at every later moment"
    assert not outcomes[0]
    assert outcomes[-1]
    assert len(outcomes) > 15


def test_saves_go_on_after_one_that_was_killed(where: Place, tmp_path: Path) -> None:
    """Many deaths in a row, each in a life of its own, and no sweep in between."""
    pin = make_pin(tmp_path / "new", NEW)
    for incarnation, moment in enumerate((3, 5, 7, 9, 11), 5):
        assert dies(where, place(where.location, step=3, incarnation=incarnation), pin, moment)
    assert CheckpointStore().parts(where.location, "orders", LOG_ID, 0) == ()
    store = CheckpointStore()
    saved = store.save(place(where.location, step=3, incarnation=20), pin)
    store.restore(where.location, saved.manifest, tmp_path / "back")
    assert contents_of(tmp_path / "back") == NEW
    store.sweep(where.location, "orders", LOG_ID, 0, incarnation=20)
    assert {path.split("/")[3] for path in where.files()} == {"inc-20"}


def test_a_save_by_several_threads_that_is_killed_from_outside(where: Place, tmp_path: Path) -> None:
    dice = seeded()
    contents = {f"q{number % 3}/{number}": dice.randbytes(dice.randrange(2_000)) for number in range(150)}
    pin, store = make_pin(tmp_path / "pin", contents), CheckpointStore()
    for incarnation in range(1, 9):
        part = place(where.location, step=incarnation, incarnation=incarnation)
        process = _processes.Process(target=save_in_parallel, args=(dict(where.environment), part, pin))
        process.start()
        process.join(dice.uniform(0, 0.6))
        process.kill()
        process.join()
        for found in store.parts(where.location, "orders", LOG_ID, 0):
            back = tmp_path / "back" / str(incarnation) / str(found.step)
            store.restore(where.location, found.manifest, back)
            assert contents_of(back) == contents
    last = store.save(place(where.location, step=9, incarnation=9), pin)
    store.sweep(where.location, "orders", LOG_ID, 0, incarnation=9)
    for found in store.parts(where.location, "orders", LOG_ID, 0):
        assert store.readable(where.location, found.manifest)
        store.drop(where.location, found.manifest)
    assert not store.readable(where.location, last.manifest)
    assert where.files() == set()

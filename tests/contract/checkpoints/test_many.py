"""Any order of saves, drops, sweeps, broken-off saves and new lives; and several of them at once."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from kcontrol.adapters.checkpoints import CheckpointStore, StoreLimits
from kcontrol.errors import CheckpointCancelledError
from tests.contract.checkpoints.conftest import Place
from tests.support.dice import seeded
from tests.support.parts import contents_of, make_pin, place

LOG_ID = "Kq3-Xz_9TpWbV0aB1cD2eF"


def changed(contents: dict[str, bytes], dice: random.Random) -> dict[str, bytes]:
    """As a life's pins follow each other: most files stay, some go, some come, few
    change under the same name and size."""
    kept = {path: content for path, content in contents.items() if dice.random() < 0.8}
    for path in kept:
        if dice.random() < 0.1:
            kept[path] = dice.randbytes(len(kept[path]))
    for _ in range(dice.randrange(1, 4)):
        kept[f"q{dice.randrange(2)}/{dice.randrange(12)}"] = dice.randbytes(dice.randrange(40))
    return kept


def test_any_order_of_everything(where: Place, tmp_path: Path) -> None:
    dice = seeded()
    store = CheckpointStore(StoreLimits(chunk_bytes=8, parallel_files=2))
    parts: dict[str, dict[str, bytes]] = {}
    contents: dict[str, bytes] = {}
    incarnation = 1
    for number in range(1, 41 if where.environment else 81):
        match dice.choice(["save", "save", "save", "drop", "sweep", "break off", "new life"]):
            case "save":
                contents = changed(contents, dice)
                pin = make_pin(tmp_path / f"pin-{number}", contents)
                parts[store.save(place(where.location, number, incarnation), pin).manifest] = contents
            case "drop" if parts:
                manifest = dice.choice(sorted(parts))
                store.drop(where.location, manifest)
                del parts[manifest]
            case "sweep":
                store.sweep(where.location, "orders", LOG_ID, 0, incarnation)
            case "break off":
                pin = make_pin(tmp_path / f"pin-{number}", changed(contents, dice))
                pieces = iter(range(dice.randrange(25)))
                try:
                    saved = store.save(
                        place(where.location, number, incarnation),
                        pin,
                        lambda left=pieces: next(left, -1) < 0,
                    )
                    parts[saved.manifest] = contents_of(pin)
                except CheckpointCancelledError:
                    pass
            case "new life":
                incarnation += 1
                store = CheckpointStore(StoreLimits(chunk_bytes=8, parallel_files=2))
        assert {part.manifest for part in store.parts(where.location, "orders", LOG_ID, 0)} == set(parts)
        assert all(store.readable(where.location, manifest) for manifest in parts)
    for manifest, expected in parts.items():
        store.restore(where.location, manifest, tmp_path / "back" / manifest)
        assert contents_of(tmp_path / "back" / manifest) == expected
        store.drop(where.location, manifest)
    store.sweep(where.location, "orders", LOG_ID, 0, incarnation)
    assert where.files() == set()


def test_drops_and_sweeps_by_others_during_saves(where: Place, tmp_path: Path) -> None:
    """Two nodes save one part after the other, another process drops all but the last
    two, a third sweeps all the time."""
    dice = seeded()
    done = threading.Event()
    saves = 10 if where.environment else 20
    kept: dict[int, dict[str, dict[str, bytes]]] = {0: {}, 1: {}}
    pins = {node: tmp_path / f"pins-{node}" for node in kept}
    plans = {node: [random.Random(dice.randrange(1 << 32)) for _ in range(2)] for node in kept}

    def node(number: int) -> None:
        saver, dropper = CheckpointStore(StoreLimits(chunk_bytes=8)), CheckpointStore()
        contents: dict[str, bytes] = {}
        drops = []
        with ThreadPoolExecutor(1) as other:
            for step in range(1, saves):
                contents = changed(contents, plans[number][0])
                pin = make_pin(pins[number] / str(step), contents)
                manifest = saver.save(place(where.location, step, node=number), pin).manifest
                kept[number][manifest] = contents
                for old in sorted(kept[number], key=lambda path: int(path.split("step-")[1].split(".")[0]))[
                    :-2
                ]:
                    del kept[number][old]
                    drops.append(other.submit(dropper.drop, where.location, old))
        for drop in drops:
            drop.result()

    def sweeper() -> None:
        store = CheckpointStore()
        while not done.is_set():
            for number in kept:
                store.sweep(where.location, "orders", LOG_ID, number, incarnation=5)

    with ThreadPoolExecutor(3) as pool:
        sweeping = pool.submit(sweeper)
        try:
            for running in [pool.submit(node, number) for number in kept]:
                running.result()
        finally:
            done.set()
        sweeping.result()
    store = CheckpointStore()
    for number, parts in kept.items():
        assert {part.manifest for part in store.parts(where.location, "orders", LOG_ID, number)} == set(parts)
        for manifest, expected in parts.items():
            store.restore(where.location, manifest, tmp_path / "back" / manifest)
            assert contents_of(tmp_path / "back" / manifest) == expected
            store.drop(where.location, manifest)
        store.sweep(where.location, "orders", LOG_ID, number, incarnation=5)
    assert where.files() == set()

"""Logs of clusters of agents, as bytes, and the digests of the values that they make."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from pathlib import Path

from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.model import EMPTY
from kcontrol.core.cluster.replica import apply
from kcontrol.wire.cluster import entry_bytes, entry_of
from tests.simulation.cluster.schedule import ClusterSchedule

FOLDER = Path(__file__).parent / "clusters"
SEEDS = {"two-codes": (11, True), "one-code": (12, False)}
EVERY = 20
ENTRIES = 120


def fold(log: list[bytes]) -> dict[str, str]:
    """The digest of the value at every so many offsets, and at the end."""
    value, found = EMPTY, {}
    for offset, data in enumerate(log):
        entry = entry_of(offset, data, 0).entry
        assert entry is not None, offset
        value, _ = apply(value, offset, entry)
        if offset % EVERY == 0 or offset == len(log) - 1:
            found[str(offset)] = digest(value)
    return found


def read(path: Path) -> tuple[list[bytes], dict[str, str]]:
    golden = json.loads(path.read_text(encoding="utf-8"))
    return [b64decode(entry) for entry in golden["log"]], golden["digests"]


def make() -> list[str]:
    """Those that are missing; their names."""
    FOLDER.mkdir(exist_ok=True)
    made = []
    for name, (seed, two_codes) in SEEDS.items():
        path = FOLDER / f"{name}.json"
        if not path.exists():
            log = _play(seed, two_codes)
            golden = {"log": [b64encode(entry).decode() for entry in log], "digests": fold(log)}
            path.write_text(json.dumps(golden, indent=0) + "\n", encoding="utf-8")
            made.append(name)
    return made


def _play(seed: int, two_codes: bool) -> list[bytes]:
    """The first schedule from a seed on that is long enough."""
    while True:
        schedule = ClusterSchedule(seed, two_codes=two_codes)
        schedule.world.cut = lambda to: None  # type: ignore[method-assign]
        schedule.run()
        log = [entry_bytes(entry) for entry in schedule.world.log if entry is not None]
        if len(log) >= ENTRIES:
            return log
        seed += 1

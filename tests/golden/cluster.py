"""Logs of clusters of agents, as bytes, and the digests of the values that they make."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.entries import Abort, ClusterEntry, Leave, Notify, PeerGc, Prepare
from kcontrol.core.cluster.model import EMPTY, LEFT_ROOM_LEVEL, RESIZE_LEVEL, Replica
from kcontrol.core.cluster.replica import apply
from kcontrol.wire.cluster import entry_bytes, entry_of
from tests.simulation.cluster.faults import (
    agent_restarted_at_once,
    coordinator_can_not_run,
    host_added,
    host_can_not_run_a_job,
    host_killed,
)
from tests.simulation.cluster.schedule import ClusterSchedule
from tests.simulation.invariants import Violation
from tests.unit.core.cluster.made import joins

FOLDER = Path(__file__).parent / "clusters"
EVERY = 20
ENTRIES = 120
MANY = 20
"""Entries that count at a level, for it to be in a log."""
TRIES = 3_000


@dataclass(frozen=True)
class Played:
    """A schedule of the simulator from a seed on. options: of the schedule. has: what is in the log; see `what_is_in`."""

    seed: int
    options: Mapping[str, Any]
    has: frozenset[str] = field(default_factory=frozenset)


def _up_to(seed: int, level: int, *has: str, **options: Any) -> Played:
    """Of one code, so all of it is at this level."""
    none = dict.fromkeys(("ends", "as_of", "stands", "fits", "keeps", "tries", "refills"), False)
    wanted = frozenset((f"level {level}", *has))
    return Played(seed, {"two_codes": False, "resizes": True, **none, **options}, wanted)


PLAYED = {
    "two-codes": Played(11, {"two_codes": True}),
    "one-code": Played(12, {"two_codes": False}),
    "level-2": _up_to(20, 2, up_to=2),
    "level-3": _up_to(21, 3, "ResizeJob", "JobResized", up_to=RESIZE_LEVEL),
    "level-4": _up_to(22, 4, "ResizeJob", "JobResized", "KillJob", "CompleteTask", ends=True),
    "level-5": _up_to(23, 5, "DrainAgent", "SetPolicy", as_of=True),
    "level-6": _up_to(24, 6, "SetStandbys", "stood by", as_of=True, stands=True),
    "level-7": _up_to(25, 7, "SetBounds", "FitJob", "bounds", fits=True),
    "level-8": _up_to(
        *(26, 8, "SetStandbys", "SetBounds", "FitJob", "stood by", "bounds", "unable", "bad"),
        **{"ends": True, "stands": True, "fits": True, "keeps": True},
        likely=(coordinator_can_not_run,),
    ),
    "level-9": _up_to(
        *(28, 9, "bad"),
        **{"ends": True, "keeps": True, "tries": True},
        likely=(host_can_not_run_a_job, agent_restarted_at_once),
    ),
    "level-10": _up_to(
        *(969, 10, "SetStandbys", "left room"),
        **{"stands": True, "refills": True},
        likely=(host_killed, host_added),
    ),
    "rising": Played(
        27,
        {"two_codes": True, "resizes": True, "stands": True, "fits": True, "keeps": True},
        frozenset(("level 1", "level 8", "SetStandbys", "FitJob")),
    ),
}
NAMES = (*PLAYED, "original")


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


def what_is_in(log: Iterable[bytes]) -> set[str]:
    """Kinds of entries of which one has counted; levels, as `level 3`, at which many have; parts of the value that had
    something in them; `left room`, if a standby was put where another one had moved away."""
    value, found, at = EMPTY, set[str](), Counter[int]()
    for offset, data in enumerate(log):
        entry = entry_of(offset, data, 0).entry
        assert entry is not None, offset
        before = value
        value, why = apply(before, offset, entry)
        if not why:
            found |= {"left room"} if _takes_left_room(before, value, entry) else set()
            found.add(type(entry).__name__)
            at[value.level] += 1
            found |= _parts(value)
    return found | {f"level {level}" for level, entries in at.items() if entries >= MANY}


def _takes_left_room(before: Replica, after: Replica, entry: ClusterEntry) -> bool:
    if before.level < LEFT_ROOM_LEVEL:
        return False
    without, _ = apply(before.but(level=LEFT_ROOM_LEVEL - 1), after.offset, entry)
    return without.places() != after.places()


def _parts(value: Replica) -> set[str]:
    parts = {
        "unable": value.unable,
        "bad": value.bad,
        "bounds": any(job.bounds is not None for job in value.jobs.values()),
        "kept": any(job.kept for job in value.jobs.values()),
        "stood by": any(place.stood_by for place in value.places().values()),
    }
    return {name for name, there in parts.items() if there}


def read(path: Path) -> tuple[list[bytes], dict[str, str]]:
    golden = json.loads(path.read_text(encoding="utf-8"))
    return [b64decode(entry) for entry in golden["log"]], golden["digests"]


def make() -> list[str]:
    """Those that are missing; their names."""
    FOLDER.mkdir(exist_ok=True)
    made = []
    for name in NAMES:
        path = FOLDER / f"{name}.json"
        if not path.exists():
            log = _play(PLAYED[name]) if name in PLAYED else [entry_bytes(entry) for entry in _original()]
            golden = {"log": [b64encode(entry).decode() for entry in log], "digests": fold(log)}
            path.write_text(json.dumps(golden, indent=0) + "\n", encoding="utf-8")
            made.append(name)
    return made


def _play(played: Played) -> list[bytes]:
    """The first schedule from a seed on that is long enough, and has what it is to have."""
    for seed in range(played.seed, played.seed + TRIES):
        schedule = ClusterSchedule(seed, **played.options)
        schedule.world.cut = lambda to: None  # type: ignore[method-assign]
        try:
            schedule.run()
        except Violation:
            continue
        log = [entry_bytes(entry) for entry in schedule.world.log if entry is not None]
        if len(log) >= ENTRIES and played.has <= what_is_in(log):
            return log
    raise RuntimeError(f"no schedule has {sorted(played.has)}")


def _original() -> list[ClusterEntry]:
    """What no agent says, and `apply` takes all the same (decision 161)."""
    return [
        *joins("abc"),
        PeerGc("x", "x-1"),
        Leave("b", "b-1", "x", "x-1", "silent"),
        PeerGc("y", "y-1"),
        Prepare("x", "x-1", once=True),
        Prepare("y", "y-1", once=True),
        Notify("x", "x-1"),
        Leave("a", "a-1", "a", "a-1", "asked to"),
        Prepare("z", "z-1", slots=2, tags=("gpu",)),
        Abort("z", "z-1", "z", "z-1"),
        Prepare("z", "z-2", once=True),
    ]

"""What was looked up in a value, and carried over from the one before, is what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import SystemRandom
from typing import Any

import pytest

from kcontrol.core.cluster.looked_up import carried_over
from kcontrol.core.cluster.model import EMPTY, Replica
from tests.simulation.cluster.schedule import ClusterSchedule

_SCHEDULES = 12
PARTS = {name for name in EMPTY.__dict__ if name not in ("known", "settled")}


class ReadReplica(Replica):
    """Of which is written down what of it is read, but what was put in its place."""

    def __getattribute__(self, name: str) -> Any:
        if name in PARTS:
            held = object.__getattribute__(self, "__dict__")
            if name not in held["put"]:
                held["read"].add(name)
        return super().__getattribute__(name)

    def but(self, **parts: Any) -> Replica:
        made = read_replica(super().but(**parts))
        made.__dict__.update(read=self.__dict__["read"], put={*self.__dict__["put"], *parts})
        return made


def read_replica(value: Replica) -> ReadReplica:
    """As a value of which nothing was looked up."""
    made = object.__new__(ReadReplica)
    made.__dict__.update({**value.__dict__, "known": {}, "read": set(), "put": set()})
    return made


def looked_up(value: Replica) -> Iterator[tuple[int, Callable[..., object], list[object], object]]:
    """What it follows from, the function, further arguments, what was found."""
    for key, (follows, found) in list(value.known.items()):
        compute, *more = key if isinstance(key, tuple) else (key,)
        yield follows, compute, more, found


def test_what_was_looked_up_is_what_follows_from_the_parts_that_are_named() -> None:
    first, names = SystemRandom().randrange(10**9), set()
    print(f"seeds from {first}")  # noqa: T201
    for seed in range(first, first + _SCHEDULES):
        schedule = ClusterSchedule(seed, two_codes=False, resizes=True, stands=seed % 2 == 0, fits=True)
        schedule.run()
        for value in schedule.world.values.true.values():
            for follows, compute, more, found in looked_up(value):
                fresh, name = read_replica(value), compute.__qualname__
                if name != "digest":  # It names the kind of what it is of.
                    assert compute(fresh, *more) == found, (seed, value.offset, name, more)
                names.add(name)
                for part in fresh.__dict__["read"]:
                    gone = not carried_over({1: (follows, found)}, [part])
                    assert gone, f"{name} reads {part}, which it does not say"
    assert {"digest", "fitting", "Replica.places", "Replica.active", "watched", "_by_warden"} <= names


def test_what_is_no_part_of_a_replica_is_refused() -> None:
    with pytest.raises(TypeError, match="no part of a replica: \\['job', 'known'\\]"):
        EMPTY.but(job={}, known={}, offset=1)

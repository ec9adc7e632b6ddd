"""Who only stands by is started later than who is at work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.apps.agent.spares import Spares, is_spare
from kcontrol.core.cluster.entries import (
    Accept,
    ClusterEntry,
    Leave,
    Notify,
    Prepare,
    SubmitJob,
)
from kcontrol.core.cluster.model import COORDINATOR, STANDBY, STANDBY_LEVEL, Place, TaskSpec, Unit
from tests.support.processes import until
from tests.unit.agent.test_coordinators import KILLED_MS, Now
from tests.unit.agent.test_endings import Life
from tests.unit.agent.test_standbys import Waits, standing_log

AFTER_MS = 5_000
OPTIONS = SessionOptions(
    restart_ms=0, spare_after_ms=AFTER_MS, coordinator=("sh", "-c", "while sleep 0.1; do :; done")
)
LEVELS = (1, STANDBY_LEVEL)
STANDS: Unit = ("job", STANDBY, 0)


class Timed:
    """Of agent `a`, whose clock stands still."""

    def __init__(self, folder: Path, log: list[ClusterEntry]) -> None:
        self.now = Now()
        self.life = Life(folder, Waits(0), log, LEVELS, OPTIONS)
        self.life.clock = self.life.session._clock = cast(Any, self.now)

    def running(self, after_ms: int) -> set[Unit]:
        """So long after the last time."""
        self.now.at_ms += after_ms
        self.life.read()
        self.life.work()
        return {one.unit for one in self.life.processes.running()}

    def close(self) -> None:
        processes = self.life.processes
        for one in processes.running():
            processes.stop(one, 0)
        until(lambda: not processes.tend(KILLED_MS) and not processes.running(), "all have ended")
        self.life.disk.close()


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[Any]:
    made: list[Timed] = []

    def make(log: list[ClusterEntry]) -> Timed:
        made.append(Timed(tmp_path / str(len(made)), log))
        return made[-1]

    yield make
    for one in made:
        one.close()


def test_a_node_is_started_at_once_and_who_stands_by_some_seconds_later(timed: Any) -> None:
    here = timed(standing_log())
    assert STANDS not in here.running(0)
    assert STANDS not in here.running(AFTER_MS - 1)
    assert STANDS in here.running(1)

    there = timed(node_here())
    assert ("job", "nodes", 0) in there.running(0)


def node_here() -> list[ClusterEntry]:
    """The only agent has the node."""
    return [
        Prepare("a", "a-1", levels=LEVELS),
        Prepare("a", "a-2", previous="a-1", levels=LEVELS),
        SubmitJob("job", "r", 1, "p", (TaskSpec("nodes", 1, 1),)),
    ]


def two_members() -> list[ClusterEntry]:
    """On both of whom there is a coordinator, on b first."""
    return [
        Prepare("b", "b-1", levels=LEVELS),
        Prepare("a", "a-1", levels=LEVELS),
        Notify("a", "a-1"),
        Accept("a", "a-1", "b", "b-1"),
        Prepare("a", "a-2", previous="a-1", levels=LEVELS),
    ]


def test_a_second_coordinator_is_started_later_and_the_only_one_at_once(timed: Any) -> None:
    log = two_members()
    one = timed(log)
    assert COORDINATOR not in one.running(0)
    assert COORDINATOR not in one.running(AFTER_MS - 1)
    assert COORDINATOR in one.running(1)


def test_one_that_waits_is_started_at_once_when_the_other_is_gone(timed: Any) -> None:
    log = two_members()
    one = timed(log)
    assert COORDINATOR not in one.running(0)
    log.append(Leave("b", "b-1", "b", "b-1", "asked to"))
    assert COORDINATOR in one.running(1)


def test_another_placement_waits_anew() -> None:
    spares = Spares(AFTER_MS)
    assert not spares.may_start(STANDS, 5, 0)
    assert spares.may_start(STANDS, 5, AFTER_MS)
    assert not spares.may_start(STANDS, 9, AFTER_MS)
    assert spares.may_start(STANDS, 9, 2 * AFTER_MS)


def test_whoever_was_placed_first_is_no_spare() -> None:
    first, second = Place("a", 4), Place("b", 7)
    assert not is_spare(first, (first, second))
    assert is_spare(second, (first, second))
    assert not is_spare(second, (second,))

"""An agent runs a coordinator where the value places one, and ends it where it does not; nobody starts any by hand."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from kcontrol.apps.agent.processes import EndedProcess
from kcontrol.apps.agent.restarts import Restarts
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.backoff import Backoff
from kcontrol.core.cluster.duties import Identity
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    Configure,
    Drain,
    Leave,
    Prepare,
    RaiseLevel,
    TaskFailed,
)
from kcontrol.core.cluster.model import COORDINATOR, COORDINATOR_LEVEL, ClusterPolicy
from kcontrol.core.cluster.work import RunningUnit
from kcontrol.errors import (
    AccessError,
    ClusterError,
    ConfigurationError,
    JavaError,
    KcontrolError,
    ReplacedError,
)
from tests.support.processes import until
from tests.unit.agent.test_endings import Ending, Life
from tests.unit.core.cluster.made import joined

JOINED: list[ClusterEntry] = [Prepare("a", "a-1")]
NONE_WANTED: list[ClusterEntry] = [*JOINED, Configure(ClusterPolicy(coordinators=0))]


KILLED_MS = 1_000_000
"""Long after one was told to end."""


class Coordinating(Life):
    """Its coordinator waits until it is ended, or is told to end."""

    def __init__(self, folder: Path, log: list[ClusterEntry]) -> None:
        super().__init__(folder / "agent", Ending(0), log)
        earlier = tuple(one.incarnation for one in log[:-1] if isinstance(one, Prepare))
        self.machine.me = Identity("a", f"a-{len(earlier) + 1}", 1, earlier=earlier)
        self.gate = folder / "gate"
        if not self.gate.exists():
            os.mkfifo(self.gate)
        coordinator = ("sh", "-c", f"read line < {self.gate}")
        self.session._options = SessionOptions(restart_ms=0, coordinator=coordinator)

    def pid(self) -> int | None:
        """Of its coordinator, after one more look; there is never another beside it."""
        self.work()
        running = [one for one in self.processes.running() if one.unit == COORDINATOR]
        assert len(running) <= 1
        return self.processes.pids().get(COORDINATOR)

    def close(self) -> None:
        """One that has not become what it is to run may not hear that it is to end, and is killed."""
        for one in self.processes.running():
            self.processes.stop(one, 0)
        until(lambda: not self.processes.tend(KILLED_MS) and not self.processes.running(), "all have ended")
        self.disk.close()


Made = Callable[[list[ClusterEntry]], Coordinating]


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Made]:
    lives: list[Coordinating] = []

    def make(log: list[ClusterEntry]) -> Coordinating:
        lives.append(Coordinating(tmp_path, log))
        return lives[-1]

    yield make
    for one in reversed(lives):
        one.close()


def test_coordinators_are_placed_on_different_hosts_as_many_as_are_wanted() -> None:
    value = joined("abc")
    places = [place.agent for place in value.coordinators]
    assert len(set(places)) == len(places) == value.policy.coordinators
    assert [place.agent for place in joined("a").coordinators] == ["a"], "as far as there are hosts"


def test_a_coordinator_runs_where_it_is_placed_and_is_started_again_when_it_ends(life: Made) -> None:
    one = life(JOINED)
    assert one.pid() is None, "the log was not read"
    one.read()
    first = one.pid()
    assert first is not None
    assert one.pid() == first, "it goes on"
    one.gate.write_text("end\n")
    until(lambda: one.pid() not in (None, first), "another one runs")
    assert any("coordinator" in what and " end with code 0" in what for what in one.told)


class Now:
    """A clock that stands still until a test moves it."""

    def __init__(self) -> None:
        self.at_ms = KILLED_MS

    def monotonic_ms(self) -> int:
        return self.at_ms


def pauses_s(life: Life, now: Now, starts: int) -> list[int]:
    """Between the end of a coordinator and the start of the next, in full seconds, so many times."""
    found = list[int]()
    for ends in range(1, starts + 1):
        until(lambda: life.sees(ends), f"it has ended {ends} times")  # noqa: B023
        seen_ms = now.at_ms
        while life.processes.is_free(COORDINATOR):
            now.at_ms += 1_000
            life.work()
        found.append((now.at_ms - seen_ms) // 1_000)
    until(lambda: life.sees(starts + 1), "the last one has ended too")
    return found


@pytest.mark.parametrize(
    ("code", "short_life_s", "expected"),
    [
        (1, 600.0, [2, 4, 8, 10, 10]),
        (JavaError.exit_code, 600.0, [2, 4, 8, 10, 10]),
        (1, 0.0, [2] * 5),
        (0, 600.0, [2] * 5),
    ],
    ids=["it fails", "its host lacks something", "it had run for long", "it was asked to end"],
)
def test_a_coordinator_that_fails_again_and_again_is_started_less_and_less_often(
    tmp_path: Path, code: int, short_life_s: float, expected: list[int]
) -> None:
    ends = ("sh", "-c", f"exit {code}")
    options = SessionOptions(longest_restart_ms=10_000, short_life_s=short_life_s, coordinator=ends)
    one = Life(tmp_path, Ending(0), JOINED, options=options)
    one.machine.me = Identity("a", "a-1", 1)
    now = Now()
    one.clock = one.session._clock = cast(Any, now)
    one.read()
    assert pauses_s(one, now, len(expected)) == expected
    one.disk.close()


def test_a_coordinator_that_is_placed_anew_begins_with_the_first_pause(tmp_path: Path) -> None:
    def end(generation: int) -> EndedProcess:
        return EndedProcess(COORDINATOR, generation, 1, "no such module", 0.5, tmp_path)

    restarts = Restarts(Backoff(2_000, 60_000), 60.0)
    assert [restarts.ended(end(5), 0) for _ in range(7)] == [
        2_000,
        4_000,
        8_000,
        16_000,
        32_000,
        60_000,
        60_000,
    ]
    assert [restarts.ended(end(9), 0) for _ in range(2)] == [2_000, 4_000]


def test_the_next_life_of_an_agent_goes_on_with_the_coordinator_that_it_finds(
    life: Made, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = life(JOINED)
    first.read()
    pid = first.pid()
    assert pid is not None
    first.disk.close()
    second = life([*JOINED, Prepare("a", "a-2", "a-1")])
    told: list[RunningUnit] = []
    monkeypatch.setattr(second.processes, "stop", lambda one, _now_ms: told.append(one))
    assert second.pid() == pid, "before the log was read as well"
    second.read()
    assert second.pid() == pid
    assert told == [], "nor was it told to end"


@pytest.mark.parametrize(
    "entry",
    [Configure(ClusterPolicy(coordinators=0)), Drain("a", True), Leave("a", "a-1", "a", "a-1", "silent")],
    ids=["none is wanted", "drained", "given up for dead"],
)
def test_a_coordinator_that_is_placed_here_no_more_is_ended(life: Made, entry: ClusterEntry) -> None:
    one = life([*JOINED])
    one.read()
    assert one.pid() is not None
    one.log = [*JOINED, entry]
    one.read()
    until(lambda: one.pid() is None, "it has ended")
    for _ in range(3):
        assert one.pid() is None, "and is not started again"


@pytest.mark.parametrize("wanted", [True, False], ids=["not told how", "none is wanted"])
def test_a_coordinator_that_nobody_wants_here_is_not_started(life: Made, wanted: bool) -> None:
    one = life(JOINED if wanted else NONE_WANTED)
    if wanted:
        one.session._options = SessionOptions(restart_ms=0)
    one.read()
    for _ in range(3):
        assert one.pid() is None


@pytest.mark.parametrize(
    ("error", "lives", "told"),
    [
        (ConfigurationError, 1, True),
        (AccessError, 1, True),
        (JavaError, 1, True),
        (KcontrolError, 3, True),
        (ClusterError, 4, False),
        (ReplacedError, 4, False),
    ],
)
def test_a_coordinator_that_can_not_run_is_told_to_all(
    tmp_path: Path, error: type[KcontrolError], lives: int, told: bool
) -> None:
    """At once if its host lacks something, after some tries if it may do better, and not while Kafka is away. The level at
    which that counts is reached first."""
    log: list[ClusterEntry] = [Prepare("a", "a-1", levels=(1, COORDINATOR_LEVEL))]
    ends = ("sh", "-c", f"echo kcontrol: so it is; exit {error.exit_code}")
    options = SessionOptions(restart_ms=0, short_life_s=600.0, coordinator=ends)
    one = Life(tmp_path, Ending(0), log, (1, COORDINATOR_LEVEL), options)
    one.machine.me = Identity("a", "a-1", 1, levels=(1, COORDINATOR_LEVEL))
    one.read()
    until(lambda: one.sees(lives), f"it has ended {lives} times")
    said = one.says()
    while isinstance(said, RaiseLevel):
        one.log = [*one.log, said]
        one.read()
        one.machine.appended()
        said = one.says()
    assert one.machine.replica.level == (COORDINATOR_LEVEL if told else 1)
    if told:
        assert isinstance(said, TaskFailed)
        assert (said.job, said.task, said.index) == COORDINATOR
        assert said.error == f"ended with code {error.exit_code}: so it is"
        one.log = [*one.log, said]
        one.read()
        one.machine.appended()
        assert list(one.machine.replica.unable) == ["a"]
        until(lambda: one.sees(lives + 1), "it is tried again, as there is no better host")
    assert not isinstance(one.says(), TaskFailed), "it is said once"
    one.disk.close()


def test_an_older_agent_keeps_the_others_from_the_level(tmp_path: Path) -> None:
    """Nothing is said then, and the coordinator is tried again where it is."""
    older = Prepare("b", "b-1", levels=(1, COORDINATOR_LEVEL - 1))
    log: list[ClusterEntry] = [Prepare("a", "a-1", levels=(1, COORDINATOR_LEVEL)), older]
    ends = ("sh", "-c", "exit 2")
    options = SessionOptions(restart_ms=0, short_life_s=600.0, coordinator=ends)
    one = Life(tmp_path, Ending(0), log, (1, COORDINATOR_LEVEL), options)
    one.machine.me = Identity("a", "a-1", 1, levels=(1, COORDINATOR_LEVEL))
    one.read()
    until(lambda: one.sees(3), "it has ended three times")
    assert not isinstance(one.says(), TaskFailed | RaiseLevel)
    one.disk.close()

"""What ends again and again, and says nothing of its host: started after longer and longer pauses, no failure, and told."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from kcontrol.adapters.clock import SystemClock
from kcontrol.apps.agent.processes import EndedProcess
from kcontrol.apps.agent.restarts import Restarts
from kcontrol.apps.agent.session_options import SessionOptions
from kcontrol.backoff import Backoff
from kcontrol.core.cluster.entries import ClusterEntry, SubmitJob, TaskFailed
from kcontrol.core.cluster.model import COORDINATOR, Place, TaskSpec, Unit
from kcontrol.core.cluster.troubles import AgentTroubles
from kcontrol.errors import ClusterError, KcontrolError, ReplacedError
from kcontrol.views.agents_facts import ClusterSeen, agents_of
from tests.support.processes import until
from tests.unit.agent.session import Beats
from tests.unit.agent.test_coordinators import Now
from tests.unit.agent.test_endings import LOG, Ending, Life

UNIT: Unit = ("job", "nodes", 0)


class NoError(KcontrolError):
    """It ended as if it had been asked to."""

    exit_code = 0


class Heard(Beats):
    """What is said beside the beats."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[AgentTroubles] = []

    async def say(self, said: AgentTroubles) -> None:
        self.said.append(said)


def begun(folder: Path, code: int, short_life_s: float = 600.0) -> tuple[Life, Now, Heard]:
    options = SessionOptions(longest_restart_ms=30_000, short_life_s=short_life_s)
    life, now, heard = Life(folder, Ending(code), options=options), Now(), Heard()
    life.clock = life.session._clock = cast(Any, now)
    life.session._beats = cast(Any, heard)
    life.read()
    return life, now, heard


def pauses_s(life: Life, now: Now, starts: int) -> list[int]:
    """Between the end of a node and the start of the next, in full seconds."""
    found = list[int]()
    for ends in range(1, starts + 1):
        until(lambda: life.sees(ends), f"it has ended {ends} times")  # noqa: B023
        seen_ms = now.at_ms
        while life.processes.is_free(UNIT):
            now.at_ms += 1_000
            life.work()
        found.append((now.at_ms - seen_ms) // 1_000)
    until(lambda: life.sees(starts + 1), "the last one has ended too")
    return found


@pytest.mark.parametrize("error", [ReplacedError, NoError, ClusterError])
def test_a_node_that_ends_in_vain_is_started_less_and_less_often_and_that_is_told(
    tmp_path: Path, error: type[KcontrolError]
) -> None:
    life, now, heard = begun(tmp_path, error.exit_code)
    assert pauses_s(life, now, 9) == [2, 4, 8, 16, 30, 30, 30, 30, 30]
    assert not isinstance(life.says(), TaskFailed), "no failure of the host, nor of the job"
    assert life.machine.replica.jobs["job"].active
    asyncio.run(life.session._beat())
    [said] = heard.said
    why = f"job/nodes/0 was started 10 times in vain, and will be again after 30 s: ended with code {error.exit_code}: so it is"
    assert said == AgentTroubles("a", "a-1", (why,))
    [agent] = agents_of(ClusterSeen(life.machine.replica, troubles=heard.said))
    assert agent.troubles == [why]
    assert why in agent.text
    [agent] = agents_of(ClusterSeen(life.machine.replica, troubles=[replace(said, incarnation="a-0")]))
    assert agent.troubles == [], "another life of it had them"
    life.disk.close()


def test_what_goes_on_in_vain_is_said_again_for_whoever_begins_to_look(tmp_path: Path) -> None:
    life, now, heard = begun(tmp_path, ReplacedError.exit_code)
    pauses_s(life, now, 3)
    for _ in range(4):
        asyncio.run(life.session._beat())
        now.at_ms += 20_000
    first, second = heard.said
    assert first == second
    assert first.troubles
    life.disk.close()


@pytest.mark.parametrize("error", [ReplacedError, ClusterError])
def test_one_that_had_run_for_long_is_started_again_soon(tmp_path: Path, error: type[KcontrolError]) -> None:
    life, now, heard = begun(tmp_path, error.exit_code, short_life_s=0.0)
    assert pauses_s(life, now, 4) == [2, 2, 2, 2]
    asyncio.run(life.session._beat())
    assert heard.said == [], "and nothing is told of it"
    life.disk.close()


def test_another_placement_is_started_soon(tmp_path: Path) -> None:
    """As when its user has submitted it again, with what it lacked."""
    life, now, heard = begun(tmp_path, ReplacedError.exit_code)
    pauses_s(life, now, 5)
    asyncio.run(life.session._beat())
    again: list[ClusterEntry] = [*LOG, SubmitJob("job", "r2", 1, "another", (TaskSpec("nodes", 1, 1),))]
    life.log = again
    life.read()
    assert life.machine.replica.places()[UNIT].generation == 2
    assert pauses_s_of_next(life, now) <= 2
    now.at_ms += 2_000
    asyncio.run(life.session._beat())
    assert [one.troubles for one in heard.said][1:] == [()], (
        "what was told of the other says nothing any more"
    )
    until(lambda: life.sees(7), "it has ended")
    life.disk.close()


def pauses_s_of_next(life: Life, now: Now) -> int:
    seen_ms = now.at_ms
    while life.processes.is_free(UNIT):
        life.work()
        now.at_ms += 1_000 if life.processes.is_free(UNIT) else 0
    return (now.at_ms - seen_ms) // 1_000


def end(code: int, lived_s: float = 0.5) -> EndedProcess:
    return EndedProcess(UNIT, 1, code, "so it is", lived_s, Path())


def test_what_runs_for_long_again_is_told_no_more() -> None:
    restarts, placed = Restarts(Backoff(2_000, 30_000), 60.0), {UNIT: Place("a", 1)}
    for times in range(3):
        assert restarts.told(placed, ()) == (), f"after {times}"
        restarts.ended(end(12), 0)
    [said] = restarts.told(placed, ())
    assert said.endswith("after 8 s: ended with code 12: so it is")
    assert restarts.told(placed, {UNIT}) == ()
    assert restarts.told({}, ()) == ()
    assert restarts.told({UNIT: Place("a", 2)}, ()) == ()
    assert restarts.ended(end(12, 61.0), 0) == 2_000
    assert restarts.told(placed, ()) == ()


def test_a_failure_in_between_is_reported_and_so_begins_anew() -> None:
    restarts, now_ms = Restarts(Backoff(2_000, 30_000), 60.0), SystemClock().monotonic_ms()
    assert [restarts.ended(end(code), now_ms) for code in (3, 12, 1, 0, 3)] == [
        2_000,
        4_000,
        2_000,
        2_000,
        4_000,
    ]


def test_a_coordinator_that_finds_no_kafka_is_told_as_well() -> None:
    restarts = Restarts(Backoff(2_000, 30_000), 60.0)
    for code in (3, 3, 3):
        restarts.ended(replace(end(code), unit=COORDINATOR), 0)
    [said] = restarts.told({COORDINATOR: Place("a", 1)}, ())
    assert said.startswith("coordinator was started 3 times in vain")
    restarts.ended(replace(end(2), unit=COORDINATOR), 0)
    assert restarts.told({COORDINATOR: Place("a", 1)}, ()) == (), "that is reported"

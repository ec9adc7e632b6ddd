"""The cluster under a seeded scheduler: a few schedules in every test run; `python -m
tests.simulation.cluster` does many more."""

from __future__ import annotations

from collections import Counter
from random import SystemRandom

import pytest

from tests.simulation.cluster.__main__ import Ran, Tally, main
from tests.simulation.cluster.faults import FAULTS
from tests.simulation.cluster.schedule import ClusterSchedule

_SCHEDULES = 12
_COMMAND = "python -m tests.simulation.cluster"


def test_invariants_hold_in_a_fresh_sample() -> None:
    first = SystemRandom().randrange(10**9)
    print(f"{_COMMAND} --schedules {_SCHEDULES} --seed {first}")  # noqa: T201
    done: Counter[str] = Counter()
    for seed in range(first, first + _SCHEDULES):
        schedule = ClusterSchedule(seed)
        try:
            schedule.run()
        except AssertionError as error:
            pytest.fail(f"{error}\nreproduce with: {_COMMAND} --schedules 1 --seed {seed}")
        done += schedule.done
    assert len(done) > len(FAULTS) // 2, sorted(done)


def test_a_seed_is_a_schedule() -> None:
    first, second = ClusterSchedule(7), ClusterSchedule(7)
    for schedule in (first, second):
        schedule.run()
    assert first.world.log == second.world.log
    assert first.world.counts == second.world.counts


def test_it_is_said_where_to_go_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--schedules", "2", "--from-seed", "7", "--processes", "1", "--quiet"]) == 0
    assert "every invariant held up to seed 8: go on with --from-seed 9" in capsys.readouterr().out


def test_what_was_done_ahead_of_smaller_seeds_is_done_once_those_are() -> None:
    tally = Tally(range(1, 151))
    tally.add(Ran(range(51, 101)))
    assert "go on with --from-seed 1" in tally.text()
    tally.add(Ran(range(1, 51)))
    assert "100 of 150 schedules" in tally.text()
    assert "go on with --from-seed 101" in tally.text()


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("likely", ["", "host_half_cut_off,brokers_away", "agent_frozen,entry_arrives_twice"])
def test_invariants_hold_in_many_schedules(likely: str) -> None:
    seed = SystemRandom().randrange(10**9)
    assert main(["--schedules", "4000", "--seed", str(seed), "--likely", likely]) == 0

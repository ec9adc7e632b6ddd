"""The core under a seeded scheduler: a sample of schedules in every test run; `python -m
tests.simulation` does many more."""

from __future__ import annotations

from collections import Counter
from random import SystemRandom

import pytest

from tests.simulation.__main__ import main
from tests.simulation.coverage import all_transitions, counted
from tests.simulation.schedule import run_schedule, with_denials, with_epochs, with_replicas, with_stages

_COMMAND = "python -m tests.simulation --progress-every 1"
_UNREACHED = {
    "coordinator: ready, transaction timeout changed",
    "coordinator: fencing, fenced",
    "coordinator: reading, fenced",
    "coordinator: fencing, fenced again",
    "coordinator: reading, fenced again",
}
"""What the simulated broker and user never do; tests/unit/core does."""
_SAMPLES = [(1_000, 0.6, 0), pytest.param(2_500, 0.7, 4, marks=pytest.mark.heavy)]
"""So many schedules, so many of the rows of both tables in them, and some of these rows more often than so."""


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("schedules", "share", "often"), _SAMPLES)
def test_invariants_hold_in_a_fresh_sample(schedules: int, share: float, often: int) -> None:
    seed = SystemRandom().randrange(10**9)
    print(f"{_COMMAND} --schedules {schedules} --seed {seed}")  # noqa: T201
    faults: Counter[str] = Counter()
    transitions: Counter[str] = Counter()
    with counted(transitions):
        for one in range(seed, seed + schedules):
            try:
                run_schedule(
                    one,
                    faults,
                    denials=with_denials(one),
                    replicas=with_replicas(one),
                    epochs=with_epochs(one),
                    stages=with_stages(one),
                )
            except AssertionError as error:
                pytest.fail(f"{error}\nreproduce with: {_COMMAND} --schedules 1 --seed {one}")
    rows = all_transitions()
    reached = [name for name in rows if transitions[name]]
    assert not _UNREACHED & set(reached)
    assert len(reached) > share * len(rows), sorted(set(rows) - set(reached))
    assert min(count for count in faults.values()) > 0
    assert transitions["node: idle, log ahead"] > often
    assert transitions["node: awaiting, stage written by all"] > often
    assert transitions["node: receiving, told to open"] > often
    assert transitions["coordinator: committing, broker fault"] > often
    assert transitions["coordinator: attempting, newer claim"] > often


@pytest.mark.parametrize("seed", [14_010, 5_071_207, 9_013_415, 20_938_962, 31_838_607, 82_154_431])
def test_what_was_found_once_holds(seed: int) -> None:
    """An old end of the log that opens no node; a newer claim while an earlier tenure's answer was awaited; a
    claim that was forgotten before its author had read it; a request for a checkpoint that an old end of the
    log answered; another end that opens no node, and stays old for longer than it was read again; a node that
    was rolled back from a step that its coordinator had not read."""
    run_schedule(seed, Counter(), denials=with_denials(seed), replicas=with_replicas(seed))


@pytest.mark.parametrize("seed", range(20))
def test_a_seed_is_a_schedule(seed: int) -> None:
    """The same seed gives the same world, in whatever order schedules are run."""
    first = run_schedule(seed, Counter())
    run_schedule(seed + 1, Counter())
    again = run_schedule(seed, Counter())
    assert first.world.control == again.world.control
    assert first.world.steps == again.world.steps


def test_command_line_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--schedules", "20", "--seed", "5", "--processes", "1"]) == 0
    out = capsys.readouterr().out
    assert "20 schedules from seed 5" in out
    assert "coordinator: committing, committed" in out

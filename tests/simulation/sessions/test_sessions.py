"""The real sessions under a seeded loop: a sample in every test run; `python -m
tests.simulation --sessions` does many more."""

from __future__ import annotations

from collections import Counter
from random import SystemRandom

import pytest

from kcontrol.core.model import ControlRecord, Logged, Tombstone
from tests.simulation.__main__ import main
from tests.simulation.coverage import all_transitions, counted
from tests.simulation.schedule import with_epochs, with_stages
from tests.simulation.sessions.schedule import SessionsSchedule, run_sessions

_SCHEDULES = 13
_COMMAND = "python -m tests.simulation --sessions --schedules 1"


def test_invariants_hold_in_a_fresh_sample() -> None:
    """And in a known one, by which it is judged whether enough happens at all: of so few, chance could decide."""
    seed = SystemRandom().randrange(10**9)
    print(f"{_COMMAND} --seed {seed}, and the next ones")  # noqa: T201
    faults: Counter[str] = Counter()
    transitions: Counter[str] = Counter()
    with counted(transitions):
        for one in (*range(1, _SCHEDULES + 1), *range(seed, seed + _SCHEDULES)):
            try:
                run_sessions(one, faults, epochs=with_epochs(one), stages=with_stages(one))
            except AssertionError as error:
                pytest.fail(f"{error}\nreproduce with: {_COMMAND} --seed {one}")
    rows = all_transitions()
    assert sum(transitions[name] > 0 for name in rows) > 0.3 * len(rows)
    assert faults["append: answer lost"] + faults["fetch: answer lost"] > 0
    assert faults["coordinator killed"] > 0


def test_a_saved_checkpoint_that_waits_for_a_node_to_open_keeps_nobody_busy() -> None:
    """A schedule in which it waited for longer than a node may take to save: from then on the coordinator did nothing else
    but look whether that time was over."""
    run_sessions(307984014, Counter(), epochs=with_epochs(307984014), stages=with_stages(307984014))


def _what_happened(schedule: SessionsSchedule) -> tuple[object, ...]:
    """All but what a machine calls itself."""
    return schedule.fleet.trace, [_of(logged) for logged in schedule.world.control], schedule.world.steps


def _of(logged: Logged | None) -> tuple[int, ControlRecord | Tombstone] | None:
    return None if logged is None else (logged.timestamp_ms, logged.record)


@pytest.mark.parametrize("seed", range(4))
def test_a_seed_is_a_schedule(seed: int) -> None:
    """The same seed gives the same events in the same order, whatever was run before."""
    first = _what_happened(run_sessions(seed, Counter()))
    run_sessions(seed + 1, Counter(), to_progress=False)
    assert _what_happened(run_sessions(seed, Counter())) == first


def test_command_line_says_what_it_did(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sessions", "--schedules", "2", "--seed", "5", "--processes", "1"]) == 0
    out = capsys.readouterr().out
    assert "2 schedules from seed 5" in out
    assert "coordinator: committing, committed" in out

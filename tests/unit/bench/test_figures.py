"""Figures of the bench: slow steps count in full, ratios say how many times as fast, phases add up to the step."""

from __future__ import annotations

import pytest

from bench.figures import MeasuredStep, Run, Spread, step_times, throughput
from bench.phases import phases
from bench.plan import alternating


def run(side: str, *periods_ms: float) -> Run:
    return Run(side, "passthrough", 1_000, tuple(MeasuredStep(1_000, period_ms, period_ms) for period_ms in periods_ms))


def test_throughput_counts_slow_steps_in_full() -> None:
    assert run("spark", 100, 100, 800).records_per_s == 3_000


def test_more_than_one_is_better_for_throughput_and_for_times() -> None:
    runs = [run("spark", 200, 200), run("kcontrol", 100, 100)]
    [fast], [short] = throughput(runs), step_times(runs)
    assert (fast.ratio, short.ratio) == (2.0, 2.0)
    assert fast.kcontrol == Spread(10_000, 10_000, 10_000, 1)
    assert short.spark == Spread(200, 200, 200, 2)


def test_one_side_alone_has_no_ratio() -> None:
    [alone] = throughput([run("spark", 100)])
    assert alone.kcontrol is None
    assert alone.ratio is None


def test_sides_take_turns_in_being_first() -> None:
    assert list(alternating(("a", "b"), 3)) == ["a", "b", "b", "a", "a", "b"]


def test_phases_lie_between_two_commits() -> None:
    token = {"attempt": 1}
    steps = [{"step": step, "committed_ms": step * 100, "token": token} for step in (1, 2)]
    log = [
        {"record": "NodeState", "step": 1, "timestamp_ms": 120},
        {"record": "Command", "work": {"step": 2, "token": token}, "timestamp_ms": 130},
        {"record": "Command", "work": None, "timestamp_ms": 131},
        {"record": "Written", "step": 2, "token": {"attempt": 0}, "timestamp_ms": 140},
        {"record": "Written", "step": 2, "token": token, "timestamp_ms": 190},
        {"record": "NodeState", "step": 1, "timestamp_ms": 150},
    ]
    [found] = phases(log, steps)
    assert (found.record_ms, found.open_ms, found.work_ms, found.commit_ms) == (20, 10, 60, 10)
    assert found.control_share == pytest.approx(0.2)


def test_a_step_whose_messages_were_compacted_away_has_no_phases() -> None:
    steps = [{"step": step, "committed_ms": step * 100, "token": {}} for step in (1, 2)]
    assert phases([], steps) == []

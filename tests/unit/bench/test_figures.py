"""Figures of the bench: slow steps count in full, ratios say how many times as fast, phases add up to the
step."""

from __future__ import annotations

import pytest

from bench.figures import MeasuredStep, Run, Spread, step_times, throughput
from bench.phases import phases
from bench.plan import alternating


def run(side: str, *periods_ms: float) -> Run:
    return Run(
        side,
        "passthrough",
        1_000,
        tuple(MeasuredStep(1_000, period_ms, period_ms) for period_ms in periods_ms),
    )


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


def step(
    number: int,
    committed_ms: int,
    work: list[tuple[int, int]],
    ends: list[tuple[int, int]],
    held: tuple[int, ...] = (0, 0),
) -> dict[str, object]:
    """work: begun and written by node. ends: seen and recorded by node, of the step before. held: by node."""
    return {
        "step": number,
        "committed_ms": committed_ms,
        "work": [
            {"begun_ms": begun, "written_ms": written, "held_ms": held_ms}
            for (begun, written), held_ms in zip(work, held, strict=False)
        ],
        "before": {"nodes": [{"seen_ms": seen, "recorded_ms": recorded} for seen, recorded in ends]}
        if ends
        else None,
    }


def test_phases_lie_between_two_boundaries() -> None:
    [found] = phases([step(1, 100, [(10, 90)], []), step(2, 200, [(130, 190)], [(105, 120)])])
    assert (found.record_ms, found.open_ms, found.work_ms, found.commit_ms) == (15, 10, 60, 15)
    assert (found.control_ms, found.control_share) == (25, pytest.approx(0.25))


def test_what_is_done_while_the_step_before_is_committed_is_not_waited_for() -> None:
    later = step(2, 200, [(104, 190), (103, 170)], [(108, 120), (109, 115)], held=(3, 1))
    [found] = phases([step(1, 100, [(10, 97), (11, 98)], []), later])
    assert (found.record_ms, found.open_ms, found.work_ms, found.commit_ms) == (0, 9, 83, 0)
    assert found.control_ms == 9


def test_a_phase_ends_with_the_last_of_several_nodes() -> None:
    steps = [step(1, 100, [], []), step(2, 200, [(130, 140), (132, 190)], [(104, 125), (107, 110)])]
    [found] = phases(steps)
    assert (found.record_ms, found.open_ms, found.work_ms, found.commit_ms) == (18, 7, 58, 17)


@pytest.mark.parametrize(
    ("work", "ends"), [([(130, 190)], []), ([(130, 190)], [(0, 0)]), ([], [(105, 120)]), ([(0, 0)], [(1, 2)])]
)
def test_a_step_of_which_not_all_is_known_has_no_phases(
    work: list[tuple[int, int]], ends: list[tuple[int, int]]
) -> None:
    assert phases([step(1, 100, [], []), step(2, 200, work, ends)]) == []

"""Figures of nodes and of checkpoints: what is compared with what, and which steps are left out."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.checkpoints import Window, saving_cost
from bench.figures import MeasuredStep, Run, Tail
from bench.nodes import ScaleRun, scaled
from bench.phases import Phases
from bench.plan import Measurement, Scale
from bench.startup import checkpoint as made_up
from kcontrol.core.model import Checkpoint


def scale_run(nodes: int, step_records: int, *periods_ms: float) -> ScaleRun:
    run = Run(
        "kcontrol",
        "passthrough",
        step_records,
        tuple(MeasuredStep(step_records, ms, ms) for ms in periods_ms),
    )
    return ScaleRun(Scale(nodes, 4), run, (Phases(1, 10, 5, 70, 15),))


def test_scales_are_compared_with_the_first_one_of_the_same_step_size() -> None:
    runs = [scale_run(1, 10, 100), scale_run(1, 1_000, 500), scale_run(2, 10, 150), scale_run(2, 1_000, 600)]
    found = scaled([*runs, scale_run(1, 10, 200)])
    assert [(each.scale.nodes, each.step_records) for each in found] == [
        (1, 10),
        (1, 1_000),
        (2, 10),
        (2, 1_000),
    ]
    assert [each.step_ms.median for each in found] == [150, 500, 150, 600]
    assert [each.times_as_long for each in found] == [1, 1, 1, 1.2]
    assert [each.records_per_s for each in found] == [
        75,
        2_000,
        pytest.approx(200 / 3),
        pytest.approx(5_000 / 3),
    ]
    assert {(each.control_ms, each.control_share) for each in found} == {(20, 0.2)}


def test_the_99th_percentile_is_by_nearest_rank() -> None:
    assert Tail.of(range(1, 201)) == Tail(100.5, 198, 200, 200)
    assert Tail.of([3, 1, 2]) == Tail(2, 3, 3, 3)


def step(number: int, committed_ms: int) -> dict[str, Any]:
    read = [{"records": 10}]
    return {"step": number, "opened_ms": 0, "committed_ms": committed_ms, "inputs": read, "outputs": read}


def test_a_step_that_a_checkpoint_of_an_earlier_window_reaches_into_is_left_out() -> None:
    times_ms = [1_000, 1_100, 1_400, 1_500, 1_600, 1_800, 2_000, 2_200]
    steps = [step(number, ms) for number, ms in enumerate(times_ms, 1)]
    checkpoints = [saved(1, 1_050, 1_150), saved(5, 1_700, 1_900)]
    found = saving_cost(
        Measurement("aggregate", 10, 0, 3), steps, [Window(False, 2, 5), Window(True, 5, 8)], checkpoints
    )
    assert (found.without, found.with_) == (Tail(100, 100, 100, 2), Tail(200, 200, 200, 3))
    assert (found.times_as_long, found.p99_times_as_long) == (2, 2)
    assert (found.checkpoints, found.size_bytes.median, found.took_ms.median) == (1, 1_000, 200)


def test_a_step_of_another_size_has_no_figure() -> None:
    steps = [step(number, number) for number in range(1, 4)]
    with pytest.raises(RuntimeError, match="read 10"):
        saving_cost(Measurement("aggregate", 11, 0, 1), steps, [Window(True, 1, 3)], [])


def saved(at_step: int, begun_ms: int, now_ms: int) -> Checkpoint:
    return replace(made_up(at_step, 0, 0), begun_ms=begun_ms, now_ms=now_ms)

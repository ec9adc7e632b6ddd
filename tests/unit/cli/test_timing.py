"""`kcontrol steps --timing`: each step is printed once the next one says how it ended, the newest at the
end."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from kcontrol.cli.read import printer_of
from kcontrol.core.model import EndTimes, LoggedStep, StepEnd, WorkTimes
from tests.unit.core.made import boundary


def step(number: int) -> LoggedStep:
    at_ms = 1_000 * number
    before = (
        StepEnd(at_ms - 900 + 80, (EndTimes(at_ms - 900 + 85, at_ms - 900 + 105),)) if number > 1 else None
    )
    made = replace(
        boundary(number),
        received_ms=at_ms,
        now_ms=at_ms + 2,
        opened_ms=at_ms + 6,
        work=(WorkTimes(at_ms + 9, at_ms + 20, at_ms + 70, at_ms + 71),),
        committed_ms=at_ms + 74,
        before=before,
    )
    return LoggedStep(number, made)


def shown(capsys: pytest.CaptureFixture[str]) -> list[list[str]]:
    return [line.split() for line in capsys.readouterr().out.splitlines()]


def test_a_line_a_step_and_a_column_a_mark(capsys: pytest.CaptureFixture[str]) -> None:
    printer = printer_of(1, None, as_json=False, timing=True)
    assert printer.take([step(1), step(2)])
    header, first = shown(capsys)
    assert dict(zip(header, first, strict=True)) == {
        **{
            "step": "1",
            "records": "2",
            "decided": "2",
            "opened": "4",
            "begun": "3",
            "planned": "11",
            "ran": "50",
        },
        **{"written": "1", "asked": "3", "answered": "106", "seen": "5", "recorded": "20", "ms": "205"},
    }
    printer.end()
    [second] = shown(capsys)
    assert second == ["2", "2", "2", "4", "3", "11", "50", "1", "3", "-", "-", "-", "74"]


def test_only_the_steps_that_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    printer = printer_of(2, 3, as_json=True, timing=True)
    assert printer.take([step(number) for number in (1, 2, 3)])
    assert not printer.take([step(4), step(5)])
    printer.end()
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["step"] for each in found] == [2, 3]
    assert found[1]["marks_ms"]["recorded"] == 4_000 - 900 + 105
    assert found[1]["phases_ms"]["ran"] == 50
    assert found[1]["work"] == [
        {"begun_ms": 3_009, "planned_ms": 3_020, "ran_ms": 3_070, "written_ms": 3_071, "held_ms": 0}
    ]
    assert found[1]["end"]["nodes"] == [{"seen_ms": 3_185, "recorded_ms": 3_205}]


def test_a_step_that_is_asked_for_and_is_the_newest_is_printed_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printer = printer_of(1, 1, as_json=True, timing=True)
    assert printer.take([step(1)])
    printer.end()
    assert json.loads(capsys.readouterr().out)["end"] is None


def test_without_timing_a_step_is_printed_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    printer = printer_of(1, 2, as_json=True, timing=False)
    assert printer.take([step(1)])
    assert not printer.take([step(2), step(3)])
    printer.end()
    assert [json.loads(line)["step"] for line in capsys.readouterr().out.splitlines()] == [1, 2]

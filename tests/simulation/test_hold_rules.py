"""Pipelines that are held again and again, with every other fault; and the rules of it, switched off: the simulator must then
find what the rule is there for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from unittest.mock import patch

import pytest

from kcontrol.core.coordinator import attempt, between_steps, holding, waiting
from kcontrol.core.coordinator import decide as coordinator
from kcontrol.core.coordinator.parts.holding import Holding
from kcontrol.core.coordinator.turn import Turn
from kcontrol.core.model import Hold, InputRange, ReadLimit
from kcontrol.core.step import due as stepping
from kcontrol.core.step import limits
from tests.simulation.breaking import Patches, Rule, check_breaks
from tests.simulation.faults import engine_failed
from tests.simulation.hold_faults import HOLD_FAULTS
from tests.simulation.holds import BEYOND, STANDS, STILL
from tests.simulation.invariants import PROGRESS
from tests.simulation.schedule import run_schedule

_SCHEDULES = 60


def test_no_schedule_with_holds_breaks_an_invariant() -> None:
    counts: Counter[str] = Counter()
    held = noted = 0
    for seed in range(_SCHEDULES):
        how = {
            "stages": 1 + seed % 3,
            "saving": seed % 2 == 0,
            "replicas": seed % 4 == 0,
            "epochs": seed % 5 == 0,
        }
        try:
            world = run_schedule(seed, counts, likely=HOLD_FAULTS, **how).world
        except Exception as error:
            error.add_note(f"seed {seed}, {how}, with holds")
            raise
        held, noted = held + len(world.holds.held), noted + len(world.holds.noted)
    assert counts["pipeline held"] > _SCHEDULES // 2, counts
    assert noted > held > _SCHEDULES // 10, (held, noted)


def _limits_are_not_kept() -> Patches:
    return (patch.object(holding, "within", lambda ranges, limits: tuple(ranges)),)


def _partitions_that_are_not_named_are_read() -> Patches:
    def within(ranges: Sequence[InputRange], limits_: tuple[ReadLimit, ...]) -> tuple[InputRange, ...]:
        named = {(one.topic, one.partition) for one in limits_}
        kept = limits.within(ranges, limits_)
        return tuple(
            new if (old.topic, old.partition) in named else old for old, new in zip(ranges, kept, strict=True)
        )

    return (patch.object(holding, "within", within),)


def _a_failed_plan_is_kept_though_the_pipeline_is_held() -> Patches:
    return patch.object(attempt, "limits_of", lambda state: None), patch.object(
        waiting, "limits_of", lambda state: None
    )


def _a_hold_is_noted_in_the_middle_of_a_step() -> Patches:
    right = coordinator.report

    def report(turn: Turn) -> None:
        holding.tend(turn)
        right(turn)

    return (patch.object(coordinator, "report", report),)


def _a_hold_is_never_given_up() -> Patches:
    right = Holding.noting

    def noting(self: Holding, offset: int, hold: Hold, until_ms: int) -> Holding:
        return right(self, offset, hold, until_ms + 3_600_000)

    return (patch.object(Holding, "noting", noting),)


def _who_is_held_reads_on() -> Patches:
    return (patch.object(holding, "nothing_of", lambda ranges: tuple(ranges)),)


def _who_is_on_the_way_is_held() -> Patches:
    return (patch.object(holding, "has_come", lambda spec, steps, limits: True),)


def _who_owes_a_step_is_held() -> Patches:
    right = between_steps.due

    def due(*about: object, **facts: object) -> stepping.Due:
        return stepping.Due(None) if facts["settles"] else right(*about, **facts)  # type: ignore[arg-type]

    return (patch.object(between_steps, "due", due),)


RULES = [
    Rule(_limits_are_not_kept, BEYOND, 34, likely=HOLD_FAULTS),
    Rule(_partitions_that_are_not_named_are_read, BEYOND, 65, likely=HOLD_FAULTS),
    Rule(
        _a_failed_plan_is_kept_though_the_pipeline_is_held, BEYOND, 55, likely=(*HOLD_FAULTS, engine_failed)
    ),
    Rule(_a_hold_is_noted_in_the_middle_of_a_step, BEYOND, 38, likely=HOLD_FAULTS),
    Rule(_a_hold_is_never_given_up, PROGRESS, 21, likely=HOLD_FAULTS),
    Rule(_who_is_held_reads_on, STILL, 69, likely=HOLD_FAULTS),
    Rule(_who_is_on_the_way_is_held, STANDS, 9, likely=HOLD_FAULTS),
    Rule(_who_owes_a_step_is_held, STANDS, 220, likely=HOLD_FAULTS),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_without_the_rule_the_simulator_finds_what_it_is_there_for(rule: Rule) -> None:
    check_breaks(rule)

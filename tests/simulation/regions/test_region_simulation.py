"""Regions under a seeded scheduler: a few schedules in every test run; `python -m tests.simulation.regions` does many
more."""

from __future__ import annotations

from collections import Counter
from random import SystemRandom

import pytest

from kcontrol.core.regions.table import REGION_TABLE
from tests.simulation.regions.__main__ import main
from tests.simulation.regions.definitions import DefinitionSchedule
from tests.simulation.regions.schedule import RegionSchedule
from tests.simulation.regions.waves import DrainSchedule

_COMMAND = "python -m tests.simulation.regions"


@pytest.mark.parametrize("kind", [RegionSchedule, DrainSchedule])
def test_invariants_hold_in_a_fresh_sample(kind: type[RegionSchedule | DrainSchedule]) -> None:
    first = SystemRandom().randrange(10**9)
    counts: Counter[str] = Counter()
    for seed in range(first, first + 30):
        schedule = kind(seed)
        try:
            schedule.run()
        except AssertionError as error:
            pytest.fail(f"{error}\nreproduce with: {_COMMAND} --schedules 1 --seed {seed}")
        counts += schedule.counts
    assert counts["cuts"] > 0
    assert counts["takeovers"] > 0


def test_whoever_defines_a_region_is_told_which_definition_stands() -> None:
    for seed in range(300):
        try:
            DefinitionSchedule(seed).run()
        except BaseException as error:
            error.add_note(f"seed {seed} of definitions of regions")
            raise


def test_a_seed_is_a_schedule() -> None:
    for kind in (RegionSchedule, DrainSchedule):
        first, second = kind(7), kind(7)
        for schedule in (first, second):
            schedule.run()
        assert first.counts == second.counts


def test_every_arrow_of_the_table_is_gone() -> None:
    gone: Counter[object] = Counter()
    arrows = {(before, after) for (before, _), after in REGION_TABLE.items() if before is not after}
    for seed in range(1_000):
        schedule = RegionSchedule(seed)
        schedule.run()
        gone += schedule.rows
        if arrows <= set(gone):
            return
    pytest.fail(f"never went {arrows - set(gone)}")


def test_who_was_never_known_has_nothing_to_be_reset() -> None:
    """A member died before the region had heard of it: its second life is the first that it knows."""
    RegionSchedule(77_001_364).run()


@pytest.mark.heavy
@pytest.mark.timeout(3_600)
def test_invariants_hold_in_many_schedules() -> None:
    seed = SystemRandom().randrange(10**9)
    assert main(["--schedules", "20000", "--seed", str(seed)]) == 0

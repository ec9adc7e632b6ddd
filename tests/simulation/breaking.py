"""Switches a rule of the core off and looks whether the simulator finds what the rule is there for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from typing import Any

import pytest

from tests.simulation.invariants import Violation
from tests.simulation.schedule import prepare_moments, run_schedule

SCHEDULES = 4_000
Patches = tuple[AbstractContextManager[Any], ...]


def rule_name(one: object) -> str:
    """Of a test with a rule switched off; '' for its other parameters."""
    return getattr(one, "__name__", "").strip("_")


def check_breaks(broken: Callable[[], Patches], invariant: str, begin: int) -> None:
    """Fail unless one of so many schedules, from a seed on, breaks the invariant."""
    prepare_moments()
    found = set()
    with ExitStack() as stack:
        for one in broken():
            stack.enter_context(one)
        for seed in range(begin, begin + SCHEDULES):
            try:
                run_schedule(seed, Counter())
            except Violation as violation:
                if violation.name == invariant:
                    return
                found.add(violation.name)
    pytest.fail(f"{SCHEDULES} schedules did not find '{invariant}', only {found or 'nothing'}")

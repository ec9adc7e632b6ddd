"""Switches a rule of the core off and looks whether the simulator finds what the rule is there for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from tests.simulation.faults import Fault
from tests.simulation.invariants import Violation
from tests.simulation.schedule import moments_of_its_own, prepared_moments, run_schedule

SCHEDULES = 4_000
Patches = tuple[AbstractContextManager[Any], ...]


@dataclass(frozen=True)
class Rule:
    """A rule by what switches it off, the invariant that then breaks, and how to get
    there: most schedules find nothing.

    begin: the seed to begin with. likely: faults without which nothing can be found;
    they are part of every schedule.
    replicas: leaders move in every schedule. patient: every policy waits for several records. epochs: every commit
    tells the epoch of the next transaction. stages: of every step, where there are several nodes.
    wide: inputs that three nodes may share.
    saving: two nodes with state that is saved often, from moments that the broken core has made.
    """

    broken: Callable[[], Patches]
    invariant: str
    begin: int = 0
    likely: tuple[Fault, ...] = ()
    replicas: bool = False
    patient: bool = False
    epochs: bool = False
    stages: int = 1
    saving: bool = False
    wide: bool = False

    def __str__(self) -> str:
        return self.broken.__name__.strip("_")


def check_breaks(rule: Rule) -> None:
    """Fail unless one of so many schedules breaks the rule's invariant while it is switched off."""
    found = set()
    with ExitStack() as stack:
        stack.enter_context(
            moments_of_its_own() if rule.saving else prepared_moments(rule.patient, rule.stages, rule.wide)
        )
        for one in rule.broken():
            stack.enter_context(one)
        for seed in range(rule.begin, rule.begin + SCHEDULES):
            try:
                run_schedule(
                    seed,
                    Counter(),
                    likely=rule.likely,
                    replicas=rule.replicas,
                    patient=rule.patient,
                    epochs=rule.epochs,
                    stages=rule.stages,
                    saving=rule.saving,
                    wide=rule.wide,
                )
            except Violation as violation:
                if violation.name == rule.invariant:
                    return
                found.add(violation.name)
    pytest.fail(f"{SCHEDULES} schedules did not find '{rule.invariant}', only {found or 'nothing'}")

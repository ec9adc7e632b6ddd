"""Switches a rule of the core off and looks whether the simulator finds what the rule is there for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest

from tests.simulation.faults import Fault
from tests.simulation.invariants import Violation
from tests.simulation.moments import Moment
from tests.simulation.schedule import MOMENTS, beginning, run_schedule

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
    found: set[str] = set()
    seeds = range(rule.begin, rule.begin + SCHEDULES)
    for some in [seeds] if rule.saving else _more_and_more(seeds):
        with ExitStack() as stack:
            stack.enter_context(MOMENTS.of_its_own() if rule.saving else MOMENTS.prepared(_begun(rule, some)))
            for one in rule.broken():
                stack.enter_context(one)
            if _is_found(rule, some, found):
                return
    pytest.fail(f"{SCHEDULES} schedules did not find '{rule.invariant}', only {found or 'nothing'}")


def _more_and_more(seeds: range) -> Iterator[range]:
    """All, in parts: the first ones find it, mostly."""
    size = 1
    while seeds:
        yield seeds[:size]
        seeds, size = seeds[size:], 2 * size


def _begun(rule: Rule, seeds: range) -> Iterator[Moment]:
    """Where their schedules begin."""
    for seed in seeds:
        yield beginning(seed, Random(seed), rule.patient, rule.stages, rule.saving, rule.wide)


def _is_found(rule: Rule, seeds: range, found: set[str]) -> bool:
    """Whether one of their schedules breaks the rule's invariant; others that break are noted."""
    for seed in seeds:
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
                print(f"seed {seed}")  # noqa: T201
                return True
            found.add(violation.name)
    return False

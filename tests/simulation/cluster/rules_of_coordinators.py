"""The rules by which coordinators leave hosts where they can't run, each as it is switched off."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from kcontrol.core.cluster import agent, change, coordinators
from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.change import Change
from kcontrol.core.cluster.entries import ClusterEntry
from kcontrol.core.cluster.model import ANOTHER_LIFE_LEVEL, COORDINATOR, COORDINATOR_LEVEL, Replica, Unit
from kcontrol.core.cluster.schedule import keepers
from tests.simulation.breaking import Patches
from tests.simulation.cluster import faults
from tests.simulation.cluster import invariants as inv
from tests.simulation.cluster.rule import ClusterRule


def _coordinators_stay_where_they_can_not_run() -> Patches:
    def chosen(replica: Replica, *more: Any) -> Any:
        return right(replica.but(unable={}), *more)

    right = keepers.chosen
    return tuple(
        patch(f"kcontrol.core.cluster.schedule.{name}.chosen", chosen) for name in ("schedule", "settle")
    )


def _nobody_says_that_none_runs_here() -> Patches:
    def unit_failed(self: AgentMachine, unit: Unit, *more: Any) -> None:
        if unit != COORDINATOR:
            right(self, unit, *more)

    right = AgentMachine.unit_failed
    return (patch.object(AgentMachine, "unit_failed", unit_failed),)


def _it_is_said_again_and_again() -> Patches:
    return (patch.object(agent, "is_able", lambda replica, name: True),)


def _what_was_lacking_once_is_never_there() -> Patches:
    return (patch.object(Change, "_is_able_again", lambda self, name: None),)


def _coordinators_are_moved_at_any_level() -> Patches:
    """By all whose code knows how."""

    def apply(replica: Replica, offset: int, entry: ClusterEntry, code_level: int) -> tuple[Replica, str]:
        least = 1 if code_level >= COORDINATOR_LEVEL else COORDINATOR_LEVEL
        with patch.object(coordinators, "COORDINATOR_LEVEL", least):
            return right(replica, offset, entry, code_level)

    right = agent.apply
    return (patch.object(agent, "apply", apply), patch.object(agent, "COORDINATOR_LEVEL", 1))


def _where_nodes_could_not_run_is_never_forgotten() -> Patches:
    return (patch.object(Change, "_may_run_all_again", lambda self, name: None),)


def _where_nodes_could_not_run_is_forgotten_at_any_level() -> Patches:
    """By all whose code knows how."""

    def apply(replica: Replica, offset: int, entry: ClusterEntry, code_level: int) -> tuple[Replica, str]:
        least = 1 if code_level >= ANOTHER_LIFE_LEVEL else ANOTHER_LIFE_LEVEL
        with patch.object(change, "ANOTHER_LIFE_LEVEL", least):
            return right(replica, offset, entry, code_level)

    right = agent.apply
    return (patch.object(agent, "apply", apply),)


WHERE_NONE_RUNS = (faults.coordinator_can_not_run, faults.host_added)
RULES_OF_COORDINATORS = (
    ClusterRule(
        _coordinators_stay_where_they_can_not_run,
        (inv.COORDINATORS_WHERE_THEY_RUN,),
        WHERE_NONE_RUNS,
        keeps=True,
    ),
    ClusterRule(_nobody_says_that_none_runs_here, (inv.COMES_TO_REST,), WHERE_NONE_RUNS, keeps=True),
    ClusterRule(_it_is_said_again_and_again, (inv.NOT_IN_VAIN, inv.QUIET), WHERE_NONE_RUNS, keeps=True),
    ClusterRule(
        _what_was_lacking_once_is_never_there,
        (inv.ANOTHER_LIFE,),
        (*WHERE_NONE_RUNS, faults.agent_restarted_at_once),
        keeps=True,
    ),
    ClusterRule(
        _coordinators_are_moved_at_any_level,
        (inv.SAME_VALUE, inv.DIGESTS_AGREE),
        WHERE_NONE_RUNS,
        two_codes=True,
        keeps=True,
    ),
    ClusterRule(
        _where_nodes_could_not_run_is_never_forgotten,
        (inv.ANOTHER_LIFE,),
        (faults.host_can_not_run_a_job, faults.host_added, faults.agent_restarted_at_once),
        tries=True,
    ),
    ClusterRule(
        _where_nodes_could_not_run_is_forgotten_at_any_level,
        (inv.SAME_VALUE, inv.DIGESTS_AGREE),
        (faults.host_can_not_run_a_job, faults.host_added, faults.agent_restarted_at_once),
        two_codes=True,
        tries=True,
    ),
)

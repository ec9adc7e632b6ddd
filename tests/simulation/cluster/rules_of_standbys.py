"""The rules of standbys, each as it is switched off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from kcontrol.core.cluster import agent, failures, standbys
from kcontrol.core.cluster.change import Change
from kcontrol.core.cluster.entries import ClusterEntry, TaskFailed
from kcontrol.core.cluster.jobs import finish
from kcontrol.core.cluster.model import LEFT_ROOM_LEVEL, ClusterJob, JobState, Place, Replica, Unit
from kcontrol.core.cluster.schedule import placing
from kcontrol.core.cluster.schedule.placing import Placing
from kcontrol.core.cluster.work import RunningUnit, Work
from tests.simulation.breaking import Patches
from tests.simulation.cluster import faults, standing
from tests.simulation.cluster import invariants as inv
from tests.simulation.cluster.rule import ClusterRule


def _a_standby_stays_beside_a_node() -> Patches:
    return (patch.object(Placing, "_moves_away", lambda self, unit: False),)


def _a_standby_is_given_no_place() -> Patches:
    return (patch.object(Placing, "_give", lambda self, job, unit, was: False),)


def _a_second_process_is_started_for_who_stood_by() -> Patches:
    def work(value: Replica, me: Any, running: Iterable[RunningUnit], *more: int) -> Work:
        found = right(value, me, tuple(running), *more)
        return replace(
            found,
            stop=(*found.stop, *(one for one, _, _ in found.given)),
            start=(*found.start, *((unit, place) for _, unit, place in found.given)),
            given=(),
        )

    right = agent.work
    return (patch.object(agent, "work", work),)


def _nobody_stands_by_for_who_was_given_a_place() -> Patches:
    def best(self: Placing, unit: Unit) -> str | None:
        return None if unit[2] in self._given.get(unit[0], ()) else right(self, unit)

    right = Placing._best_for_standby
    return (patch.object(Placing, "_best_for_standby", best),)


def _a_standby_that_can_not_run_fails_its_job() -> Patches:
    def standby_failed(change: Change, job: ClusterJob, entry: TaskFailed) -> None:
        right(change, job, entry)
        if not change.replica.jobs[job.name].standbys:
            finish(change, replace(job, state=JobState.FAILED, error=entry.error))

    right = failures.standby_failed
    return (patch.object(failures, "standby_failed", standby_failed),)


def _a_place_that_is_given_keeps_its_generation() -> Patches:
    def hold(self: Placing, unit: Unit, place: Place) -> None:
        right(self, unit, replace(place, generation=place.stood) if place.stood_by else place)

    right = Placing._hold
    return (patch.object(Placing, "_hold", hold),)


def _jobs_have_standbys_at_any_level() -> Patches:
    return (patch.object(standbys, "STANDBY_LEVEL", 1),)


def _what_a_standby_leaves_stays_free() -> Patches:
    return (patch.object(placing, "LEFT_ROOM_LEVEL", LEFT_ROOM_LEVEL + 1),)


def _what_a_standby_leaves_is_taken_at_any_level() -> Patches:
    """By agents; what those of an older version would make of the log, the oracle does."""

    def apply(replica: Replica, offset: int, entry: ClusterEntry, code_level: int) -> tuple[Replica, str]:
        with patch.object(placing, "LEFT_ROOM_LEVEL", 1):
            return right(replica, offset, entry, code_level)

    right = agent.apply
    return (patch.object(agent, "apply", apply),)


DEATHS = (faults.host_killed, faults.host_added)
RULES_OF_STANDBYS = (
    ClusterRule(
        _a_standby_stays_beside_a_node, (standing.NOT_BESIDE_ITS_NODE,), DEATHS, begin=3, stands=True
    ),
    ClusterRule(_a_standby_is_given_no_place, (standing.GIVEN_TO_A_STANDBY,), DEATHS, begin=4, stands=True),
    ClusterRule(
        _a_second_process_is_started_for_who_stood_by,
        (standing.STOOD_BY_IS_THE_NODE,),
        DEATHS,
        begin=1,
        stands=True,
    ),
    ClusterRule(
        _nobody_stands_by_for_who_was_given_a_place,
        (standing.AS_MANY_STAND_BY,),
        DEATHS,
        begin=3,
        stands=True,
    ),
    ClusterRule(
        _a_standby_that_can_not_run_fails_its_job,
        (standing.FAILS_NO_JOB,),
        (faults.standby_can_not_run, faults.host_added),
        begin=52,
        stands=True,
    ),
    ClusterRule(
        _a_place_that_is_given_keeps_its_generation,
        (inv.NEW_GENERATION, inv.NEW_PROCESSES),
        DEATHS,
        begin=1,
        stands=True,
    ),
    ClusterRule(
        _jobs_have_standbys_at_any_level,
        (inv.SAME_VALUE, inv.DIGESTS_AGREE),
        (faults.host_added,),
        begin=1,
        two_codes=True,
        stands=True,
    ),
    ClusterRule(
        _what_a_standby_leaves_stays_free,
        (standing.AS_MANY_STAND_BY,),
        DEATHS,
        begin=967,
        refills=True,
    ),
    ClusterRule(
        _what_a_standby_leaves_is_taken_at_any_level,
        (inv.SAME_VALUE, inv.DIGESTS_AGREE),
        DEATHS,
        begin=1_020,
        stands=True,
    ),
)

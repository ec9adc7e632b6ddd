"""Each rule of the cluster, switched off: the simulator must then find what the rule is there for.

`begin` is where it is found today, so that the default run takes a few schedules; from wherever one begins,
it is found within some dozen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from kcontrol.core.cluster import agent, duties, jobs, joining, ring, upkeep
from kcontrol.core.cluster import replica as replica_module
from kcontrol.core.cluster.agent import AgentMachine
from kcontrol.core.cluster.change import Change, EntryRejectedError
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    ConfirmSnapshot,
    Leave,
    Prepare,
    RaiseLevel,
)
from kcontrol.core.cluster.fitness import Fitness
from kcontrol.core.cluster.model import ClusterJob, Replica
from kcontrol.core.cluster.schedule.placing import Missing, Placing
from kcontrol.core.cluster.work import RunningUnit, Work
from kcontrol.core.log import control_view
from tests.simulation.breaking import Patches
from tests.simulation.cluster import faults
from tests.simulation.cluster import invariants as inv
from tests.simulation.cluster.hosts import HostAgent
from tests.simulation.cluster.rule import ClusterRule
from tests.simulation.cluster.rules_of_beats import RULES_OF_BEATS
from tests.simulation.cluster.rules_of_completion import RULES_OF_COMPLETION
from tests.simulation.cluster.rules_of_coordinators import RULES_OF_COORDINATORS
from tests.simulation.cluster.rules_of_ends import RULES_OF_ENDS
from tests.simulation.cluster.rules_of_fits import RULES_OF_FITS
from tests.simulation.cluster.rules_of_resizing import RULES_OF_RESIZING
from tests.simulation.cluster.rules_of_standbys import RULES_OF_STANDBYS
from tests.simulation.invariants import Violation

SCHEDULES = 150


# --- who is dead ------------------------------------------------------------------------------------------


def _a_clock_judges() -> Patches:
    read, right = HostAgent.read_beats, agent.duties

    def read_beats(self: HostAgent, most: int) -> None:
        before = self.beats_at
        read(self, most)
        heard = self.__dict__.setdefault("heard_ms", {})
        heard |= {one.agent: self.world.now_ms for one in self.world.beats[before : self.beats_at]}
        now = {name: self.world.now_ms - at for name, at in heard.items()}
        self.machine.__dict__["unheard_ms"] = now

    def by_clock(value: Replica, me: Any, liveness: Any) -> list[ClusterEntry]:
        late = {who: liveness.own - (1_000 if unheard.get(who[0], 0) > 15_000 else 0) for who in liveness.at}
        return right(value, me, replace(liveness, at=late, many_at=None))

    unheard: dict[str, int] = {}

    def speak(self: HostAgent) -> None:
        unheard.clear()
        unheard.update(
            {name: self.world.now_ms - at for name, at in self.__dict__.get("heard_ms", {}).items()}
        )
        say(self)

    say = HostAgent.speak
    return (
        patch.object(HostAgent, "read_beats", read_beats),
        patch.object(HostAgent, "speak", speak),
        patch.object(agent, "duties", by_clock),
        patch.object(agent, "judges_nobody", lambda liveness: liveness),
    )


def _who_is_out_of_touch_judges() -> Patches:
    return (patch.object(agent, "judges_nobody", lambda liveness: liveness),)


def _a_backlog_is_a_touch() -> Patches:
    read = HostAgent.read_beats

    def read_beats(self: HostAgent, most: int) -> None:
        own = self.machine.liveness.own
        read(self, most)
        if self.machine.liveness.own > own:
            self.machine._in_touch_ms = self.world.now_ms

    return (patch.object(HostAgent, "read_beats", read_beats),)


def _who_can_not_do_its_work_beats_on() -> Patches:
    return (patch.object(Fitness, "fits", lambda self, now_ms: True),)


def _an_append_is_never_given_up() -> Patches:
    def send(self: HostAgent) -> None:
        if self.flight is not None and self.world.log_up and self.host.reaches("log write", self.world):
            right(self)

    right = HostAgent.send
    return (patch.object(HostAgent, "send", send),)


def _what_is_due_is_queued() -> Patches:
    """And said when it can be, however old it is then."""

    def speak(self: HostAgent) -> None:
        entry = self.machine.entry(self.world.now_ms)
        if entry is not None:
            self.save(entry)
            self.machine._flight = None
            self.__dict__.setdefault("queue", []).append(entry)

    def send(self: HostAgent) -> None:
        queue = self.__dict__.get("queue", [])
        if queue and self.world.log_up and self.host.reaches("log write", self.world):
            self.world.append(queue.pop(0))
            self.machine.appended()

    return patch.object(HostAgent, "speak", speak), patch.object(HostAgent, "send", send)


# --- the ring ---------------------------------------------------------------------------------------------


def _anybody_reports_the_dead() -> Patches:
    return (patch.object(joining, "may_report", lambda value, by, gone: True),)


def _a_leave_ends_any_incarnation() -> Patches:
    def on_leave(change: Change, entry: Leave) -> None:
        known = change.replica.agents.get(entry.agent)
        if known is None:
            raise EntryRejectedError("not known")
        right(change, replace(entry, incarnation=known.incarnation))

    right = joining.on_leave
    return (patch.dict(replica_module.HANDLERS, {Leave: on_leave}),)


def _only_targets_of_prepared_joins_are_taken() -> Patches:
    """Word for word what the text of the original says."""

    def candidates(value: Replica) -> list[str]:
        return sorted(set(value.members) - set(value.prepared.values()))

    return (patch.object(ring, "candidates", candidates),)


def _a_joiner_is_heard_only_from_its_notification_on() -> Patches:
    def watched(value: Replica, name: str) -> set[str]:
        found = right(value, name)
        return found - set(value.prepared) if name in value.members else found

    right = duties.watched
    return (patch.object(duties, "watched", watched),)


def _a_death_leaves_joins_beside_it() -> Patches:
    def remove_member(change: Change, gone: str) -> None:
        value = change.replica
        members = tuple(one for one in value.members if one != gone)
        change.set(members=members, pairs=ring.close(value.pairs, gone))
        change.drop_agent(gone)
        change.reschedule = True

    blind = patch.object(ring, "watchers", lambda value: _Anybody(right(value)))
    right = ring.watchers
    return patch.object(joining, "remove_member", remove_member), blind


class _Anybody(dict[str, str]):
    """Whoever is not there is watched by itself, so that the broken function gets as far as the
    invariants."""

    def __missing__(self, key: str) -> str:
        return key


def _anybody_renews() -> Patches:
    return (patch.object(joining, "_may_replace", lambda known, entry: None),)


def _a_silent_process_of_the_same_name_stays() -> Patches:
    def join(value: Replica, me: Any, liveness: Any) -> list[ClusterEntry]:
        return [one for one in right(value, me, liveness) if not (isinstance(one, Prepare) and one.lost)]

    right = duties._join
    return (patch.object(duties, "_join", join),)


def _who_does_not_hear_itself_joins() -> Patches:
    return (patch.object(AgentMachine, "_hears_itself", lambda self, now_ms: True),)


def _who_can_not_read_writes() -> Patches:
    def may_write(self: AgentMachine, now_ms: int) -> bool:
        known = self.me.is_known_by(self.replica) or self.me.was_known_by(self.replica)
        return known or (now_ms >= self._not_before_ms and self._hears_itself(now_ms))

    return (patch.object(AgentMachine, "may_write", may_write),)


# --- jobs and places --------------------------------------------------------------------------------------


def _old_wishes_count() -> Patches:
    return (patch.object(jobs, "up_to_date", lambda change, entry: None),)


def _old_wishes_of_operators_count() -> Patches:
    return (patch.object(upkeep, "up_to_date", lambda change, as_of, touched: None),)


def _what_is_well_placed_moves() -> Patches:
    def keep(self: Placing, job: ClusterJob, counts: Mapping[str, int]) -> Missing:
        units = [(task, index) for task in job.open_tasks for index in range(counts[task.name])]
        return [((job.name, task.name, index), task) for task, index in units]

    return (patch.object(Placing, "keep", keep),)


def _later_jobs_come_first() -> Patches:
    def active(self: Replica) -> list[ClusterJob]:
        return sorted((job for job in self.jobs.values() if job.active), key=lambda job: -job.id)

    check = inv.check_no_needless_wait

    def in_order(value: Replica) -> None:
        with patch.object(Replica, "active", right):
            check(value)

    right = Replica.active
    return patch.object(Replica, "active", active), patch.object(inv, "check_no_needless_wait", in_order)


def _units_are_put_where_they_failed() -> Patches:
    return (patch.object(Replica, "is_bad", lambda self, unit, name: False),)


def _a_new_revision_is_left_to_old_processes() -> Patches:
    return (patch.object(jobs, "place_anew", lambda change, job: None),)


def _what_an_overtaken_entry_put_here_stays() -> Patches:
    """A process goes on if its unit is placed here, by whatever entry."""

    def work(value: Replica, me: Any, running: Any, *more: int) -> Work:
        here = {unit: place.generation for unit, place in value.places().items() if place.agent == me.name}
        shown = [RunningUnit(one.unit, here.get(one.unit, one.generation), one.moved_ms) for one in running]
        found = right(value, me, shown, *more)
        actual = {(one.unit, one.moved_ms): one for one in running}
        stop = tuple(actual[one.unit, one.moved_ms] for one in found.stop)
        return replace(found, stop=stop)

    right = agent.work
    return (patch.object(agent, "work", work),)


def _nodes_go_by_the_newest_join_alone() -> Patches:
    return (patch.object(control_view, "is_late", lambda placement, newest: False),)


def _who_has_not_read_the_log_ends_what_it_finds() -> Patches:
    def work(self: AgentMachine, running: Any, now_ms: int) -> Work:
        self._has_read = True
        return right(self, running, now_ms)

    right = AgentMachine.work
    return (patch.object(AgentMachine, "work", work),)


# --- snapshots and levels ---------------------------------------------------------------------------------


def _any_snapshot_is_confirmed() -> Patches:
    def snapshot_duties(value: Replica, me: Any, marks: Mapping[int, str]) -> list[ClusterEntry]:
        found = right(value, me, marks)
        proposed = value.proposed
        if proposed is not None and me.is_known_by(value) and me.name in value.members:
            found.append(ConfirmSnapshot(*me.who, proposed.offset, proposed.digest))
        return found

    right = agent.snapshot_duties
    return (patch.object(agent, "snapshot_duties", snapshot_duties),)


def _a_snapshot_is_confirmed_unread() -> Patches:
    return (patch.object(HostAgent, "may_be_said", lambda self, entry: True),)


def _unknown_levels_are_applied() -> Patches:
    return (patch.object(AgentMachine, "_knows_level", lambda self: True),)


def _levels_are_raised_without_asking() -> Patches:
    def on_raise_level(change: Change, entry: RaiseLevel) -> None:
        if entry.level != change.replica.level + 1:
            raise EntryRejectedError("one by one")
        change.set(level=entry.level)

    return (patch.dict(replica_module.HANDLERS, {RaiseLevel: on_raise_level}),)


AWAY = (faults.brokers_away, faults.host_frozen)
RULES = [
    ClusterRule(_a_clock_judges, (inv.DEAD_WITHOUT_A_CAUSE,), AWAY),
    ClusterRule(
        _who_is_out_of_touch_judges, (inv.DEAD_WITHOUT_A_CAUSE,), (faults.outage_after_a_freeze,), begin=46
    ),
    ClusterRule(
        _a_backlog_is_a_touch, (inv.DEAD_WITHOUT_A_CAUSE,), (faults.outage_after_a_freeze,), begin=46
    ),
    ClusterRule(
        _who_can_not_do_its_work_beats_on, (inv.COMES_TO_REST,), (faults.host_half_cut_off,), begin=6
    ),
    ClusterRule(_an_append_is_never_given_up, (inv.COMES_TO_REST,), begin=78),
    ClusterRule(
        _what_is_due_is_queued, (inv.DEAD_WITHOUT_A_CAUSE,), (faults.outage_after_a_freeze,), begin=31
    ),
    ClusterRule(_anybody_reports_the_dead, (inv.ENTITLED,), (faults.stranger_reports_a_death,)),
    ClusterRule(
        _a_leave_ends_any_incarnation,
        (inv.NAMED_INCARNATION,),
        (faults.late_report, faults.agent_restarted_at_once),
        begin=29,
    ),
    ClusterRule(
        _only_targets_of_prepared_joins_are_taken,
        (inv.NOT_BETWEEN_THE_SAME, inv.ONE_RING),
        (faults.host_added,),
    ),
    ClusterRule(
        _a_joiner_is_heard_only_from_its_notification_on,
        (inv.COMES_TO_REST,),
        (faults.host_added, faults.host_killed),
        begin=2,
    ),
    ClusterRule(
        _a_death_leaves_joins_beside_it,
        (inv.JOINED_TO_A_MEMBER, inv.ONE_RING, inv.NO_IDLE_MEMBER),
        (faults.host_added, faults.host_killed),
    ),
    ClusterRule(_anybody_renews, (inv.TAKEN_OVER,), (faults.same_name_twice,)),
    ClusterRule(
        _a_silent_process_of_the_same_name_stays, (inv.COMES_TO_REST,), (faults.all_hosts_killed,), begin=11
    ),
    ClusterRule(
        _who_does_not_hear_itself_joins, (inv.QUIET, inv.COMES_TO_REST), (faults.host_half_cut_off,), begin=5
    ),
    ClusterRule(
        _who_can_not_read_writes,
        (inv.NOT_IN_VAIN, inv.QUIET),
        (faults.host_half_cut_off, faults.host_can_not_run_a_job),
        begin=27,
    ),
    ClusterRule(_old_wishes_count, (inv.CARRIED_OUT_ONCE, inv.ENDED_STAYS), (faults.entry_arrives_twice,)),
    ClusterRule(_what_is_well_placed_moves, (inv.WELL_PLACED_STAYS,), begin=9),
    ClusterRule(_later_jobs_come_first, (inv.NO_NEEDLESS_WAIT,)),
    ClusterRule(
        _units_are_put_where_they_failed, (inv.NOT_WHERE_IT_FAILED,), (faults.host_can_not_run_a_job,)
    ),
    ClusterRule(_a_new_revision_is_left_to_old_processes, (inv.NEW_PROCESSES,), begin=1),
    ClusterRule(
        _what_an_overtaken_entry_put_here_stays, (inv.COMES_TO_REST,), (faults.agent_frozen,), begin=15
    ),
    ClusterRule(_nodes_go_by_the_newest_join_alone, (inv.OLDER_PLACEMENT,), (faults.agent_frozen,), begin=34),
    ClusterRule(
        _who_has_not_read_the_log_ends_what_it_finds, (inv.NOT_STOPPED,), (faults.agent_restarted_at_once,)
    ),
    ClusterRule(
        _old_wishes_of_operators_count,
        (inv.CARRIED_OUT_ONCE,),
        (faults.entry_arrives_twice, faults.host_drained_or_not_any_more),
        begin=22,
        resizes=True,
        as_of=True,
    ),
    *RULES_OF_BEATS,
    *RULES_OF_COMPLETION,
    *RULES_OF_RESIZING,
    *RULES_OF_ENDS,
    *RULES_OF_STANDBYS,
    *RULES_OF_FITS,
    *RULES_OF_COORDINATORS,
    ClusterRule(_any_snapshot_is_confirmed, (inv.CONFIRMED_IS_TRUE,), (faults.wrong_snapshot,)),
    ClusterRule(_a_snapshot_is_confirmed_unread, (inv.CUT_IS_SAVED,), (faults.snapshot_lost,), begin=53),
    ClusterRule(
        _unknown_levels_are_applied,
        (inv.KNOWN_LEVEL,),
        (faults.agent_started, faults.host_added),
        begin=49,
        two_codes=True,
    ),
    ClusterRule(_levels_are_raised_without_asking, (inv.LEVEL_SUPPORTED,), (), two_codes=True),
]


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_the_simulator_finds_what_a_rule_is_for(rule: ClusterRule) -> None:
    found = set()
    broken = rule.broken()
    for one in broken:
        one.__enter__()
    try:
        for seed in range(rule.begin, rule.begin + SCHEDULES):
            try:
                rule.schedule(seed).run()
            except Violation as violation:
                if violation.name in rule.invariants:
                    print(f"seed {seed}: {violation.name}")  # noqa: T201
                    return
                found.add(f"{violation.name} (seed {seed})")
    finally:
        for one in reversed(broken):
            one.__exit__(None, None, None)
    pytest.fail(f"{SCHEDULES} schedules found {sorted(found) or 'nothing'}, not one of {rule.invariants}")

"""Whether a cluster is at rest, and as it should be."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcontrol.core.cluster.liveness import is_heard
from kcontrol.core.cluster.model import COORDINATOR_LEVEL, STANDBY
from kcontrol.core.cluster.resizing import is_known
from tests.simulation.cluster.fits import not_fitted
from tests.simulation.cluster.hosts import Host, HostAgent, Process
from tests.simulation.cluster.invariants import SAME_AT_REST
from tests.simulation.cluster.layouts import can_be_made, running_layouts
from tests.simulation.invariants import require

if TYPE_CHECKING:
    from tests.simulation.cluster.schedule import ClusterSchedule


def not_at_rest(s: ClusterSchedule) -> str | None:
    """What is not as it should be yet; None if all is. Starts agents that have ended, as a process manager
    does."""
    agents = [host.agent for host in s.hosts if host.agent is not None and _counts(s, host)]
    return (
        _not_running(s)
        or _not_said(s, agents)
        or _not_joined(s, agents)
        or _not_completed(s)
        or _not_placed(s)
        or _not_kept(s)
        or _not_resized(s)
        or not_fitted(s)
        or _too_many(s)
    )


def _counts(s: ClusterSchedule, host: Host) -> bool:
    """Who can't be heard, or can't read, is no member; who can't write is until it has something to say."""
    if not host.lasting_cut:
        return True
    return host.lasting_cut == "log write" and host.name in s.world.truth.members


def _not_running(s: ClusterSchedule) -> str | None:
    for host in s.hosts:
        if not host.gone and not host.lasting_cut and host.agent is None:
            host.code_level = max(host.code_level, s.world.truth.level)
            s.start_agent(host)
            return f"{host.name} has no agent"
    return None


def _not_said(s: ClusterSchedule, agents: list[HostAgent]) -> str | None:
    for agent in agents:
        reads = agent.machine.next_offset < len(s.world.log)
        if reads or (agent.flight and not agent.host.lasting_cut):
            return f"{agent.name} has not read or said all"
    return None


def _not_joined(s: ClusterSchedule, agents: list[HostAgent]) -> str | None:
    truth = s.world.truth
    joining = truth.prepared or truth.accepted or truth.waiting
    if set(truth.members) != {agent.name for agent in agents} or joining:
        return f"members {truth.members}, alive {sorted(one.name for one in agents)}, joining {joining}"
    for agent in agents:
        if truth.agents[agent.name].incarnation != agent.incarnation:
            return f"{agent.name} is known by an earlier incarnation"
        # Its watcher, which was away itself, may not have missed it yet.
        if s.world.now_ms - agent.beaten_ms > truth.policy.beat_ms:
            return f"{agent.name} has fallen silent"
        watched = truth.pairs.get(agent.name)
        if watched is not None:
            who = (watched, truth.agents[watched].incarnation)
            if not is_heard(agent.machine.liveness, who, truth.policy):
                return f"{agent.name} does not hear {watched}"
        require(agent.machine.replica == truth, SAME_AT_REST, agent.name)
    return None


def _not_completed(s: ClusterSchedule) -> str | None:
    for ward in sorted(s.world.done):
        job = s.world.truth.jobs.get(ward.job)
        if job is None or not job.active or job.revision != ward.revision or not s.world.truth.members:
            continue
        if ward.task in [task.name for task in job.open_tasks]:
            return f"{ward} is done, and nobody has said so"
    return None


def _not_placed(s: ClusterSchedule) -> str | None:
    by_name = {host.name: host for host in s.hosts}
    for unit, place in s.world.truth.places().items():
        stands = unit[1] == STANDBY
        running = [
            one
            for one in by_name[place.agent].processes.values()
            if one.unit == unit and one.generation == place.generation and one.joined is not stands
        ]
        if stands and len(running) == 1:
            continue
        if len(running) != 1 or s.world.rightful[unit].pid != running[0].pid:
            return f"{unit} does not run where it is placed: {place}, {running}, {s.world.rightful.get(unit)}"
    return None


def _not_kept(s: ClusterSchedule) -> str | None:
    """A coordinator is where it can't run only if that was said, by an agent that can say it."""
    truth = s.world.truth
    if any(agent.levels[1] < COORDINATOR_LEVEL for agent in truth.agents.values()):
        return None
    by_name = {host.name: host for host in s.hosts}
    for place in truth.coordinators:
        host = by_name[place.agent]
        if host.keeps_none and not host.lasting_cut and not host.gone and place.agent not in truth.unable:
            return f"no coordinator runs on {host.name}, and nobody has said so"
    return None


def _not_resized(s: ClusterSchedule) -> str | None:
    """What its pipeline has is said, once what was asked for is given up; and where there is room for all that it has, and is
    to have, it has as many as it is to."""
    truth = s.world.truth
    for name, layout in sorted(running_layouts(s.world).items()):
        job, asked, nodes = truth.jobs[name], layout.under_way(), layout.nodes
        what = f"{name} is to have {job.nodes} nodes, and has {nodes} ({job.kept} are kept, and {asked} is asked for)"
        waits = asked is not None and asked.nodes == job.nodes and asked.number == layout.made + 1
        if asked is not None and (not waits or can_be_made(s, name, asked)):
            return what
        if not is_known(job, nodes) and (job.kept or nodes != job.nodes):
            return what
        places = truth.allocations.get(name, {}).get(job.tasks[0].name, ())
        if len(places) < max(nodes, job.nodes) or not all(places):
            continue
        if job.kept or nodes != job.nodes:
            return what
    return None


def _too_many(s: ClusterSchedule) -> str | None:
    placed = s.world.truth.places()
    for host in s.hosts:
        for process in host.processes.values():
            place = placed.get(process.unit)
            as_placed = place is not None and place.is_of(host.name, process.generation)
            if not as_placed and not _nobody_ends_it(s, host, process):
                return f"a process too many: {host.name} {process}"
    return None


def _nobody_ends_it(s: ClusterSchedule, host: Host, process: Process) -> bool:
    """No agent of its host reads the log; and its job is active, and no other process takes its place, as none does that of
    who stands by, or it is forgotten, so that nobody can tell its pipeline any more."""
    job = s.world.truth.jobs.get(process.unit[0])
    is_standby = process.unit[1] == STANDBY
    waits = job is None or (job.active and (is_standby or process.unit not in s.world.truth.places()))
    return waits and (host.agent is None or bool(host.lasting_cut))


def run_after_their_end(s: ClusterSchedule) -> list[tuple[str, Process]]:
    """Processes of jobs that have ended and are remembered, by host."""
    ended = {job.name for job in s.world.truth.jobs.values() if not job.active}
    return [(host.name, one) for host in s.hosts for one in host.processes.values() if one.unit[0] in ended]

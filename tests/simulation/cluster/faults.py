"""What goes wrong. Each fault says whether it could happen now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kcontrol.core.cluster.agent import SavedReplica
from kcontrol.core.cluster.entries import Leave, Prepare, ProposeSnapshot, SubmitJob
from kcontrol.core.cluster.model import STANDBY, Mark
from tests.simulation.cluster.hosts import WAYS, Host
from tests.simulation.cluster.world import TICK_MS

if TYPE_CHECKING:
    from tests.simulation.cluster.schedule import ClusterSchedule

Fault = Callable[["ClusterSchedule"], bool]


def _what_it_was_about_to_say(s: ClusterSchedule, host: Host) -> None:
    """It may arrive after its author's death."""
    if host.agent is not None and host.agent.flight and s.random.random() < 0.5:
        s.on_their_way.append(host.agent.flight[0])


def agent_killed(s: ClusterSchedule) -> bool:
    """Its nodes live on."""
    host = s.any_host()
    if host.agent is None:
        return False
    s.trouble(host)
    _what_it_was_about_to_say(s, host)
    host.agent = None
    return True


def agent_started(s: ClusterSchedule) -> bool:
    host = s.any_host()
    if host.agent is not None or host.frozen_until_ms > s.world.now_ms:
        return False
    s.trouble(host)
    if s.two_codes and s.random.random() < 0.3:
        host.code_level = s.newest_level
    s.start_agent(host)
    return True


def agent_restarted_at_once(s: ClusterSchedule) -> bool:
    if not agent_killed(s):
        return False
    for host in s.hosts:
        if host.agent is None:
            s.start_agent(host)
    return True


def host_killed(s: ClusterSchedule) -> bool:
    host = s.any_host()
    s.trouble(host)
    _what_it_was_about_to_say(s, host)
    host.agent = None
    host.processes.clear()
    if s.random.random() < 0.3:
        host.disk.clear()
    return True


def several_hosts_killed(s: ClusterSchedule) -> bool:
    for _ in range(s.random.randint(2, 5)):
        host_killed(s)
    return True


def all_hosts_killed(s: ClusterSchedule) -> bool:
    if s.random.random() < 0.8:
        return False
    lost = s.random.random() < 0.3
    for host in s.hosts:
        s.trouble(host)
        host.agent = None
        host.processes.clear()
        if lost:
            host.disk.clear()
    return True


def host_frozen(s: ClusterSchedule) -> bool:
    host = s.any_host()
    host.frozen_until_ms = s.world.now_ms + s.random.choice((5, 15, 40, 120)) * TICK_MS
    s.trouble(host, host.frozen_until_ms)
    return True


def agent_frozen(s: ClusterSchedule) -> bool:
    """SIGSTOP of the agent alone: its nodes go on."""
    host = s.any_host()
    host.agent_frozen_until_ms = s.world.now_ms + s.random.choice((5, 15, 40, 120)) * TICK_MS
    s.trouble(host, host.agent_frozen_until_ms)
    return True


def _cut(s: ClusterSchedule, ways: tuple[str, ...]) -> bool:
    host = s.any_host()
    until_ms = s.world.now_ms + s.random.choice((5, 20, 60, 150)) * TICK_MS
    host.cut_until_ms.update(dict.fromkeys(ways, until_ms))
    s.trouble(host, until_ms)
    return True


def host_cut_off(s: ClusterSchedule) -> bool:
    return _cut(s, WAYS)


def host_half_cut_off(s: ClusterSchedule) -> bool:
    return _cut(s, (s.random.choice(WAYS),))


def brokers_away(s: ClusterSchedule) -> bool:
    """All of Kafka, for much longer than it takes to be silent."""
    s.world.log_up = s.world.beats_up = False
    s.go_on(s.random.choice((10, 30, 100, 300)))
    s.world.log_up = s.world.beats_up = True
    return True


def outage_after_a_freeze(s: ClusterSchedule) -> bool:
    """Just when a frozen host is about to be missed, or was, all of Kafka is away; what others knew is old
    when it is back."""
    frozen, other = s.any_host(), s.any_host()
    frozen.frozen_until_ms = s.world.now_ms + 30 * TICK_MS
    s.trouble(frozen, frozen.frozen_until_ms)
    if frozen is not other and s.random.random() < 0.5:
        other.cut_until_ms["beats read"] = frozen.frozen_until_ms
        s.trouble(other, frozen.frozen_until_ms)
    s.go_on(s.random.randint(12, 30))
    s.world.log_up = s.world.beats_up = False
    s.go_on(300)
    s.world.log_up = s.world.beats_up = True
    return True


def one_partition_away(s: ClusterSchedule) -> bool:
    log_stays = s.random.random() < 0.5
    s.world.log_up, s.world.beats_up = log_stays, not log_stays
    s.go_on(s.random.choice((10, 30, 100)))
    s.world.log_up = s.world.beats_up = True
    if not log_stays:  # who could not use the log for long fell silent, which is meant to be seen
        s.world.brokers_trouble_ms = s.world.now_ms
    return True


def entry_arrives_twice(s: ClusterSchedule) -> bool:
    """At once, or much later."""
    if not s.history:
        return False
    s.on_their_way.append(s.random.choice(s.history[-3:] if s.random.random() < 0.5 else s.history))
    return True


def node_process_killed(s: ClusterSchedule) -> bool:
    host = s.any_host()
    at_work = sorted(pid for pid, one in host.processes.items() if s.world.is_active(one.unit[0]))
    if not at_work:
        return False
    del host.processes[s.random.choice(at_work)]
    return True


def host_can_not_run_a_job(s: ClusterSchedule) -> bool:
    s.any_host().broken_for.add(s.any_job())
    return True


def standby_can_not_run(s: ClusterSchedule) -> bool:
    """The host of a standby can't run it any more, and it dies. In no draw of faults, as it is for jobs that have standbys."""
    found = [
        (host, pid)
        for host in s.hosts
        for pid, process in sorted(host.processes.items())
        if process.unit[1] == STANDBY
    ]
    if not found:
        return False
    host, pid = s.standing.choice(found)
    host.broken_for.add(host.processes.pop(pid).unit[0])
    return True


def coordinator_can_not_run(s: ClusterSchedule) -> bool:
    """On a host, for good. In no draw of faults, as it is for schedules at whose level that is known."""
    s.keeping.choice(s.hosts).keeps_none = True
    return True


def host_added(s: ClusterSchedule) -> bool:
    if len(s.hosts) >= 9:
        return False
    s.add_host()
    return True


def agent_asked_to_leave(s: ClusterSchedule) -> bool:
    host = s.any_host()
    if host.agent is None:
        return False
    s.trouble(host)
    host.agent.machine.leave("asked to")
    return True


def same_name_twice(s: ClusterSchedule) -> bool:
    """Somebody has copied the disk, or not: another process of that name, elsewhere, asks to join."""
    host = s.any_host()
    s.trouble(host)
    previous = s.random.choice(host.disk) if host.disk and s.random.random() < 0.5 else ""
    s.on_their_way.append(
        Prepare(host.name, f"copy-{s.world.now_ms}", previous, False, 1, (), (1, s.newest_level))
    )
    return True


def stranger_reports_a_death(s: ClusterSchedule) -> bool:
    """A process that was cut off for long says at last what it saw then."""
    value = s.world.truth
    if len(value.members) < 2:
        return False
    gone = s.random.choice(value.members)
    by = s.random.choice([one for one in value.members if one != gone])
    if value.pairs.get(by) == gone:
        return False
    names = (gone, value.agents[gone].incarnation, by, value.agents[by].incarnation)
    s.on_their_way.append(Leave(*names, "silent"))
    return True


def wrong_snapshot(s: ClusterSchedule) -> bool:
    """A member whose value has gone wrong proposes it as a snapshot."""
    value = s.world.truth
    offset = max((at for at in s.world.marks if at % value.policy.snapshot_every == 0), default=0)
    if not value.members or offset <= value.base.offset:
        return False
    by = s.random.choice(value.members)
    s.world.snapshots[Mark(offset, "wrong")] = SavedReplica(offset, "wrong", value)
    s.on_their_way.append(ProposeSnapshot(by, value.agents[by].incarnation, offset, "wrong"))
    return True


def late_report(s: ClusterSchedule) -> bool:
    """A report about an earlier incarnation arrives when a new one has begun."""
    old = [one for one in s.history if isinstance(one, Leave)]
    if not old:
        return False
    s.on_their_way.append(s.random.choice(old))
    return True


def input_ended(s: ClusterSchedule) -> bool:
    """No fault, and in no draw of them: for schedules in which much is done."""
    s.user.end_input(s.any_job())
    return True


def host_drained_or_not_any_more(s: ClusterSchedule) -> bool:
    """No fault, and in no draw of them: for schedules in which much is drained."""
    s.user.drains()
    return True


def asker_frozen(s: ClusterSchedule) -> bool:
    """SIGSTOP of an agent that is about to ask a pipeline for another layout. It goes on when its time is over, or when nobody
    wants one any more: then it asks, whatever it has not read. In no draw of faults, as it is for jobs that are resized."""
    now_ms = s.world.now_ms
    asking = [host for host in s.hosts if host.agent is not None and host.agent.asks()]
    frozen = [host for host in asking if host.agent_frozen_until_ms > now_ms]
    for host in frozen:
        jobs = [s.world.truth.jobs.get(job) for job in (host.agent.asks() if host.agent else ())]
        if any(job is not None and job.active and not job.kept for job in jobs):
            host.agent_frozen_until_ms = now_ms
            return True
    if frozen or not asking:
        return False
    host = s.resizing.choice(asking)
    host.agent_frozen_until_ms = now_ms + s.resizing.choice((15, 40, 120)) * TICK_MS
    s.trouble(host, host.agent_frozen_until_ms)
    return True


def warden_reads_late(s: ClusterSchedule) -> bool:
    """Whoever sees to it that a job gets another number of nodes can't read the cluster's log for a while, and reaches all
    else. In no draw of faults, as it is for jobs that are resized."""
    seeing = [host for host in s.hosts if host.agent is not None and host.agent.machine.resizings()]
    if not seeing:
        return False
    host = s.resizing.choice(seeing)
    until_ms = s.world.now_ms + s.resizing.choice((15, 40, 120)) * TICK_MS
    host.cut_until_ms["log read"] = until_ms
    s.trouble(host, until_ms)
    return True


def resized_job_begins_anew(s: ClusterSchedule) -> bool:
    """A job that has got another number of nodes is submitted with yet another, by which its processes begin anew. In no draw
    of faults either."""
    jobs = [job for job in s.world.truth.active() if job.resizable and not job.kept]
    resized = sorted(job.name for job in jobs if s.world.layouts[job.name].view.wish is not None)
    if not resized:
        return False
    job, as_of = s.world.truth.jobs[s.resizing.choice(resized)], len(s.world.log) - 1
    nodes = s.resizing.choice([one for one in (1, 2, 3, 4) if one != job.nodes])
    task = replace(job.tasks[0], min=nodes, max=nodes)
    more = job.task_scheduler, job.percentage
    s.say(SubmitJob(job.name, f"anew-{as_of}", as_of, job.package, (task,), *more))
    return True


def snapshot_lost(s: ClusterSchedule) -> bool:
    """What its author took for stored can't be read, as whoever reads it first finds out."""
    proposed = s.world.truth.proposed
    if proposed is None:
        return False
    mark = Mark(proposed.offset, proposed.digest)
    return mark not in s.world.were_read and s.world.snapshots.pop(mark, None) is not None


FAULTS: tuple[Fault, ...] = (
    agent_killed,
    agent_started,
    agent_restarted_at_once,
    host_killed,
    several_hosts_killed,
    all_hosts_killed,
    host_frozen,
    agent_frozen,
    host_cut_off,
    host_half_cut_off,
    brokers_away,
    outage_after_a_freeze,
    one_partition_away,
    entry_arrives_twice,
    node_process_killed,
    host_can_not_run_a_job,
    host_added,
    agent_asked_to_leave,
    same_name_twice,
    stranger_reports_a_death,
    late_report,
    wrong_snapshot,
)
IN_NO_DRAW: tuple[Fault, ...] = (asker_frozen, warden_reads_late, resized_job_begins_anew)
"""Schedules have these only if they are said to be likely."""

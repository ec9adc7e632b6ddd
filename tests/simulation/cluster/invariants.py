"""What must always hold of a cluster's value, each by its name, checked after every entry."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kcontrol.core.cluster import ring
from kcontrol.core.cluster.canonical import digest
from kcontrol.core.cluster.entries import (
    ClusterEntry,
    CompleteTask,
    DrainAgent,
    FitJob,
    JobResized,
    KillJob,
    Leave,
    Prepare,
    ResizeJob,
    SetBounds,
    SetPolicy,
    SetStandbys,
    SubmitJob,
)
from kcontrol.core.cluster.jobs import runs
from kcontrol.core.cluster.joining import may_report as RIGHT_MAY_REPORT
from kcontrol.core.cluster.model import (
    ANOTHER_LIFE_LEVEL,
    RESUMED_LEVEL,
    STANDBY,
    Replica,
    Scheduler,
    Unit,
    bad_key,
)
from kcontrol.core.cluster.replica import apply
from kcontrol.core.cluster.schedule.shares import least
from kcontrol.core.cluster.wards import Ward
from tests.simulation.cluster.fits import check_fits
from tests.simulation.cluster.layouts import running_layouts
from tests.simulation.cluster.standing import check_standbys, is_tagged, leaves_a_node
from tests.simulation.invariants import require

if TYPE_CHECKING:
    from tests.simulation.cluster.world import ClusterWorld

# Of the value
A_FUNCTION = "the same entry on the same value gives the same value"
REJECTED_CHANGES_NOTHING = "what is rejected changes nothing"
SAME_VALUE = "the same entries, the same value"
DIGESTS_AGREE = "beats agree on digests"
SAME_AT_REST = "at rest all have the same value"
# Of the ring
ONE_RING = "the pairs are one ring of all members"
ONE_STAGE = "everybody known is in one stage"
JOINED_TO_A_MEMBER = "a joiner is joined to a member"
NOT_BETWEEN_THE_SAME = "no two joiners come between the same two members"
NO_EMPTY_RING = "nobody waits for an empty ring"
NO_IDLE_MEMBER = "nobody waits while somebody is free"
DEAD_WITHOUT_A_CAUSE = "nobody is reported dead without a cause"
NAMED_INCARNATION = "a leave ends the incarnation that it names, and no other"
ENTITLED = "only who watches, or joins beside it, says that a member is dead"
TAKEN_OVER = "a name is taken over only by who knows the incarnation before"
BOUNDED_COLLECTORS = "collectors are bounded"
NOT_IN_VAIN = "nobody says the same in vain again and again"
# Of places
ON_MEMBERS = "units are placed on members that take units"
WITHIN_SLOTS = "no agent has more units than slots"
TAGS = "a place has the tags that its task asks for"
NOT_WHERE_IT_FAILED = "no unit is put where it could not run"
NEW_GENERATION = "a new place has a new generation"
NEW_PROCESSES = "a new revision is run by new processes"
WELL_PLACED_STAYS = "a unit that is well placed does not move"
ACTIVE_ONLY = "only active jobs have places"
COORDINATORS_APART = "coordinators are on members of their own"
COORDINATORS_ENOUGH = "there are as many coordinators as wanted and possible"
COORDINATORS_WHERE_THEY_RUN = "no coordinator stays where it can't run while one could run elsewhere"
ANOTHER_LIFE = "what a host lacked is forgotten with that life of its agent"
# Of jobs
NO_NEEDLESS_WAIT = "no job waits that could run without harm to an earlier one"
ENDED_STAYS = "what was ended stays so until a new request"
CARRIED_OUT_ONCE = "a request is carried out once"
KEEPS_ITS_TURN = "a new revision keeps its place in the queue"
COMPLETED_WHEN_DONE = "a task is completed only when all that its revision was to do is done"
BOUNDED_JOBS = "finished jobs are bounded"
KEEPS_LAYOUT = "a node that its pipeline's layout has is not taken away"
STAYING_GO_ON = "who stays when a job is given another number of nodes goes on"
# Of processes
OLDER_PLACEMENT = "a process of an older placement never takes the place of a newer one's"
NOT_STOPPED = "no agent stops what should run on it"
ENDED_RUNS_NOWHERE = "what has ended runs nowhere, be it that the agent of its host is dead"
NEWER_GO_ON = "what is said of the end of a job ends no process that was placed after it"
# Of the log
CONFIRMED_IS_TRUE = "a confirmed snapshot is the value at its offset"
FORWARD = "snapshots only go forward"
ONLY_CONFIRMED_CUT = "the log is cut only up to a confirmed snapshot"
CUT_IS_SAVED = "what was cut off is in a snapshot"
LEVELS_RISE = "levels only rise"
LEVEL_SUPPORTED = "everybody known supports the level"
KNOWN_LEVEL = "code never applies an entry at a level that it does not know"
# Of the end
COMES_TO_REST = "without faults everything comes to rest as it should"
QUIET = "at rest nobody appends anything"
STAYS_AT_REST = "what has come to rest stays so"

TROUBLE_LASTS_MS = 250_000
"""After so long a fault can't be the cause of a death any more."""
MOST_IN_VAIN = 4


@dataclass(frozen=True)
class Applied:
    """An entry and what it did. late: it was on its way for long, or came twice."""

    before: Replica
    after: Replica
    entry: ClusterEntry
    offset: int
    why: str
    late: bool


def check_entry(world: ClusterWorld, done: Applied) -> None:
    again = apply(done.before, done.offset, done.entry)
    require(again == (done.after, done.why), A_FUNCTION, done.entry)
    if done.why:
        unchanged = replace(done.before, offset=done.offset) == done.after
        require(unchanged, REJECTED_CHANGES_NOTHING, (done.entry, done.why))
        return
    if done.offset % 10 == 0:
        digest(done.after)  # It raises TypeError for what has no canonical form.
    check_ring(done.after)
    check_authors(world, done)
    check_places(done)
    check_coordinators(done.after)
    check_unable(done)
    check_jobs(done)
    check_layouts(world, done)
    check_standbys(done)
    check_fits(done)
    check_requests(world, done)
    check_log(world, done)


def check_ring(value: Replica) -> None:
    require(ring.is_ring(value.pairs, value.members), ONE_RING, (value.pairs, value.members))
    stages = [*value.members, *value.prepared, *value.accepted, *value.waiting, *value.collectors]
    once = len(stages) == len(set(stages)) and set(stages) == set(value.agents)
    require(once, ONE_STAGE, (stages, sorted(value.agents)))
    targets = list(ring.joins(value).values())
    require(set(targets) <= set(value.members), JOINED_TO_A_MEMBER, targets)
    require(len(targets) == len(set(targets)), NOT_BETWEEN_THE_SAME, (value.prepared, value.accepted))
    require(bool(value.members) or not value.waiting, NO_EMPTY_RING, value.waiting)
    free = ring.candidates(value)
    require(not (free and value.waiting), NO_IDLE_MEMBER, (free, value.waiting))
    require(len(value.collectors) <= value.policy.collectors, BOUNDED_COLLECTORS, value.collectors)


def check_authors(world: ClusterWorld, done: Applied) -> None:
    entry, known = done.entry, done.before.agents
    if isinstance(entry, Leave):
        require(known[entry.agent].incarnation == entry.incarnation, NAMED_INCARNATION, entry)
        require(RIGHT_MAY_REPORT(done.before, entry.by, entry.agent), ENTITLED, entry)
        if entry.reason == "silent" and not done.late and world.is_alive(entry.agent, entry.incarnation):
            quiet_ms = world.now_ms - world.excused_ms(entry.agent, entry.by)
            require(quiet_ms <= TROUBLE_LASTS_MS, DEAD_WITHOUT_A_CAUSE, (entry, quiet_ms))
    if isinstance(entry, Prepare) and entry.agent in known and entry.agent not in done.before.collectors:
        require(entry.previous == known[entry.agent].incarnation, TAKEN_OVER, entry)


def check_places(done: Applied) -> None:
    value, usable, now = done.after, done.after.usable(), done.after.places()
    before = done.before.places()
    used = Counter(place.agent for place in now.values())
    for unit, place in now.items():
        require(place.agent in usable, ON_MEMBERS, (unit, place))
        job = value.jobs[unit[0]]
        require(job.active, ACTIVE_ONLY, (unit, job.state))
        require(place.generation >= job.revision, NEW_PROCESSES, (unit, place, job.revision))
        task = next(one for one in job.placed_tasks + job.tasks if one.name == unit[1])
        require(set(task.tags) <= set(usable[place.agent].tags), TAGS, (unit, place))
        require(place.agent not in value.bad.get(bad_key(unit), ()), NOT_WHERE_IT_FAILED, (unit, place))
        is_new = place != before.get(unit)
        require(not is_new or place.generation == done.offset, NEW_GENERATION, (unit, place))
    for name, count in used.items():
        require(count <= usable[name].slots, WITHIN_SLOTS, (name, count))
    if not is_tagged(value):
        for unit in sorted(set(before) & set(now)):
            check_stays(done, unit, used)


def check_stays(done: Applied, unit: Unit, used: Counter[str]) -> None:
    was, place = done.before.places()[unit], done.after.places()[unit]
    same_job = done.after.jobs[unit[0]].revision == done.before.jobs[unit[0]].revision
    if place.agent == was.agent or not same_job or leaves_a_node(done.after, unit, was.agent):
        return
    require(not _may_stay(done, unit, used), WELL_PLACED_STAYS, (unit, was, place))


def _may_stay(done: Applied, unit: Unit, used: Counter[str]) -> bool:
    """Whether there would still be room where it was."""
    was, usable = done.before.places()[unit].agent, done.after.usable()
    return (
        was in usable and used[was] < usable[was].slots and was not in done.after.bad.get(bad_key(unit), ())
    )


def check_coordinators(value: Replica) -> None:
    usable, keepers = value.usable(), [place.agent for place in value.coordinators]
    require(len(set(keepers)) == len(keepers) and set(keepers) <= set(usable), COORDINATORS_APART, keepers)
    wanted = min(value.policy.coordinators, len(usable))
    require(len(keepers) == wanted, COORDINATORS_ENOUGH, (keepers, wanted))
    stuck = [name for name in keepers if name in value.unable]
    better = sorted(set(usable) - set(keepers) - set(value.unable))
    require(not (stuck and better), COORDINATORS_WHERE_THEY_RUN, (stuck, better))


def check_unable(done: Applied) -> None:
    unable = set(done.after.unable)
    require(unable <= set(done.after.agents), ANOTHER_LIFE, unable)
    if isinstance(done.entry, Prepare):
        require(done.entry.agent not in unable, ANOTHER_LIFE, done.entry)
    if done.before.level >= ANOTHER_LIFE_LEVEL:
        lives = {name: agent.incarnation for name, agent in done.before.agents.items()}
        went_on = {name for name, agent in done.after.agents.items() if lives.get(name) == agent.incarnation}
        bad = {name for agents in done.after.bad.values() for name in agents}
        over = bad & (set(lives) | set(done.after.agents)) - went_on
        require(not over, ANOTHER_LIFE, (done.entry, over))


def check_jobs(done: Applied) -> None:
    value = done.after
    for job in value.jobs.values():
        was = done.before.jobs.get(job.name)
        if was is None or not job.active:
            continue
        if was.active:
            require(job.id == was.id, KEEPS_ITS_TURN, job)
        else:
            again = isinstance(done.entry, SubmitJob) and job.id == job.revision == done.offset
            require(again, ENDED_STAYS, (job, done.entry))
    resumable = value.level >= RESUMED_LEVEL
    finished = [job.name for job in value.jobs.values() if not job.active and not (resumable and job.kept)]
    require(len(finished) <= value.policy.finished_jobs, BOUNDED_JOBS, finished)
    if not value.bad and not is_tagged(value):
        check_no_needless_wait(value)


def check_layouts(world: ClusterWorld, done: Applied) -> None:
    for name, layout in running_layouts(world).items():
        most = done.after.jobs[name].open_tasks[0].max
        require(most is not None and most >= layout.nodes, KEEPS_LAYOUT, (name, most, layout.nodes))
    goes_on = isinstance(done.entry, FitJob) and not done.entry.anew
    if goes_on or isinstance(done.entry, ResizeJob | JobResized):
        tagged = is_tagged(done.after)
        before, now = done.before.places(), done.after.places()
        used = Counter(place.agent for place in now.values())
        for unit in sorted(set(before) & set(now)):
            goes_on = before[unit] == now[unit] or tagged or unit[0] != done.entry.job or unit[1] == STANDBY
            # As tags can, so can agents on which others could not run.
            goes_on = goes_on or (bool(done.after.bad) and not _may_stay(done, unit, used))
            require(goes_on, STAYING_GO_ON, (unit, before[unit], now[unit]))


def check_no_needless_wait(value: Replica) -> None:
    jobs = value.active()
    free = sum(agent.slots for agent in value.usable().values()) - len(value.places())
    held = Counter(unit[0] for unit in value.places())
    percent = spare = 0
    for at, job in enumerate(jobs):
        if runs(value, job):
            percent += job.percentage
            spare += max(0, held[job.name] - least(job))
            continue
        if value.policy.scheduler is Scheduler.PERCENTAGE and percent + job.percentage > 100:
            continue
        room = free + held[job.name] + sum(held[other.name] for other in jobs[at + 1 :])
        room += 0 if value.policy.scheduler is Scheduler.GREEDY else spare
        require(room < least(job), NO_NEEDLESS_WAIT, (job.name, room, least(job)))


def check_requests(world: ClusterWorld, done: Applied) -> None:
    if isinstance(done.entry, SubmitJob | KillJob | ResizeJob | SetStandbys | SetBounds):
        request = (done.entry.job, done.entry.request)
        world.carried_out[request] += 1
        require(world.carried_out[request] == 1, CARRIED_OUT_ONCE, request)
    if isinstance(done.entry, DrainAgent | SetPolicy):
        request = (type(done.entry).__name__, repr(done.entry))
        world.carried_out[request] += 1
        require(world.carried_out[request] == 1, CARRIED_OUT_ONCE, request)
    if isinstance(done.entry, CompleteTask):
        revision = done.before.jobs[done.entry.job].revision
        require(
            Ward(done.entry.job, revision, done.entry.task) in world.done, COMPLETED_WHEN_DONE, done.entry
        )


def check_log(world: ClusterWorld, done: Applied) -> None:
    old, new = done.before, done.after
    require(new.base.offset >= old.base.offset, FORWARD, (old.base, new.base))
    if new.base != old.base:
        require(world.marks.get(new.base.offset) == new.base.digest, CONFIRMED_IS_TRUE, new.base)
    require(new.level >= old.level, LEVELS_RISE, (old.level, new.level))
    for agent in new.agents.values():
        require(agent.levels[0] <= new.level <= agent.levels[1], LEVEL_SUPPORTED, (agent, new.level))

"""A job that its hosts could not run is tried again on all of them, once what was wrong there is put right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from kcontrol.apps.agent.fitting import Nodes, set_bounds
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.placing import want_running
from kcontrol.apps.agent.standbys import set_standbys
from kcontrol.core.cluster.entries import SubmitJob
from kcontrol.core.cluster.model import ClusterJob, JobState, Replica, Scheduler
from kcontrol.core.model import AgentPlacement
from kcontrol.errors import NotFoundError
from kcontrol.requests.record import NotNowError
from kcontrol.views.agents_facts import LoggedEntry

_BY_NOBODY = -1


async def retry(view: ClusterView, job: str) -> LoggedEntry:
    """Have nodes of a job tried again also where they could not run; one that has failed begins again, as it was submitted.

    All its processes begin anew; an active job keeps its places and its turn, and a pipeline that its user has stopped stays
    so. Asked again, it changes nothing. Raises NotFoundError: there is nothing to try again, or what `ask` raises; NotNowError.
    """
    value = await view.look()
    known, hosts = _failed(value, job), where_not(value, job)
    made = await (_again(view, job) if known.active else _anew(view, known))
    where = f" on {', '.join(hosts)}" if hosts else ""
    return replace(made, changes=(f"job {job}: its nodes are tried again{where}", *made.changes))


def where_not(value: Replica, job: str) -> Sequence[str]:
    """Hosts that could not run some node of a job, or some process that stands by for one."""
    bad = (agents for unit, agents in value.bad.items() if unit.startswith(f"{job}/"))
    return sorted({agent for agents in bad for agent in agents})


def _failed(value: Replica, job: str) -> ClusterJob:
    known = value.jobs.get(job)
    if known is None:
        raise NotFoundError(f"there is no job {job!r}: kcontrol cluster jobs shows those that there are")
    if known.state in (JobState.KILLED, JobState.COMPLETED):
        raise NotFoundError(
            f"job {job!r} is {known.state}, and has not failed: kcontrol place has it run again"
        )
    if known.active and not where_not(value, job):
        raise NotFoundError(f"no host has failed to run job {job!r}: there is nothing to try again")
    if len(known.tasks) > 1:
        raise NotNowError(
            f"job {job!r} was not submitted by kcontrol place: submit it again with something changed"
        )
    return known


async def _again(view: ClusterView, job: str) -> LoggedEntry:
    """Of an active job: that its nodes could not run somewhere is forgotten with a submission of something else. Its one task
    gets all that the job gets, however nodes are shared out among tasks, so that is what is something else; whoever submits
    the same again leaves it (`place`)."""

    def wish(value: Replica, request: str) -> SubmitJob:
        known = _failed(value, job)
        if not known.active:
            raise NotNowError(f"job {job!r} has failed just now: ask again")
        greedy = known.task_scheduler is Scheduler.GREEDY
        other = Scheduler.BALANCED if greedy else Scheduler.GREEDY
        return replace(_as_it_is(known, value, request), task_scheduler=other)

    return await view.ask(wish)


async def _anew(view: ClusterView, known: ClusterJob) -> LoggedEntry:
    """Of one that has failed, with the wishes about it that are no part of a submission."""
    job = known.name

    def wish(value: Replica, request: str) -> SubmitJob:
        if _failed(value, job) != known:
            raise NotNowError(
                f"job {job!r} was submitted by somebody else just now, which tries its nodes again"
            )
        return _as_it_is(known, value, request)

    made = await view.ask(wish)
    submission = AgentPlacement(view.replica.founded_ms, made.offset)
    await want_running(view.settings, job, submission, _BY_NOBODY)
    changes = made.changes
    if known.bounds is not None:
        nodes = Nodes(known.bounds.least, known.bounds.most, known.percentage)
        changes += (await set_bounds(view, job, nodes)).changes
    if known.standbys:
        changes += (await set_standbys(view, job, known.standbys)).changes
    return replace(made, changes=changes)


def _as_it_is(known: ClusterJob, value: Replica, request: str) -> SubmitJob:
    return SubmitJob(
        *(known.name, request, value.offset, known.package, known.tasks),
        *(known.task_scheduler, known.percentage),
    )

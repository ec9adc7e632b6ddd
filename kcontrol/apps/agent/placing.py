"""What is submitted for the cluster to run: one set of equal nodes of a pipeline, from a file that the hosts have, or with its
code."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, replace

from kcontrol.adapters.kafka.admin.cluster_topics import ensure_packages_topic
from kcontrol.adapters.kafka.logs.cluster_packages import KafkaPackages
from kcontrol.apps.agent.fitting import Nodes, needs_bounds, set_bounds, unused_percentage
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.nodes import FILE, PACKAGES_TAG, check_file
from kcontrol.apps.agent.resizing import can_go_on_with, nodes_at_work, resize
from kcontrol.apps.agent.standbys import needs_standbys, set_standbys
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.cluster.entries import SubmitJob
from kcontrol.core.cluster.explain import explain
from kcontrol.core.cluster.model import ClusterJob, Replica, Scheduler, TaskSpec
from kcontrol.core.model import AgentPlacement, DesiredMode
from kcontrol.errors import ClusterError, KcontrolError, NotFoundError, RetriableError, TopicError
from kcontrol.requests.endings import asked_by_users, to_run_again
from kcontrol.requests.record import NotNowError, record
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import LoggedEntry
from kcontrol.wire.package_signatures import PackageSignature
from kcontrol.wire.packages import PACKAGE, CodePackage


@dataclass(frozen=True, slots=True)
class JobCode:
    """What hosts are given, and who stands for it; None: nobody."""

    package: CodePackage
    signature: PackageSignature | None = None


TASK = "nodes"
UPLOAD_TIMEOUT_S = 120.0


async def place(
    view: ClusterView,
    job: str,
    nodes: int | Nodes,
    code: str | JobCode,
    tags: tuple[str, ...] | None = None,
    standbys: int | None = None,
) -> LoggedEntry:
    """Have the cluster run it; the same again changes nothing, and says so of what its user has stopped. Something else runs,
    though its pipeline was stopped, as that of a job that was completed is. With another number of nodes alone those that stay
    go on, where the pipeline can be changed while it runs.

    nodes: so many, or between which numbers they follow the size of the cluster; then it begins with what it has, or with the
    least. code: the path of a file below the hosts' folders, or what they are given. tags: what a host must have; None: those
    that the job has asked for so far. standbys: so many processes stand by for its nodes; None: as many as there are. Raises
    NotFoundError, ClusterError, ConfigurationError, NotNowError.
    """
    wanted = nodes if isinstance(nodes, Nodes) else Nodes(nodes, nodes)
    if standbys:
        await needs_standbys(view)
    if wanted.follows:
        await needs_bounds(view, job, wanted)
    begins = wanted.to_begin_with((await view.look()).jobs.get(job))
    made = await _place(view, job, begins, code, tags)
    if not wanted.are_those_of(view.replica.jobs[job]):
        bounds = await set_bounds(view, job, wanted)
        more = filter(None, (unused_percentage(view.replica, wanted),))
        made = replace(bounds, changes=(*made.changes, *bounds.changes, *more))
    if standbys is None or view.replica.jobs[job].standbys == standbys:
        return made
    stands = await set_standbys(view, job, standbys)
    return replace(stands, changes=(*made.changes, *stands.changes))


async def _place(
    view: ClusterView, job: str, nodes: int, code: str | JobCode, tags: tuple[str, ...] | None
) -> LoggedEntry:
    package = FILE + check_file(code) if isinstance(code, str) else PACKAGE + code.package.name
    if isinstance(code, JobCode):
        await view.look()
        await _upload(view, code)

    await view.look()
    known = view.replica.jobs.get(job)
    if known is not None and known.active and known.resizable and known.nodes != nodes:
        on = (known.package, known.tasks[0].tags) == (package, tags_of(known, code, tags))
        if on and await can_go_on_with(view.settings, job, nodes):
            return await resize(view, job, nodes)
        if not on:
            await _refuse_both(view.settings, known, nodes)

    def wish(value: Replica, request: str) -> SubmitJob:
        now = value.jobs.get(job)
        task = TaskSpec(TASK, nodes, nodes, tags_of(now, code, tags))
        # Of one task it says nothing; `retry` may have changed it.
        shared = now.task_scheduler if now is not None and now.active else Scheduler.BALANCED
        return SubmitJob(job, request, value.offset, package, (task,), shared)

    asked_before = await _asked_by_users(view.settings, job)
    made = await view.ask(wish)
    if view.replica.jobs[job].revision == made.offset:
        submission = AgentPlacement(view.replica.founded_ms, made.offset)
        await want_running(view.settings, job, submission, asked_before)
        return made
    unchanged = (_stuck(view.replica, job), await _stays(view.settings, job))
    return replace(made, changes=(*made.changes, *filter(None, unchanged)))


def _stuck(value: Replica, job: str) -> str:
    """Why a job waits that its hosts could not run, in words; '' if none could not."""
    if not any(unit.startswith(f"{job}/") for unit in value.bad):
        return ""
    why = explain(value, value.jobs[job])
    return f"job {job} waits: {why}" if why else ""


def tags_of(known: ClusterJob | None, code: str | JobCode, said: tuple[str, ...] | None) -> tuple[str, ...]:
    """What a host must have: what was said, or what the job asked for so far, be it that it has ended; and that it runs
    packages, if it is to run one."""
    tags = said
    if tags is None:
        tags = () if known is None else known.tasks[0].tags
        if known is not None and known.package.startswith(PACKAGE):
            tags = tuple(tag for tag in tags if tag != PACKAGES_TAG)
    return tags if isinstance(code, str) else tuple(sorted({*tags, PACKAGES_TAG}))


async def _refuse_both(settings: ClusterSettings, known: ClusterJob, nodes: int) -> None:
    """Raise NotNowError where processes that begin with other code could not begin with another number of nodes."""
    now = await nodes_at_work(settings, known.name)
    if now not in (0, nodes) and await can_go_on_with(settings, known.name, nodes):
        raise NotNowError(
            f"job {known.name!r} is to run other code, and with {nodes} nodes in place of {now}: ask for one after the other, "
            f"first for the code (--nodes {now}). Nothing was changed"
        )


async def _upload(view: ClusterView, code: JobCode) -> None:
    """Before anybody is told to run it; and delete what nobody runs any more."""
    named = {job.package.removeprefix(PACKAGE) for job in view.replica.jobs.values()}
    await asyncio.to_thread(ensure_packages_topic, view.settings)
    packages = KafkaPackages(view.settings)
    try:
        async with asyncio.timeout(UPLOAD_TIMEOUT_S):
            await packages.save(code.package)
            if code.signature is not None:
                await packages.sign(code.signature)
            await packages.forget({code.package.name, *named})
    except (RetriableError, TimeoutError) as error:
        raise ClusterError(
            f"the package could not be written to Kafka: {error or 'no answer'}; try again"
        ) from error
    finally:
        await packages.close()


async def _asked_by_users(settings: ClusterSettings, job: str) -> int:
    with suppress(TopicError):  # Nothing was ever submitted in this Kafka.
        async with pipeline_logs(settings, job) as logs:
            if await logs.is_there():
                return asked_by_users(logs.view)
    return -1


async def want_running(
    settings: ClusterSettings, job: str, submission: AgentPlacement, asked_before: int
) -> None:
    with suppress(TopicError):
        async with pipeline_logs(settings, job) as logs:
            if not await logs.is_there():
                return
            requests = to_run_again(logs.view, submission, asked_before)
            if requests:
                await record(logs.control, requests)


async def _stays(settings: ClusterSettings, job: str) -> str:
    """That a user has asked a pipeline to make no steps, in words; '' if nobody has, or it can't be told now."""
    with suppress(KcontrolError):
        async with pipeline_logs(settings, job) as logs:
            desired = logs.view.desired() if await logs.is_there() else None
            if desired is not None and desired.mode is not DesiredMode.RUNNING and desired.wish is None:
                return f"pipeline {job} stays {desired.mode}, as its user has asked: kcontrol resume {job} has it run"
    return ""


async def place_if_there_are_agents(
    settings: ClusterSettings,
    job: str,
    nodes: int | Nodes,
    code: str | JobCode,
    wanted: bool | None,
    standbys: int | None = None,
    tags: tuple[str, ...] | None = None,
) -> LoggedEntry | None:
    """After a pipeline was submitted. None, and nothing is done, where there are no agents, or it is not wanted.

    wanted: None: if there are members now. Raises NotFoundError if it must be and there are none, and what
    `place` raises.
    """
    if wanted is False:
        return None
    view = ClusterView(settings)
    try:
        if await view.exists() and (await view.look()).members:
            return await place(view, job, nodes, code, tags, standbys)
    finally:
        await view.close()
    if wanted:
        raise NotFoundError(
            "the cluster has no agents: start `kcontrol agent` on a host, or leave out --place"
        )
    return None

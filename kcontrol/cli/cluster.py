"""`kcontrol cluster`, `place`, `kill` and `drain`: the cluster of agents, looked at and asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import click

from kcontrol.apps.agent.looking import ClusterView, LoggedEntry, Wish
from kcontrol.apps.agent.nodes import FILE, check_agent_name, check_file
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.core.cluster.entries import Drain, KillJob, SubmitJob
from kcontrol.core.cluster.explain import explain
from kcontrol.core.cluster.liveness import Beat
from kcontrol.core.cluster.model import ClusterJob, Replica, TaskSpec
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.names import check_pipeline_name

WHAT = ("status", "agents", "jobs", "log")
TASK = "nodes"

Facts = dict[str, Any]


@click.command()
@click.argument("what", type=click.Choice(WHAT), default="status")
@click.option(
    "--last", type=click.IntRange(1), default=50, show_default=True, help="Of `log`: so many newest entries."
)
@cluster_option
@json_option
@debug_option
def cluster(what: str, last: int, cluster: ClusterSettings, as_json: bool) -> None:
    """Show the cluster of agents: its `status`, its `agents`, its `jobs` and why one waits, or its `log` with
    what each entry changed.

    \b
    Example:  kcontrol cluster jobs
    """

    async def look(view: ClusterView) -> list[tuple[str, Facts]]:
        value = await view.look()
        if what == "log":
            return [_entry(one) for one in view.entries[-last:]]
        found = [] if what == "jobs" else list(_agents(value, await view.newest_beats()))
        return found + ([] if what == "agents" else list(_jobs(value)))

    lines = asyncio.run(_with_view(cluster, look))
    for text, facts in lines:
        click.echo(json.dumps(facts) if as_json else text)
    if not lines and not as_json:
        click.echo("nothing")


@click.command()
@click.argument("file")
@click.option("--job", required=True, help="The job's name: that of the pipeline.")
@click.option("--nodes", type=click.IntRange(1), default=1, show_default=True, help="How many nodes it has.")
@click.option("--tags", default="", metavar="A,B", help="What an agent must have, to run one of them.")
@cluster_option
@json_option
@debug_option
def place(file: str, job: str, nodes: int, tags: str, cluster: ClusterSettings, as_json: bool) -> None:
    """Have the cluster run FILE, a path below the folder that its agents run files from (`kcontrol agent
    --files`), and keep it running. The same again changes nothing; something else replaces what runs.

    \b
    Example:  kcontrol place flights.py --job flights --nodes 3
    """
    check_pipeline_name(job)
    found = tuple(check_agent_name("tag", tag) for tag in filter(None, tags.split(",")))
    package = FILE + check_file(file)
    task = TaskSpec(TASK, nodes, nodes, found)

    def wish(value: Replica, request: str) -> SubmitJob:
        return SubmitJob(job, request, value.offset, package, (task,))

    _ask(cluster, wish, as_json)


@click.command()
@click.argument("job")
@cluster_option
@json_option
@debug_option
def kill(job: str, cluster: ClusterSettings, as_json: bool) -> None:
    """End the nodes of a job that `kcontrol place` submitted. What its pipeline has committed stays.

    \b
    Example:  kcontrol kill flights
    """
    _ask(cluster, lambda value, request: KillJob(job, request, value.offset), as_json)


@click.command()
@click.argument("agent")
@click.option("--off", is_flag=True, help="Let it have nodes again.")
@cluster_option
@json_option
@debug_option
def drain(agent: str, off: bool, cluster: ClusterSettings, as_json: bool) -> None:
    """Move all nodes away from an agent's host, before it is shut down.

    \b
    Example:  kcontrol drain host-7
    """
    _ask(cluster, lambda _value, _request: Drain(agent, not off), as_json)


def _ask(cluster: ClusterSettings, wish: Wish, as_json: bool) -> None:
    async def ask(view: ClusterView) -> LoggedEntry:
        return await view.ask(wish)

    text, facts = _entry(asyncio.run(_with_view(cluster, ask)))
    click.echo(json.dumps(facts) if as_json else text)


async def _with_view(cluster: ClusterSettings, work: Callable[[ClusterView], Any]) -> Any:
    view = ClusterView(cluster)
    try:
        return await work(view)
    finally:
        await view.close()


def _entry(one: LoggedEntry) -> tuple[str, Facts]:
    at = datetime.fromtimestamp(one.at_ms / 1000, UTC).isoformat(timespec="seconds")
    what = f"rejected: {one.rejection}" if one.rejection else "; ".join(one.changes) or "nothing changed"
    facts = {"offset": one.offset, "at_ms": one.at_ms, "kind": one.kind}
    return f"{one.offset:6} {at} {one.kind}: {what}", facts | {
        "rejected": one.rejection,
        "changes": list(one.changes),
    }


def _agents(value: Replica, beats: Sequence[Beat]) -> Iterator[tuple[str, Facts]]:
    applied = {(beat.agent, beat.incarnation): beat.applied for beat in beats}
    placed = value.places().values()
    for agent in sorted(value.agents.values(), key=lambda one: one.name):
        used = sum(place.agent == agent.name for place in placed)
        read = applied.get((agent.name, agent.incarnation))
        facts: Facts = {
            "agent": agent.name,
            "stage": str(value.stage(agent.name)),
            "slots": agent.slots,
            "used": used,
            "tags": list(agent.tags),
            "draining": agent.draining,
            "coordinator": any(place.agent == agent.name for place in value.coordinators),
            "watches": value.pairs.get(agent.name),
            "behind": None if read is None else max(0, value.offset - read),
        }
        words = [f"agent {agent.name}: {facts['stage']}, {used} of {agent.slots} slots"]
        words += [f"tags {', '.join(agent.tags)}"] if agent.tags else []
        words += ["coordinator"] if facts["coordinator"] else []
        words += ["draining"] if agent.draining else []
        words += [f"watches {facts['watches']}"] if facts["watches"] else []
        yield ", ".join(words), facts


def _jobs(value: Replica) -> Iterator[tuple[str, Facts]]:
    for job in sorted(value.jobs.values(), key=lambda one: one.id):
        why = explain(value, job)
        places = {
            f"{task}/{index}": None if place is None else place.agent
            for task, all_ in value.allocations.get(job.name, {}).items()
            for index, place in enumerate(all_)
        }
        facts: Facts = {
            "job": job.name,
            "state": str(job.state),
            "package": job.package,
            "revision": job.revision,
            "places": places,
            "waits": why,
            "error": job.error,
        }
        yield f"job {job.name}: {_how(job, places, why)}", facts


def _how(job: ClusterJob, places: Facts, why: str) -> str:
    if not job.active:
        return f"{job.state}" + (f": {job.error}" if job.error else "")
    if why:
        return f"waits: {why}"
    return ", ".join(f"{unit} on {agent}" for unit, agent in places.items())

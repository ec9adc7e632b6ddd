"""`kcontrol cluster`, `place`, `kill` and `drain`: the cluster of agents, looked at and asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from kcontrol.apps.agent.configuring import configure
from kcontrol.apps.agent.configuring import drain as drain_agent
from kcontrol.apps.agent.endings import kill as kill_job
from kcontrol.apps.agent.fitting import Nodes
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.nodes import check_file
from kcontrol.apps.agent.placing import place as place_job
from kcontrol.apps.agent.retrying import retry as retry_job
from kcontrol.cli.code import include_option, package_option, packed, requirements_option, sign_option
from kcontrol.cli.node_range import asked_nodes, nodes_range_options
from kcontrol.cli.options import cluster_option, debug_option, json_option, standbys_option
from kcontrol.cli.tags import tags_option
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import (
    AgentFacts,
    JobFacts,
    LoggedEntry,
    PolicyFacts,
    agents_of,
    entry_of,
    jobs_of,
    policy_of,
)
from kcontrol.wire.names import check_pipeline_name

WHAT = ("status", "agents", "jobs", "log", "configure", "retry")

Facts = dict[str, Any]


@click.command()
@click.argument("what", type=click.Choice(WHAT), default="status")
@click.argument("job", required=False)
@click.option(
    "--last", type=click.IntRange(1), default=50, show_default=True, help="Of `log`: so many newest entries."
)
@click.option(
    "--set",
    "changes",
    multiple=True,
    metavar="NAME=VALUE",
    help="Of `configure`: what all agents are to do alike, as `status` shows it.",
)
@cluster_option
@json_option
@debug_option
def cluster(
    what: str, job: str | None, last: int, changes: tuple[str, ...], cluster: ClusterSettings, as_json: bool
) -> None:
    """Show the cluster of agents: its `status`, its `agents`, its `jobs` and why one waits, or its `log` with
    what each entry changed; or `configure` what all its agents do alike, or have a JOB that hosts could not run
    tried again there with `retry`, once what was wrong is put right.

    \b
    Example:  kcontrol cluster jobs
              kcontrol cluster configure --set scheduler=greedy --set beat_ms=1000
              kcontrol cluster retry flights
    """
    if (job is None) == (what == "retry"):
        raise click.UsageError(
            "say which JOB: kcontrol cluster retry JOB" if job is None else "JOB is for `retry`"
        )
    if job is not None:
        name = job
        _show(asyncio.run(_with_view(cluster, lambda view: retry_job(view, name))), as_json)
        return
    if what == "configure":
        asked = asyncio.run(_with_view(cluster, lambda view: configure(view, changes)))
        _show(asked, as_json)
        return
    if changes:
        raise click.UsageError("--set is for `kcontrol cluster configure`")

    async def look(view: ClusterView) -> list[tuple[str, Facts]]:
        if what == "log":
            await view.look()
            return [_entry(one) for one in list(view.entries)[-last:]]
        seen = await view.seen()
        value = seen.replica
        agents = [] if what == "jobs" else agents_of(seen)
        jobs = [] if what == "agents" else jobs_of(value, seen.entries)
        policy = [policy_of(value)] if what == "status" and value.agents else []
        shown: list[PolicyFacts | AgentFacts | JobFacts] = [*policy, *agents, *jobs]
        return [(one.text, one.model_dump(mode="json")) for one in shown]

    lines = asyncio.run(_with_view(cluster, look))
    for text, facts in lines:
        click.echo(json.dumps(facts) if as_json else text)
    if not lines and not as_json:
        click.echo("nothing")


@click.command()
@click.argument("file")
@package_option
@include_option
@requirements_option
@sign_option
@click.option("--job", required=True, help="The job's name: that of the pipeline.")
@nodes_range_options("1", "How many nodes it has.")
@standbys_option
@tags_option
@cluster_option
@json_option
@debug_option
def place(
    file: str,
    with_code: bool,
    included: tuple[Path, ...],
    requirements: Path | None,
    key: Path | None,
    job: str,
    nodes: Nodes,
    percentage: int | None,
    standbys: int | None,
    tags: tuple[str, ...] | None,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Have the cluster run FILE, a path below the folder that its agents run files from (`kcontrol agent
    --files`), or with --package a file here, and keep it running. The same again changes nothing; something
    else replaces what runs.

    \b
    Example:  kcontrol place flights.py --job flights --nodes 3
              kcontrol place flights.py --job flights --nodes 3 --standby 1
              kcontrol place flights.py --job flights --nodes 2.. --percentage 75
    """
    wanted = asked_nodes(nodes, percentage) or nodes
    check_pipeline_name(job)
    code = packed(Path(file), with_code, included, requirements, key) or check_file(file)
    made = asyncio.run(_with_view(cluster, lambda view: place_job(view, job, wanted, code, tags, standbys)))
    _show(made, as_json)


@click.command()
@click.argument("job")
@cluster_option
@json_option
@debug_option
def kill(job: str, cluster: ClusterSettings, as_json: bool) -> None:
    """End the nodes of a job that `kcontrol place` submitted, and stop its pipeline. What that has committed stays.

    \b
    Example:  kcontrol kill flights
    """
    _show(asyncio.run(_with_view(cluster, lambda view: kill_job(view, job))), as_json)


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
    _show(asyncio.run(_with_view(cluster, lambda view: drain_agent(view, agent, not off))), as_json)


def _show(made: LoggedEntry, as_json: bool) -> None:
    text, facts = _entry(made)
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
    return f"{one.offset:6} {at} {one.kind}: {what}", entry_of(one).model_dump(mode="json")

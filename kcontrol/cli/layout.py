"""`kcontrol layout`: another number of nodes, or of shards, for a pipeline that keeps state."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import click

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.apps.agent.resizing import fix_nodes, nodes_at_work, placed_job, resize_and_follow
from kcontrol.apps.layout import LayoutPlan, bytes_moved, change_layout, plan_layout
from kcontrol.apps.live_layout import NumberTakenError, change_live, is_at_work, plan_live
from kcontrol.apps.live_layout import withdraw as withdraw_live
from kcontrol.apps.lost_nodes import LostStarter, plan_lost
from kcontrol.apps.resharding import MB, MB_PER_S, Recut, Rewritten, dropped, estimated_s, recut
from kcontrol.cli.lost_node import (
    leave_lost_out,
    lost_facts,
    lost_lines,
    lost_starter,
    say_left_out,
    start_option,
)
from kcontrol.cli.options import cluster_option, debug_option, json_option, nodes_dir, work_dir_option
from kcontrol.core.model import Assignment, LayoutPhase, LayoutStatus
from kcontrol.definition.durations import duration_ms
from kcontrol.errors import CommitUnknownError, ConfigurationError, KcontrolError
from kcontrol.requests.resizing import ForAgents, refuse_beside_agents
from kcontrol.settings.cluster import ClusterSettings


class _Shards(click.ParamType):
    name = "number or auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "auto":
            return value
        return click.IntRange(1).convert(value, param, ctx)


class Duration(click.ParamType):
    """Such as 15 min; in milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return duration_ms(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.command()
@click.argument("pipeline")
@click.option("--nodes", type=click.IntRange(1), help="How many nodes there are to be.")
@click.option(
    "--without",
    type=click.IntRange(0),
    metavar="NODE",
    help="Leave this node out: what it has is dealt to the others. The one with the highest number takes its number; while the "
    "pipeline runs, a process that waits for that on its host does (kcontrol node --instead). If its host is lost, its number "
    "is started elsewhere first.",
)
@start_option
@click.option(
    "--replace",
    "replaced",
    type=click.IntRange(0),
    metavar="NODE",
    multiple=True,
    help="Of a pipeline that runs: this node is to be the process that waits for that (kcontrol node --instead). Repeatable.",
)
@click.option(
    "--shards",
    type=_Shards(),
    metavar="NUMBER|auto",
    help="How many shards there are to be: as many as now, doubled or halved, again and again. auto: 4 for each node or more, "
    "a power of two; fewer than now only if a quarter would do.",
)
@click.option(
    "--max-minutes",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    help="With --shards: if cutting the state would take longer, or does, nothing is changed.",
)
@click.option(
    "--timeout",
    "timeout_ms",
    type=Duration(),
    default="15 min",
    show_default=True,
    metavar="DURATION",
    help="Of a pipeline that runs: if not all who are to be nodes are ready by then, nothing is changed.",
)
@click.option("--withdraw", is_flag=True, help="Of a pipeline that runs: give up what was asked for before.")
@click.option(
    "--master",
    metavar="URL",
    help="With --shards, and of what is started for a lost node: Spark master. Default: local[*].",
)
@click.option("--plan", "only_plan", is_flag=True, help="Show what would move, and change nothing.")
@work_dir_option
@cluster_option
@json_option
@debug_option
def layout(
    pipeline: str,
    nodes: int | None,
    without: int | None,
    command: str | None,
    replaced: tuple[int, ...],
    shards: int | Literal["auto"] | None,
    max_minutes: float,
    master: str | None,
    timeout_ms: int,
    withdraw: bool,
    only_plan: bool,
    work_dir: Path | None,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Divide the state, inputs and outputs of a pipeline over another number of nodes, or its state into another number of
    shards.

    While it runs: start a process for each new node (kcontrol node FILE --node N --new; agents do), then say how many there
    are to be. State is copied while steps go on; then all go on by the new layout, and who is left out ends. Until then
    nothing is changed. The command shows how far it is; what it has asked for goes on if it is ended. A node whose host is
    lost is left out by --without on a host that is left; ended at any point, give it again.

    Of a stopped pipeline: nothing is copied yet; each node takes what it lacks from the checkpoint of the last step, which
    `kcontrol stop` has made. Start all of them with the new number (--nodes, or nodes= in the definition).

    With --shards Spark writes that state anew, here and now. Start the pipeline with Layout(shuffle_partitions=) of it.

    \b
    Example:  kcontrol layout flights --nodes 3

    Of a stopped pipeline it is one of three: kcontrol stop flights, this, kcontrol run flights.py --nodes 3.
    """
    if withdraw:
        asyncio.run(_withdraw(cluster, pipeline))
        return
    _refuse_several(nodes is None, without is None, shards is None, not replaced)
    own = own_checkpoints(nodes_dir(work_dir))
    if shards is None and asyncio.run(is_at_work(cluster, pipeline)):
        starts = lost_starter(pipeline, command, without, cluster, nodes_dir(work_dir), master)
        asked = _LiveAsked(cluster, pipeline, nodes, without, replaced, own, starts)
        _while_it_runs(asked, timeout_ms, only_plan, as_json)
        return
    if replaced:
        raise ConfigurationError(
            f"pipeline {pipeline!r} does not run: just start node {replaced[0]} elsewhere; it takes what it needs from the "
            "checkpoint"
        )
    plan = asyncio.run(plan_layout(cluster, pipeline, nodes, without, own, shards))
    _refuse_long(plan, max_minutes)
    if only_plan:
        _say(plan, False, None, as_json)
        return
    rewritten = _rewritten(plan, own, master, max_minutes, as_json)
    made = _changed(cluster, plan, rewritten, own)
    _say(plan, made is not None, rewritten, as_json)


@dataclass(frozen=True, slots=True)
class _LiveAsked:
    """Of a pipeline that runs. own: where nodes of this machine have their own checkpoints. starts: the number of a lost
    node."""

    cluster: ClusterSettings
    pipeline: str
    nodes: int | None
    without: int | None
    replaced: tuple[int, ...]
    own: Path
    starts: LostStarter

    async def planned(self) -> LayoutPlan | Assignment:
        """What is to be changed; or the change by which a lost node was left out already."""
        where = self.cluster, self.pipeline
        lost = None if self.without is None else await plan_lost(*where, self.without, self.own, self.starts)
        return lost or await plan_live(*where, self.nodes, self.without, self.own, self.replaced)


def _while_it_runs(asked: _LiveAsked, timeout_ms: int, only_plan: bool, as_json: bool) -> None:
    by_agents = asyncio.run(_by_agents(asked.cluster, asked.pipeline, asked.replaced, asked.without))
    plan = asyncio.run(asked.planned())
    if isinstance(plan, Assignment):
        say_left_out(plan, asked.without, as_json)
        return
    _live(asked, plan, None if by_agents else timeout_ms, only_plan, as_json)


def _rewritten(
    plan: LayoutPlan, own: Path, master: str | None, max_minutes: float, as_json: bool
) -> Rewritten | None:
    """What was made of the state, if it has to be cut."""
    if plan.saved is None or not plan.change.cuts:
        return None
    if not as_json:
        click.echo(_estimate(plan), err=True)
    work = Recut(plan.pipeline, plan.saved, plan.change.shards_before, plan.change.owners, plan.lives)
    return recut(work, own, master, max_minutes * 60)


def _refuse_several(*left_out: bool) -> None:
    if sum(left_out) != len(left_out) - 1:
        raise ConfigurationError(
            "say either --nodes, how many there are to be, or --without, which one is left out, or --replace, or --shards, how "
            "many of those: one after the other"
        )


async def _withdraw(cluster: ClusterSettings, pipeline: str) -> None:
    """Of a job that is given another number of nodes, have its agents leave it at what its pipeline has."""
    job = await placed_job(cluster, pipeline)
    now = 0 if job is None or not job.kept else await nodes_at_work(cluster, pipeline)
    if job is None or now in (0, job.nodes):
        await withdraw_live(cluster, pipeline)
        return
    view = ClusterView(cluster)
    try:
        await fix_nodes(view, pipeline, now)
    finally:
        await view.close()


async def _by_agents(
    cluster: ClusterSettings, pipeline: str, replaced: tuple[int, ...], without: int | None
) -> bool:
    """Whether agents start and end the nodes. Raises ConfigurationError for what they can't do."""
    job = await placed_job(cluster, pipeline)
    if replaced or without is not None:
        refuse_beside_agents(job, ForAgents.NODES)
    return job is not None


def _live(
    asked: _LiveAsked, plan: LayoutPlan, timeout_ms: int | None, only_plan: bool, as_json: bool
) -> None:
    """timeout_ms: None: agents run its nodes, and ask for the change."""
    cluster = asked.cluster
    if only_plan:
        _say(plan, False, None, as_json)
        return

    def told(status: LayoutStatus) -> None:
        if as_json:
            click.echo(json.dumps(progress(status)), err=True)
        elif status.phase not in (LayoutPhase.REFUSED, LayoutPhase.GIVEN_UP):
            click.echo(progress_text(plan.pipeline, status), err=True)

    try:
        if timeout_ms is None:
            status = asyncio.run(resize_and_follow(cluster, plan.pipeline, plan.change.nodes, told))
            plan = replace(plan, step=status.step, copied_bytes=status.total_bytes)
        elif plan.lost is not None:
            plan = leave_lost_out(cluster, plan, asked.starts, timeout_ms, told, as_json)
        else:
            plan = asyncio.run(change_live(cluster, plan, timeout_ms, told))
    except NumberTakenError as taken:
        facts = {"pipeline": plan.pipeline, "changed": False, "text": str(taken)}
        click.echo(json.dumps(facts) if as_json else str(taken))
        return
    _say(plan, True, None, as_json, live=True)


def progress(status: LayoutStatus) -> dict[str, Any]:
    """How far a change is, for machines."""
    return {
        "phase": status.phase.value,
        "nodes": status.nodes,
        "step": status.step,
        "moved_shards": status.moved_shards,
        "copied_bytes": status.copied_bytes,
        "total_bytes": None if status.total_bytes < 0 else status.total_bytes,
        "seconds_left": None if status.seconds_left < 0 else status.seconds_left,
        "text": status.text,
    }


def progress_text(pipeline: str, status: LayoutStatus) -> str:
    """How far a change is, for people."""
    size = (
        "" if status.total_bytes < 0 else f", {status.copied_bytes:,} of {status.total_bytes:,} bytes copied"
    )
    left = "" if status.seconds_left <= 0 else f", about {status.seconds_left} s left"
    why = f": {status.text}" if status.text else ""
    return f"pipeline {pipeline}: {status.phase.value}, {status.moved_shards} shards move{size}{left}{why}"


def _changed(
    cluster: ClusterSettings, plan: LayoutPlan, rewritten: Rewritten | None, own: Path
) -> Assignment:
    parts = () if rewritten is None else rewritten.parts
    try:
        return asyncio.run(change_layout(cluster, plan, parts))
    except CommitUnknownError:
        raise  # The record may be there, and name them.
    except KcontrolError:
        if plan.saved is not None:
            dropped(plan.saved, parts, own)
        raise


def _refuse_long(plan: LayoutPlan, max_minutes: float) -> None:
    seconds = estimated_s(plan.rewritten_bytes) if plan.rewritten_bytes > 0 else 0.0
    if seconds > max_minutes * 60:
        raise ConfigurationError(
            f"pipeline {plan.pipeline!r}: {_estimate(plan)}, and --max-minutes is {max_minutes:g}: give it a larger number to "
            "wait for so long. Nothing was changed"
        )


def _estimate(plan: LayoutPlan) -> str:
    if plan.rewritten_bytes < 0:
        return "how much state there is to be cut is not known here"
    size_mb, seconds = plan.rewritten_bytes / MB, estimated_s(plan.rewritten_bytes)
    return f"{size_mb:.1f} MB of state are to be cut anew, which takes about {seconds:.0f} s at {MB_PER_S:g} MB/s"


@dataclass(frozen=True, slots=True)
class _Speed:
    seconds: float
    mb_per_s: float


def _speed(plan: LayoutPlan, rewritten: Rewritten) -> _Speed:
    size_mb = max(plan.rewritten_bytes, 0) / MB
    return _Speed(round(rewritten.seconds, 3), round(size_mb / max(rewritten.seconds, 1e-6), 6))


def _say(
    plan: LayoutPlan, done: bool, rewritten: Rewritten | None, as_json: bool, *, live: bool = False
) -> None:
    facts = {**_facts(plan, done, rewritten), "live": live}
    click.echo(json.dumps(facts) if as_json else _text(plan, done, rewritten, live))


def _facts(plan: LayoutPlan, done: bool, rewritten: Rewritten | None) -> dict[str, Any]:
    change, state_bytes = plan.change, plan.rewritten_bytes
    speed = None if rewritten is None else _speed(plan, rewritten)
    return {
        "pipeline": plan.pipeline,
        "changed": done,
        "assignment": plan.number,
        "after_step": plan.step,
        "nodes_before": change.before,
        "nodes": change.nodes,
        "replaced": list(plan.replaced),
        "lost": lost_facts(plan),
        "renumbered": None
        if change.renumbered is None
        else {"node": change.renumbered[0], "becomes": change.renumbered[1]},
        "shards_before": change.shards_before,
        "shards": len(change.owners),
        "owners": list(change.owners),
        "moves": [
            {"shard": move.shard, "from": move.from_, "to": move.to, "bytes": bytes_moved(plan, move)}
            for move in change.moves
        ],
        "moved_bytes": None if plan.moved_bytes < 0 else plan.moved_bytes,
        "moved_input_partitions": change.moved_inputs,
        "moved_output_partitions": change.moved_outputs,
        "rewritten_bytes": None if state_bytes < 0 else state_bytes,
        "estimated_seconds": round(estimated_s(state_bytes), 1) if state_bytes > 0 else None,
        "seconds": None if speed is None else speed.seconds,
        "mb_per_second": None if speed is None else speed.mb_per_s,
    }


def _text(plan: LayoutPlan, done: bool, rewritten: Rewritten | None, live: bool = False) -> str:
    change = plan.change
    size = "bytes not known here" if plan.moved_bytes < 0 else f"{plan.moved_bytes:,} bytes"
    what = f"{change.before} nodes -> {change.nodes}"
    if change.cuts:
        what = f"{change.shards_before} shards -> {len(change.owners)} on {change.nodes} nodes"
    lines = [
        (
            f"pipeline {plan.pipeline}: {what} after step {plan.step}: "
            f"{len(change.moves)} of {change.finer} shards move ({size}), {change.moved_inputs} partitions of inputs, "
            f"{change.moved_outputs} of outputs"
        )
    ]
    for move in change.moves:
        known = bytes_moved(plan, move)
        told = "" if known is None else f", {known:,} bytes"
        lines.append(f"  shard {move.shard}: node {move.from_} -> node {move.to}{told}")
    for node in plan.replaced if change.renumbered is None else ():
        lines.append(f"  node {node} is another process, with all that it has")
    lines += lost_lines(plan, done=done)
    if change.renumbered is not None:
        was, now = change.renumbered
        lines.append(
            f"  node {now} is another process, which has what node {was} had"
            if plan.replaced
            else f"  node {was} keeps what it has, and is number {now} from now on"
        )
    if rewritten is not None:
        speed = _speed(plan, rewritten)
        lines.append(f"  its state was cut anew in {speed.seconds:.1f} s, {speed.mb_per_s:.1f} MB/s")
    elif change.cuts and plan.saved is not None:
        lines.append(f"  {_estimate(plan)}")
    lines.append(_next(plan, live) if done else "nothing was changed")
    return "\n".join(lines)


def _next(plan: LayoutPlan, live: bool) -> str:
    change, command = plan.change, f"kcontrol layout {plan.pipeline}"
    if live and change.renumbered is not None:
        last, taken = change.renumbered
        return f"changed; its nodes go on by it, and the processes that were nodes {taken} and {last} end"
    if live and plan.replaced:
        return "changed; its nodes go on by it, and the processes that were these nodes end"
    if live:
        return f"changed; its nodes go on by it. Give its file nodes = {change.nodes}"
    if change.cuts:
        return (
            f"changed; start it with Layout(shuffle_partitions={len(change.owners)}); {command} --shards "
            f"{change.shards_before} goes back"
        )
    return f"changed; start it with nodes = {change.nodes}; {command} --nodes {change.before} before its next step goes back"

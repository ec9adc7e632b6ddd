"""`kcontrol region`: several pipelines that are brought to one moment again and again, and what is kept of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import click

from kcontrol.apps.regions.asking import (
    ask_region,
    delete_region,
    region_reader,
    request_of,
)
from kcontrol.apps.regions.defining import apply_region
from kcontrol.apps.show import time_text
from kcontrol.cli.inputs import asked_by
from kcontrol.cli.options import cluster_option, debug_option, json_option, timeout_option
from kcontrol.cli.region_rollback import rollback
from kcontrol.core.regions.log_view import RegionLogView
from kcontrol.core.regions.model import DrainMode, MemberPart
from kcontrol.core.regions.records import RegionCut, RegionDefinition, RegionRecord, RegionRequestKind
from kcontrol.definition.durations import span_text
from kcontrol.definition.region_file import region_settings
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.shapes import to_plain


@click.group()
def region() -> None:
    """Regions: named sets of pipelines that are brought to one moment, again and again, or when somebody asks. `kcontrol
    region-controller` does so; these commands define, ask and look.

    \b
    Example:  kcontrol region status end-of-day
    """


@region.command()
@click.argument("file", type=click.Path(path_type=Path))
@cluster_option
@json_option
@debug_option
def apply(file: Path, cluster: ClusterSettings, as_json: bool) -> None:
    """Define the region in FILE, a TOML file with its name, its pipelines and its times; or define it anew. The same again
    changes nothing.

    \b
    Example:  kcontrol region apply end-of-day.toml
    """
    settings = region_settings(file)
    is_new = asyncio.run(apply_region(cluster, settings, asked_by()))
    if as_json:
        click.echo(json.dumps({"region": settings.region, "changed": is_new}))
    else:
        click.echo(f"region {settings.region}: {'defined' if is_new else 'it was so already'}")


@region.command()
@click.argument("region")
@cluster_option
@json_option
@debug_option
def status(region: str, cluster: ClusterSettings, as_json: bool) -> None:
    """Print where a region is, its newest cut, who is in charge of it, and what it waits for.

    \b
    Example:  kcontrol region status end-of-day
    """
    definition, view = asyncio.run(_look(cluster, region))
    if as_json:
        click.echo(json.dumps(_status_facts(definition, view)))
        return
    for line in _status_lines(definition, view):
        click.echo(line)


@region.command()
@click.argument("region")
@click.option("--hold", is_flag=True, help="All stay at the cut until `kcontrol region resume`.")
@click.option(
    "--as",
    "member",
    default="",
    metavar="MEMBER",
    help="Ask in the name of a pipeline, or participant, that the region's file has among its `triggers`.",
)
@timeout_option
@cluster_option
@json_option
@debug_option
def drain(
    region: str, hold: bool, member: str, timeout_s: float, cluster: ClusterSettings, as_json: bool
) -> None:
    """Bring a region's pipelines to one moment now, and print the cut once it is in the region's log. A drain that is
    interrupted is begun again. Exit code 3 if it takes too long, 9 if no attempt is left.

    \b
    Examples:  kcontrol region drain end-of-day
               kcontrol region drain end-of-day --hold
               kcontrol region drain end-of-day --as totals
    """
    request = request_of(region, RegionRequestKind.DRAIN, asked_by(), hold=hold, member=member)
    answer, view = asyncio.run(ask_region(cluster, request, timeout_s))
    _print_cut(view.cuts[answer.seq_id], as_json)


@region.command()
@click.argument("region")
@click.option("--force", is_flag=True, help="With as many attempts more as the region has.")
@timeout_option
@cluster_option
@json_option
@debug_option
def reset(region: str, force: bool, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    """Give up a drain under way and let all pipelines go on before the next one: with --force, where a region has spent its
    attempts. No step is taken back.

    \b
    Example:  kcontrol region reset end-of-day --force
    """
    request = request_of(region, RegionRequestKind.RESET, asked_by(), force=force)
    asyncio.run(ask_region(cluster, request, timeout_s))
    click.echo(json.dumps({"region": region, "reset": True}) if as_json else f"region {region}: is reset")


@region.command()
@click.argument("region")
@timeout_option
@cluster_option
@json_option
@debug_option
def resume(region: str, timeout_s: float, cluster: ClusterSettings, as_json: bool) -> None:
    """Let the pipelines go on that `kcontrol region drain --hold` has brought to a cut.

    \b
    Example:  kcontrol region resume end-of-day
    """
    request = request_of(region, RegionRequestKind.RESUME, asked_by())
    asyncio.run(ask_region(cluster, request, timeout_s))
    click.echo(json.dumps({"region": region, "resumed": True}) if as_json else f"region {region}: goes on")


@region.command()
@click.argument("region")
@click.option("--last", type=click.IntRange(1), default=20, show_default=True, help="So many newest cuts.")
@cluster_option
@json_option
@debug_option
def cuts(region: str, last: int, cluster: ClusterSettings, as_json: bool) -> None:
    """Print the cuts that are in a region's log: of each pipeline the step between which nothing is in flight.

    \b
    Example:  kcontrol region cuts end-of-day --last 5
    """
    _, view = asyncio.run(_look(cluster, region))
    for number in sorted(view.cuts)[-last:]:
        _print_cut(view.cuts[number], as_json)


@region.command()
@click.argument("region")
@cluster_option
@json_option
@debug_option
def delete(region: str, cluster: ClusterSettings, as_json: bool) -> None:
    """Remove a region's definition. Its pipelines go on by themselves; its log, with its cuts, stays in Kafka, and its numbers
    go on if it is defined again.

    \b
    Example:  kcontrol region delete end-of-day
    """
    asyncio.run(delete_region(cluster, region))
    click.echo(json.dumps({"region": region, "deleted": True}) if as_json else f"region {region}: is deleted")


region.add_command(rollback)


async def _look(cluster: ClusterSettings, name: str) -> tuple[RegionDefinition, RegionLogView]:
    async with region_reader(cluster, name) as reader:
        view = await reader.look()
        return reader.definition, view


def _plain(record: RegionDefinition | RegionRecord) -> dict[str, Any]:
    """As the schemas name it."""
    cls: type = type(record)
    values: dict[str, Any] = to_plain(cls)(record)
    return values


def _print_cut(cut: RegionCut, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(_plain(cut)))
        return
    steps = ", ".join(f"{one.pipeline} {one.step}" for one in cut.pipelines)
    click.echo(f"cut {cut.number}  {time_text(cut.made_ms)}  steps: {steps}")


def _status_facts(definition: RegionDefinition, view: RegionLogView) -> dict[str, Any]:
    return {
        "region": definition.region,
        "definition": _plain(definition),
        "newest": None if view.newest is None else _plain(view.newest),
        "controller": view.owner,
        "ended": view.has_ended,
        "beat": None if view.beat is None else _plain(view.beat),
        "cut": None if view.cut is None else _plain(view.cut),
    }


def _status_lines(definition: RegionDefinition, view: RegionLogView) -> list[str]:
    settings, newest, cut = definition.settings, view.newest, view.cut
    state = "nobody has been in charge yet" if newest is None else str(newest.state)
    held = "; held at its newest cut" if newest is not None and newest.is_held else ""
    lines = [
        f"region     {definition.region}: {state}{held}",
        f"pipelines  {', '.join(settings.members)}; {settings.trigger}"
        + (f", every {span_text(settings.period_ms)}" if settings.trigger == "periodic" else "")
        + (f", by {', '.join(settings.triggers)} and by persons" if settings.triggers else "")
        + (f"; drains are {settings.drain}" if settings.drain is DrainMode.STOPPED else ""),
    ]
    if newest is not None and newest.happened.why:
        lines.append(f"last       {newest.happened.kind}: {newest.happened.why}")
    if newest is not None and newest.rollback is not None:
        back = ", ".join(each.name for each in newest.members if each.part is MemberPart.BACK) or "none"
        lines.append(
            f"going back to cut {newest.rollback.to_cut} ({newest.rollback.why or 'no reason given'}): back so far: {back}"
        )
    if newest is not None and newest.reset_attempt:
        lines.append(f"resets     {newest.reset_attempt} of {newest.max_reset_attempts} attempts")
    if cut is not None:
        steps = ", ".join(f"{one.pipeline} {one.step}" for one in cut.pipelines)
        lines.append(f"cut        {cut.number}, {time_text(cut.made_ms)}: {steps}")
    ended = ", which has ended" if view.has_ended else ""
    lines.append(f"led by     {view.owner or 'nobody'}{ended}" + _last_word(view))
    if view.beat is not None:
        lines += [f"waits for  {each}" for each in view.beat.waits_for]
    return lines


def _last_word(view: RegionLogView) -> str:
    at_ms = max(
        (each.at_ms for each in (view.beat, view.newest) if each is not None),
        default=None,
    )
    return "" if at_ms is None else f", last heard {time_text(at_ms)}"

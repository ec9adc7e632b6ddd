"""`kcontrol region rollback`: all pipelines of a region back to a cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.apps.regions.asking import abandon_rollback, ask_region, plan_region_rollback, request_of
from kcontrol.apps.regions.going_back import BackPlan
from kcontrol.apps.regions.rollbacks import back_facts
from kcontrol.cli.inputs import asked_by
from kcontrol.cli.options import (
    cluster_option,
    debug_option,
    json_option,
    nodes_dir,
    plan_option,
    timeout_option,
    why_option,
    work_dir_option,
)
from kcontrol.core.regions.records import RegionRequestKind
from kcontrol.settings.cluster import ClusterSettings


@click.command()
@click.argument("region")
@click.option("--to-cut", type=click.IntRange(1), help="The cut after which all steps are to be void.")
@click.option(
    "--abandon",
    is_flag=True,
    help="Instead: give up the rollback under way (with --to-cut N, if it is to that cut), which can't be completed, and say "
    "which pipelines are back.",
)
@why_option
@click.option(
    "--leave-behind",
    multiple=True,
    metavar="NAME",
    help="A pipeline outside of the region that reads what void steps wrote, or 'deliveries'. Can be given several times.",
)
@plan_option
@timeout_option
@work_dir_option
@cluster_option
@json_option
@debug_option
def rollback(
    region: str,
    to_cut: int | None,
    abandon: bool,
    why: str,
    leave_behind: tuple[str, ...],
    only_plan: bool,
    timeout_s: float,
    work_dir: Path | None,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Take all pipelines of a region, which have been stopped, back to a cut: each by a reset to its step of it.

    All is checked before anything is done. Once begun it is gone on with until all are back, whoever dies meanwhile; `kcontrol
    region status` says who is. What void steps wrote in the topics between them is passed over. Then start the pipelines, with
    the code that is right.

    One that can't be completed, because one of the pipelines is no more, keeps all of them standing until it is given up with
    --abandon: whoever is back stays so, the others stay where they are, and cuts after the cut are void.

    \b
    Examples:  kcontrol region rollback end-of-day --to-cut 17 --why "wrong rate since 10:12"
               kcontrol region rollback end-of-day --abandon --why "totals was deleted"
    """
    if abandon and (only_plan or leave_behind):
        raise click.UsageError("with --abandon give --why and --to-cut, and no other option of a rollback")
    if abandon:
        _abandon(cluster, region, to_cut, why, timeout_s, as_json=as_json)
        return
    if to_cut is None:
        raise click.UsageError("give --to-cut N, or --abandon")
    own = own_checkpoints(nodes_dir(work_dir))
    plans, as_of = asyncio.run(
        plan_region_rollback(cluster, region, to_cut, leave_behind, own, timeout_s=timeout_s)
    )
    if not only_plan:
        request = request_of(region, RegionRequestKind.ROLLBACK, asked_by())
        request = replace(request, to_cut=to_cut, why=why, leave_behind=leave_behind, as_of=as_of)
        asyncio.run(ask_region(cluster, request, timeout_s))
    facts = _facts(region, to_cut, plans, done=not only_plan)
    click.echo(json.dumps(facts) if as_json else _text(facts))


def _abandon(
    cluster: ClusterSettings, region: str, to_cut: int | None, why: str, timeout_s: float, *, as_json: bool
) -> None:
    answer = asyncio.run(abandon_rollback(cluster, region, to_cut, asked_by(), why, timeout_s))
    if as_json:
        facts = {"region": region, "to_cut": answer.seq_id, "rolled_back": False, "abandoned": answer.why}
        click.echo(json.dumps(facts))
        return
    click.echo(
        f"region {region}: the rollback is given up; {answer.why}. Put those right that are not (kcontrol reset), or define "
        "the region without them, before they are started"
    )


def _facts(region: str, to_cut: int, plans: Sequence[BackPlan], *, done: bool) -> dict[str, Any]:
    return {
        "region": region,
        "to_cut": to_cut,
        "rolled_back": done,
        "pipelines": [asdict(back_facts(plan)) for plan in plans],
    }


def _text(facts: dict[str, Any]) -> str:
    done = facts["rolled_back"]
    lines = [f"region {facts['region']}: {'back' if done else 'would go back'} to cut {facts['to_cut']}"]
    for each in facts["pipelines"]:
        records = ", ".join(
            f"{count:,} records in topic {topic}" for topic, count in each["void_records"].items()
        )
        void = (
            f"steps {each['to_step'] + 1} to {each['void_to']} {'are' if done else 'would be'} void "
            f"({records or 'they wrote no records'})"
            if each["void_to"] > each["to_step"]
            else "nothing came after it"
        )
        lines.append(f"  {each['pipeline']}: step {each['to_step']}; {void}")
        lines += [f"    left behind: {name}" for name in each["left_behind"]]
        lines += [f"    not looked at: {unseen}" for unseen in each["unseen"]]
    lines.append("start the pipelines again" if done else "nothing was reset")
    return "\n".join(lines)

"""`kcontrol reset`: a pipeline back to one of its steps."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from pathlib import Path

import click

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.apps.reset import ResetPlan, facts_of, plan_reset, reset_pipeline
from kcontrol.cli.inputs import asked_by
from kcontrol.cli.options import (
    cluster_option,
    debug_option,
    json_option,
    nodes_dir,
    plan_option,
    why_option,
    work_dir_option,
)
from kcontrol.core.model import StepBoundary
from kcontrol.settings.cluster import ClusterSettings


@click.command()
@click.argument("pipeline")
@click.option(
    "--to-step",
    type=click.IntRange(1),
    required=True,
    help="The last step that is to count: all after it are void.",
)
@why_option
@click.option(
    "--leave-behind",
    multiple=True,
    metavar="NAME",
    help="A pipeline that reads what void steps wrote, or 'deliveries': it is put right otherwise. Can be given several times.",
)
@plan_option
@work_dir_option
@cluster_option
@json_option
@debug_option
def reset(
    pipeline: str,
    to_step: int,
    why: str,
    leave_behind: tuple[str, ...],
    only_plan: bool,
    work_dir: Path | None,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Take a stopped pipeline back to one of its steps: with its state, positions and watermark, in one transaction.

    All steps after it become void. Their numbers are never used again, and their records stay in the topics, where plain
    consumers go on seeing them; StepConsumer passes over them, and tells who has read some. When the pipeline is started
    again, with the code that is right, it reads on where the step ended.

    \b
    Example:  kcontrol reset flights --to-step 41 --why "wrong rate since 10:12"

    It is one of three commands: kcontrol stop flights, then this, then kcontrol run flights.py.
    """
    own = own_checkpoints(nodes_dir(work_dir))
    plan = asyncio.run(plan_reset(cluster, pipeline, to_step, leave_behind, own))
    made = None if only_plan else asyncio.run(reset_pipeline(cluster, plan, why, asked_by()))
    click.echo(json.dumps(asdict(facts_of(plan, made=made is not None))) if as_json else _text(plan, made))


def _text(plan: ResetPlan, made: StepBoundary | None) -> str:
    done = made is not None
    records = ", ".join(f"{count:,} records in topic {topic}" for topic, count in plan.written.items())
    lines = [
        f"pipeline {plan.pipeline}: {'back' if done else 'would go back'} to step {plan.to_step}; steps {plan.to_step + 1} to "
        f"{plan.last.step} {'are' if done else 'would be'} void ({records or 'they wrote no records'})"
    ]
    if plan.rerun:
        lines.append(
            f"  a node that has not kept step {plan.to_step} runs the {plan.rerun} steps after {plan.begin} again, and "
            "compares them: start it with code that gives what they gave"
        )
    lines += [f"  left behind: {reader.what}" for reader in plan.readers]
    lines += [f"  not looked at: {unseen}" for unseen in plan.unseen]
    lines.append(
        f"step {plan.last.step + 1} says so; start the pipeline again, and it goes on with step {plan.last.step + 2}"
        if done
        else "nothing was reset"
    )
    return "\n".join(lines)

"""`kcontrol verify`: run recorded steps again from nothing and compare every digest with the log."""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from kcontrol.adapters.kafka.embedded import find_java
from kcontrol.adapters.spark.engine import NodePlace, SparkEngine
from kcontrol.adapters.spark.frames import bind
from kcontrol.adapters.spark.host import DriverHost
from kcontrol.adapters.spark.session import session
from kcontrol.cli.options import cluster_option, debug_option, json_option
from kcontrol.cli.source import find_pipeline
from kcontrol.cli.view import pipeline_logs
from kcontrol.core.model import PipelineSpec, StepBoundary
from kcontrol.errors import DigestMismatchError, NotFoundError
from kcontrol.runtime.pipeline import Pipeline
from kcontrol.runtime.settings import ClusterSettings
from kcontrol.runtime.verify import Mismatch, verify_steps

SCRATCH_INCARNATION = 0


@click.command()
@click.argument("pipeline")
@click.option("--from", "first", type=click.IntRange(1), default=1, show_default=True, help="First step to compare.")
@click.option("--to", "last", type=click.IntRange(1), help="Last step to compare. Default: the last committed one.")
@click.option("--master", metavar="URL", help="Spark master. Default: local[*].")
@cluster_option
@json_option
@debug_option
def verify(pipeline: str, first: int, last: int | None, master: str | None, cluster: ClusterSettings, as_json: bool) -> None:
    """Run the recorded steps of PIPELINE again in a scratch directory, write nothing, and compare with the log.

    PIPELINE is a name, if a node of it was last started on this machine, or the pipeline's file. Exit code 0 only if every
    record count and digest agrees; 7 otherwise, and each difference is printed. Steps before --from are run too, because state
    builds up, but not compared.

    \b
    Example:  kcontrol verify flights --from 100 --to 120
    """
    definition = find_pipeline(pipeline)
    found = asyncio.run(_verify(definition, first, last, master, cluster, as_json))
    if found:
        raise DigestMismatchError(f"pipeline {definition.name!r}: {len(found)} differences from the log, the first: {found[0]}")


async def _verify(
    pipeline: Pipeline, first: int, last: int | None, master: str | None, cluster: ClusterSettings, as_json: bool
) -> list[Mismatch]:
    async with pipeline_logs(cluster, pipeline.name) as logs:
        _, committed = await logs.read()
        spec = logs.spec()
    boundaries = [logged.record for logged in committed if isinstance(logged.record, StepBoundary)]
    end = last or (boundaries[-1].step if boundaries else 0)
    if not boundaries or end < first:
        raise NotFoundError(f"pipeline {pipeline.name!r} has no step {first}: it has committed {end}")
    find_java()
    spark = await asyncio.to_thread(session, f"kcontrol verify {pipeline.name}", master)
    host = DriverHost(spark, cluster)
    differences: list[Mismatch] = []
    try:
        bound = await asyncio.to_thread(bind, pipeline, spark, host.channel.address)
        with tempfile.TemporaryDirectory(prefix="kcontrol-verify-") as scratch:
            for node in range(spec.nodes):
                place = NodePlace(node, Path(scratch))
                engine = SparkEngine(spark, bound, host, place, spec, SCRATCH_INCARNATION, _ignore, compare=_ignore)
                differences += await _verify_node(engine, spec, node, boundaries, first, end, as_json)
    finally:
        host.close()
        spark.stop()
    return differences


async def _verify_node(
    engine: SparkEngine, spec: PipelineSpec, node: int, boundaries: list[StepBoundary], first: int, last: int, as_json: bool
) -> list[Mismatch]:
    differences: list[Mismatch] = []
    try:
        async for step, found in verify_steps(spec, node, boundaries, engine, first, last):
            differences += found
            if as_json:
                facts = {"node": node, "step": step, "agrees": not found, "differences": [asdict(each) for each in found]}
                click.echo(json.dumps(facts))
            else:
                click.echo("\n".join(map(str, found)) if found else f"step {step}: agrees")
    finally:
        await engine.close()
        engine.shut_down()
    return differences


def _ignore(*_: object) -> None:
    """Nothing: `verify_steps` finds what differs, all of it, and a query that fails makes `run_step` raise."""

"""Recorded steps run again in a scratch directory: what `kcontrol verify` and `kcontrol replay` share."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import click
from pyspark.sql import SparkSession

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.adapters.java import find_java
from kcontrol.adapters.spark.channel.answers import ChannelEndpoint
from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.engine.engine import SparkEngine
from kcontrol.adapters.spark.engine.node_place import NodePlace
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.adapters.spark.session.build import session
from kcontrol.adapters.spark.session.environment import environment_of
from kcontrol.adapters.spark.sink.spool import Spool, check_local
from kcontrol.apps.before_spark import check_inputs
from kcontrol.apps.phases import LOOKING, PLANNING, STARTING_SPARK, phase
from kcontrol.apps.recorded import RecordedSteps
from kcontrol.apps.schema_book import SchemaBook
from kcontrol.core.model import Environment, PipelineSpec, StepBoundary
from kcontrol.core.step.differences import Difference
from kcontrol.core.step.environments import made_otherwise
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import DigestMismatchError
from kcontrol.replay.delivery import ReplayedStep
from kcontrol.replay.verify import verify_steps
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.places import data_home
from kcontrol.settings.scratch import scratch_directory

SCRATCH_INCARNATION = 0

_Command = TypeVar("_Command", bound=Callable[..., Any])

Report = Callable[[int, int, Sequence[Difference]], None]
"""Told of each step that was compared: node, step, differences."""

Deliver = Callable[[ReplayedStep], None]
"""Takes the records of each step that was compared, before the report of it."""


def range_options(what: str) -> Callable[[_Command], _Command]:
    """--from, --to, --master and --work-dir, as the parameters `first`, `last`, `master` and `own` (where
    nodes of this machine have their own checkpoints). `what` is done with the steps of the range."""

    def add(command: _Command) -> _Command:
        for option in (
            click.option(
                "--work-dir",
                "own",
                type=click.Path(path_type=Path),
                callback=_own_checkpoints,
                help="Where nodes of this machine work and, if they are told of no other place, save. "
                "Default: nodes/ in the user's data directory.",
            ),
            click.option("--master", metavar="URL", help="Spark master. Default: local[*]."),
            click.option(
                "--to",
                "last",
                type=click.IntRange(1),
                help=f"Last step to {what}. Default: the last committed one.",
            ),
            click.option(
                "--from",
                "first",
                type=click.IntRange(1),
                help=f"First step to {what}. Default: the oldest that can be run again.",
            ),
        ):
            command = option(command)
        return command

    return add


def _own_checkpoints(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> Path:
    return own_checkpoints((value or data_home() / "nodes").resolve())


@dataclass(frozen=True)
class RerunTarget:
    """Where steps are run again. `command` is named in Spark's application and the scratch directory."""

    command: str
    cluster: ClusterSettings
    master: str | None
    checkpoints: Path
    """Where nodes of this machine have their own."""
    as_json: bool = False
    """Nothing is said of what is being done."""


async def run_again(
    definition: Pipeline,
    recorded: RecordedSteps,
    place: RerunTarget,
    report: Report,
    deliver: Deliver | None = None,
) -> list[Difference]:
    """Run the steps, one node after the other, and compare those asked for with the log; returns all
    differences.

    deliver: gets the records of those steps too, which then must be made on this machine. Raises
    ConfigurationError when they would not be, StepFailedError when a step can't be run, NotFoundError when
    one is not in the log, CheckpointError when a part of the checkpoint to begin with can't be read.
    """
    find_java()
    with phase(LOOKING, place.as_json):
        await check_inputs(place.cluster, recorded.spec)
    with phase(STARTING_SPARK, place.as_json):
        name = f"kcontrol {place.command} {definition.name}"
        spark = await asyncio.to_thread(session, name, place.master, hushed=True)
    host = ChannelEndpoint(spark, place.cluster)
    host.schemas = SchemaBook(place.cluster, recorded.spec.pipeline, writes=False)
    differences: list[Difference] = []
    try:
        if deliver is not None:
            check_local(spark.sparkContext.master or "")
        environment = environment_of(spark)
        with phase(PLANNING, place.as_json):
            bound = await asyncio.to_thread(_bound_as_made, definition, recorded, spark, host.channel.address)
        with scratch_directory(place.command) as scratch:
            spool = None if deliver is None else Spool(scratch / "spool", recorded.first)
            for number, piece in enumerate(recorded.pieces()):
                queries = bound[_made_with(piece.boundaries[0])]
                for node in range(piece.spec.nodes):
                    directory = scratch / f"work-{number}"
                    where = NodePlace(node, directory, checkpoints=place.checkpoints, environment=environment)
                    say_made_otherwise(piece.boundaries, node, environment)
                    engine = scratch_engine(spark, queries, host, where, piece.spec, spool)
                    differences += await run_node(
                        engine, node, piece, report, _from_spool(spool, piece, node, deliver)
                    )
    finally:
        host.close()
        spark.stop()
    return differences


def _made_with(boundary: StepBoundary) -> tuple[bool, int]:
    """What the queries of a step follow from, beside the definition: whether a node was alone; how many shards there were."""
    return boundary.nodes == 1, boundary.layout.shuffle_partitions


def _bound_as_made(
    definition: Pipeline, recorded: RecordedSteps, spark: SparkSession, address: ChannelAddress
) -> dict[tuple[bool, int], BoundQueries]:
    """The queries of the steps, as each was made."""
    now = bind(definition, spark, address)
    found: dict[tuple[bool, int], BoundQueries] = {}
    for boundary in recorded.boundaries:
        alone, shards = made = _made_with(boundary)
        if made in found:
            continue
        then = (
            definition if shards == definition.layout.shuffle_partitions else definition.with_shards(shards)
        )
        # Alone a node exchanges nothing: its queries are others.
        then = then.with_nodes(1) if alone and now.exchanges else then
        found[made] = now if then is definition else bind(then, spark, address)
    return found


def scratch_engine(
    spark: SparkSession,
    bound: BoundQueries,
    host: ChannelEndpoint,
    place: NodePlace,
    spec: PipelineSpec,
    spool: Spool | None = None,
    rehearsal: Path | None = None,
) -> SparkEngine:
    """One that leaves it to whoever runs it to compare, and goes with its directory. rehearsal: where its steps leave what they
    would send to nodes, for the next of them."""
    settings = (spark, bound, host, place, spec, SCRATCH_INCARNATION, ignore)
    return SparkEngine(*settings, compares=False, spool=spool, rehearsal=rehearsal)


async def run_node(
    engine: SparkEngine, node: int, recorded: RecordedSteps, report: Report, ran: Callable[[int], None]
) -> list[Difference]:
    """One node's part of recorded steps, all made by as many nodes; closes the engine. ran: told of each step
    that is asked for and read what it had read.

    Raises as `run_again`.
    """
    differences: list[Difference] = []
    try:
        steps = (recorded.first, recorded.last, recorded.begin)
        async for step, found in verify_steps(recorded.spec, node, recorded.boundaries, engine, *steps):
            if step >= recorded.first and not any(each.of_input for each in found):
                # What queries make of other input than the step's own is not what the step gave.
                ran(step)
            report(node, step, found)
            differences += found
    finally:
        await engine.close()
        engine.shut_down()
    return differences


def _from_spool(
    spool: Spool | None, recorded: RecordedSteps, node: int, deliver: Deliver | None
) -> Callable[[int], None]:
    """What is done with a node's step that was run: its rows are handed on and deleted."""
    if spool is None or deliver is None:
        return ignore
    boundaries = {boundary.step: boundary for boundary in recorded.boundaries}
    outputs = [output.name for output in recorded.spec.outputs]
    last_node = node == recorded.spec.nodes - 1

    def ran(step: int) -> None:
        deliver(ReplayedStep(boundaries[step], spool.read(step, outputs), last_node))
        spool.drop(step)

    return ran


def say_made_otherwise(boundaries: Sequence[StepBoundary], node: int, here: Environment) -> None:
    """Say on standard error with what else steps were made: once for each change of it, before anything is
    run."""
    said = ""
    for boundary in boundaries:
        otherwise = made_otherwise(boundary, node, here)
        if otherwise.partition(" was ")[2] != said:
            said = otherwise.partition(" was ")[2]
            text = (
                f"{otherwise}; what differs may differ because of that"
                if said
                else f"step {boundary.step} was made as here"
            )
            click.echo(text, err=True)


def verdict(node: int, step: int, found: Sequence[Difference], as_json: bool) -> str:
    """What the comparison of one step gave, as text or as a JSON object on one line."""
    if as_json:
        return json.dumps(
            {"node": node, "step": step, "agrees": not found, "differences": [asdict(each) for each in found]}
        )
    return "\n".join(map(str, found)) if found else f"step {step}{f', node {node}' if node else ''}: agrees"


def refuse(pipeline: str, found: Sequence[Difference]) -> None:
    """Raise DigestMismatchError if anything differs from the log."""
    if found:
        raise DigestMismatchError(
            f"pipeline {pipeline!r}: {len(found)} differences from the log, the first: {found[0]}"
        )


def ignore(*_: object) -> None:
    """Does nothing: `verify_steps` finds what differs, all of it, and a query that fails makes `run_step`
    raise."""

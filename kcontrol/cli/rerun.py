"""Recorded steps run again in a scratch directory: what `kcontrol verify` and `kcontrol replay` share."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from kcontrol.adapters.kafka.embedded import find_java
from kcontrol.adapters.spark.engine import NodePlace, SparkEngine
from kcontrol.adapters.spark.frames import bind
from kcontrol.adapters.spark.host import DriverHost
from kcontrol.adapters.spark.session import session
from kcontrol.adapters.spark.spool import Spool, check_local
from kcontrol.cli.view import pipeline_logs
from kcontrol.core.model import PipelineSpec, StepBoundary
from kcontrol.errors import ConfigurationError, DigestMismatchError, NotFoundError
from kcontrol.runtime.delivery import ReplayedStep
from kcontrol.runtime.pipeline import Pipeline
from kcontrol.runtime.settings import ClusterSettings
from kcontrol.runtime.verify import Mismatch, verify_steps

SCRATCH_INCARNATION = 0

_Command = TypeVar("_Command", bound=Callable[..., Any])

Report = Callable[[int, int, Sequence[Mismatch]], None]
"""Told of each step that was compared: node, step, differences."""

Deliver = Callable[[ReplayedStep], None]
"""Takes the records of each step that was compared, before the report of it."""


def range_options(what: str) -> Callable[[_Command], _Command]:
    """--from, --to and --master, as the parameters `first`, `last` and `master`. `what` is done with the steps of the range."""

    def add(command: _Command) -> _Command:
        for option in (
            click.option("--master", metavar="URL", help="Spark master. Default: local[*]."),
            click.option("--to", "last", type=click.IntRange(1), help=f"Last step to {what}. Default: the last committed one."),
            click.option(
                "--from", "first", type=click.IntRange(1), default=1, show_default=True, help=f"First step to {what}."
            ),
        ):
            command = option(command)
        return command

    return add


@dataclass(frozen=True)
class Recorded:
    """What the log says of a pipeline, and which of its steps are asked for: `first` to `last`, both included."""

    spec: PipelineSpec
    boundaries: Sequence[StepBoundary]
    first: int
    last: int


@dataclass(frozen=True)
class Place:
    """Where steps are run again. `command` is named in Spark's application and the scratch directory."""

    command: str
    cluster: ClusterSettings
    master: str | None


async def recorded_steps(cluster: ClusterSettings, pipeline: str, first: int, last: int | None) -> Recorded:
    """Read the log. Raises NotFoundError when there is no such pipeline or step, ConfigurationError for an empty range."""
    if last is not None and last < first:
        raise ConfigurationError(f"--from {first} --to {last} is no range of steps: --to must not be less than --from")
    async with pipeline_logs(cluster, pipeline) as logs:
        _, committed = await logs.read()
        spec = logs.spec()
    boundaries = [logged.record for logged in committed if isinstance(logged.record, StepBoundary)]
    end = boundaries[-1].step if boundaries else 0
    if end < first:
        raise NotFoundError(f"pipeline {pipeline!r} has no step {first}: it has committed {end}")
    return Recorded(spec, boundaries, first, last or end)


async def run_again(
    definition: Pipeline, recorded: Recorded, place: Place, report: Report, deliver: Deliver | None = None
) -> list[Mismatch]:
    """Run the steps, one node after the other, and compare those asked for with the log; returns all differences.

    deliver: gets the records of those steps too, which then must be made on this machine. Raises ConfigurationError when they
    would not be, StepFailedError when a step can't be run, NotFoundError when one is not in the log.
    """
    find_java()
    spark = await asyncio.to_thread(session, f"kcontrol {place.command} {definition.name}", place.master)
    host = DriverHost(spark, place.cluster)
    differences: list[Mismatch] = []
    try:
        if deliver is not None:
            check_local(spark.sparkContext.master or "")
        bound = await asyncio.to_thread(bind, definition, spark, host.channel.address)
        with tempfile.TemporaryDirectory(prefix=f"kcontrol-{place.command}-") as scratch:
            spool = None if deliver is None else Spool(Path(scratch, "spool"), recorded.first)
            for node in range(recorded.spec.nodes):
                engine = SparkEngine(
                    spark, bound, host, NodePlace(node, Path(scratch, "work")), recorded.spec, SCRATCH_INCARNATION, _ignore,
                    compare=_ignore, spool=spool,
                )  # fmt: skip
                differences += await _run_node(engine, node, recorded, report, _from_spool(spool, recorded, node, deliver))
    finally:
        host.close()
        spark.stop()
    return differences


async def _run_node(
    engine: SparkEngine, node: int, recorded: Recorded, report: Report, ran: Callable[[int], None]
) -> list[Mismatch]:
    differences: list[Mismatch] = []
    try:
        async for step, found in verify_steps(recorded.spec, node, recorded.boundaries, engine, recorded.first, recorded.last):
            ran(step)
            report(node, step, found)
            differences += found
    finally:
        await engine.close()
        engine.shut_down()
    return differences


def _from_spool(spool: Spool | None, recorded: Recorded, node: int, deliver: Deliver | None) -> Callable[[int], None]:
    """What is done with a node's step that was run: its rows are handed on and deleted."""
    if spool is None or deliver is None:
        return _ignore
    boundaries = {boundary.step: boundary for boundary in recorded.boundaries}
    outputs = [output.name for output in recorded.spec.outputs]
    last_node = node == recorded.spec.nodes - 1

    def ran(step: int) -> None:
        deliver(ReplayedStep(boundaries[step], spool.read(step, outputs), last_node))
        spool.drop(step)

    return ran


def verdict(node: int, step: int, found: Sequence[Mismatch], as_json: bool) -> str:
    """What the comparison of one step gave, as text or as a JSON object on one line."""
    if as_json:
        return json.dumps({"node": node, "step": step, "agrees": not found, "differences": [asdict(each) for each in found]})
    return "\n".join(map(str, found)) if found else f"step {step}: agrees"


def refuse(pipeline: str, found: Sequence[Mismatch]) -> None:
    """Raise DigestMismatchError if anything differs from the log."""
    if found:
        raise DigestMismatchError(f"pipeline {pipeline!r}: {len(found)} differences from the log, the first: {found[0]}")


def _ignore(*_: object) -> None:
    """Nothing: `verify_steps` finds what differs, all of it, and a query that fails makes `run_step` raise."""

"""A committed step run again before it is needed, so that the first one that counts finds its code warm.

Nothing warms the right code as surely: the same queries, the same kind of input, the same writer but for the
records that it sends. And it is a check: a node that computes otherwise than the log says it did is told of
before it takes over. Where too much would have to be run for the check, one step is run without it.
"""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.channel.answers import ChannelEndpoint
from kcontrol.adapters.spark.channel.sent_rows import sent_to
from kcontrol.adapters.spark.engine.engine import SparkEngine
from kcontrol.adapters.spark.engine.node_place import NodePlace
from kcontrol.adapters.spark.engine.planning_ahead import planned_ahead
from kcontrol.adapters.spark.engine.plans_ahead import PlansAhead
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.adapters.spark.session.environment import environment_of
from kcontrol.apps.recorded import RecordedSteps, recorded_steps
from kcontrol.apps.rerun import ignore, run_node, scratch_engine
from kcontrol.apps.warming import Warmth, WarmUp
from kcontrol.core.log.resets import kept
from kcontrol.core.model import Checkpoint, InputRange, PipelineSpec, StepBoundary
from kcontrol.core.node.replay import work_of
from kcontrol.core.step.differences import Difference
from kcontrol.core.step.layout import layout_of
from kcontrol.errors import KcontrolError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.settings.scratch import scratch_directory

_log = logging.getLogger("kcontrol.node")

MAX_STEPS = 50
MAX_RECORDS = 2_000_000
"""No more than this is run again to compare it with the log: from the nearest checkpoint on, where there is state."""
MAX_BYTES = 256 * 1024 * 1024
"""Of state that is copied once more, only to open it."""
MORE_STEPS, MORE_S = 4, 6.0
"""So many more steps a process rehearses that has nothing else to do, none of them begun after so many seconds: the first are
run by code that Java has not compiled yet, and each is faster than the one before."""


async def warm_up(
    spark: SparkSession,
    bound: BoundQueries,
    host: ChannelEndpoint,
    cluster: ClusterSettings,
    node: int,
    checkpoints: Path,
    step: int,
    warmth: Warmth,
) -> WarmUp:
    """Run a committed step again, as this node, in a directory that is deleted afterwards, and compare it with the log. Where
    too much would have to be run or copied for that, run the input of that step alone, on the state of the nearest checkpoint
    or on none: what comes of it can't be compared with anything. What can't be run is no error: the node is only colder.

    checkpoints: where nodes of this machine have their own. warmth: as it is already; what is warm is only compared.
    """
    try:
        recorded = await recorded_steps(cluster, bound.pipeline, step, step, checkpoints)
        too_much, last = _too_much(recorded), _newest_kept(recorded)
        if too_much and warmth is not Warmth.COLD:
            return WarmUp(warmth, "")
        if too_much and (last is None or not _is_runnable(last) or node >= recorded.spec.nodes):
            return WarmUp(Warmth.COLD, f"not warm: {too_much}")
        with scratch_directory("warm") as scratch:
            place = NodePlace(node, scratch, checkpoints=checkpoints, environment=environment_of(spark))
            if too_much and last is not None:
                begin = recorded.begin.checkpoint
                begin = begin if begin is not None and can_be_opened_twice(begin) else None
                await _run_alone(spark, bound, host, place, recorded.spec, begin, last)
                return WarmUp(
                    Warmth.WARM,
                    f"warm: step {last.step} was run alone, and not compared with the log: {too_much}",
                )
            engine = scratch_engine(spark, bound, host, place, recorded.spec)
            found = await run_node(engine, node, recorded, ignore, ignore)
    except (KcontrolError, OSError) as error:
        return WarmUp(Warmth.COLD, f"not warm: {error}")
    return WarmUp(Warmth.COMPARED, _said(recorded.last, found))


async def open_once(
    spark: SparkSession,
    bound: BoundQueries,
    host: ChannelEndpoint,
    node: int,
    spec: PipelineSpec,
    checkpoint: Checkpoint | None,
    last: StepBoundary,
    checkpoints: Path,
    ahead: Path,
    more: int = 0,
) -> None:
    """Open a checkpoint as a node that is to be, and run the input of the last step on it, in a directory that is deleted
    afterwards, so that Spark does both faster the next time. Where rows are exchanged it is run twice, the second time with
    what this node would have sent to itself the first time. Without a checkpoint the step is run without state; of more than
    `MAX_RECORDS` it is not run.

    checkpoint: one that `can_be_opened_twice`. spec: by which it is to be a node; no step by that was made yet, so nothing is
    compared. checkpoints: where nodes of this machine have their own. ahead: where state of the checkpoint was copied to, which
    is linked from there. more: steps that are run besides, for `MORE_S` at most. Raises StepFailedError, CheckpointError.
    """
    if not _is_runnable(last):
        return
    with _beside(ahead, spec.pipeline, node) as scratch:
        place = NodePlace(node, scratch, checkpoints=checkpoints, environment=environment_of(spark))
        await _run_alone(spark, bound, host, place, spec, checkpoint, last, more)


def plan_once(
    spark: SparkSession,
    bound: BoundQueries,
    host: ChannelEndpoint,
    node: int,
    spec: PipelineSpec,
    checkpoint: Checkpoint,
    last: StepBoundary,
    checkpoints: Path,
) -> PlansAhead:
    """Plan the queries of a node that is to be, for steps that are cut as the last step would be by its layout, while others
    run in the same session.

    The rest is as of `open_once`. Raises CheckpointError, ConfigurationError, StepFailedError, and what Spark raises.
    """
    with scratch_directory("plan") as scratch:
        place = NodePlace(node, scratch, checkpoints=checkpoints)
        step = step_by(spec, last, checkpoint.step + 1)
        return planned_ahead(spark, bound, host.channel.address, place, spec, checkpoint, step)


async def _run_alone(
    spark: SparkSession,
    bound: BoundQueries,
    host: ChannelEndpoint,
    place: NodePlace,
    spec: PipelineSpec,
    checkpoint: Checkpoint | None,
    last: StepBoundary,
    more: int = 0,
) -> None:
    """The input of a step, as of the step after the checkpoint, and of those that follow."""
    begin = 0 if checkpoint is None else checkpoint.step
    step = step_by(spec, last, begin + 1)
    left = place.work_root / "sent"
    taken = {each.name for each in spec.exchanges if not each.delivers}
    engine = scratch_engine(spark, bound, host, place, spec, rehearsal=left)
    try:
        await engine.open(begin, checkpoint is None, checkpoint)
        await rehearse(engine, step, spec, place.node)
        until_s = time.monotonic() + MORE_S
        for number in range((1 if taken else 0) + more):
            if number > 0 and time.monotonic() > until_s:
                break
            sent = sent_to(left, step.step, place.node, taken)
            step = replace(step_by(spec, last, step.step + 1), exchanges=sent)
            await rehearse(engine, step, spec, place.node)
    finally:
        await engine.close()
        engine.shut_down()


async def rehearse(engine: SparkEngine, step: StepBoundary, spec: PipelineSpec, node: int) -> None:
    """Run a step, and have it recorded, as one that was made; nothing is written. Raises StepFailedError."""
    await engine.run_step(work_of(step, spec, node), step)
    await engine.finish_step(step.step, step.watermarks)


def can_be_opened_twice(checkpoint: Checkpoint) -> bool:
    """Whether its state is little enough to be opened once more, only to warm up."""
    return sum(part.size_bytes for part in checkpoint.parts) <= MAX_BYTES


def step_by(spec: PipelineSpec, last: StepBoundary, step: int) -> StepBoundary:
    """The input of the last step as a step of another layout, which nobody has made yet."""
    division = [
        InputRange(each.input, each.topic, each.topic_id, each.partition, each.from_, each.to)
        for each in last.inputs
    ]
    return replace(
        last,
        step=step,
        fingerprint=spec.fingerprint,
        nodes=spec.nodes,
        layout=layout_of(spec, division),
        exchanges=(),
        environments=(),
    )


@contextmanager
def _beside(ahead: Path, pipeline: str, node: int) -> Iterator[Path]:
    """A root for the node's directory on the disk of what was copied, where that is found, and what nodes of this machine
    have, so that no byte of it is fetched."""
    ahead.mkdir(parents=True, exist_ok=True)
    nodes = sorted(ahead.parent.parent.glob("node-*"))
    # Spark's maintenance of state may still write there: what is left then goes with `ahead`.
    with tempfile.TemporaryDirectory(prefix=".warm-", dir=ahead, ignore_cleanup_errors=True) as scratch:
        home = Path(scratch, pipeline, f"node-{node}")
        home.mkdir(parents=True)
        (home / ahead.name).symlink_to(ahead)
        for each in nodes:
            (home.parent / f"{each.name}-as-it-is").symlink_to(each)
        yield Path(scratch)


def _is_runnable(step: StepBoundary) -> bool:
    """Whether its input alone is not too much."""
    return sum(piece.records for piece in step.inputs) <= MAX_RECORDS


def _newest_kept(recorded: RecordedSteps) -> StepBoundary | None:
    """The newest step that was run and is not void."""
    found = kept(recorded.boundaries)
    return found[-1] if found else None


def _too_much(recorded: RecordedSteps) -> str:
    """Why the last step is not run again to be compared with the log; '' if it can be."""
    boundaries, begin = recorded.boundaries, recorded.begin.checkpoint
    if any(one.nodes != recorded.spec.nodes for one in boundaries):
        return "the last step was made by another number of nodes"
    if boundaries and boundaries[-1].reset is not None:
        return "the last step is a reset"
    records = sum(part.records for one in boundaries for part in one.inputs)
    if len(boundaries) > MAX_STEPS or records > MAX_RECORDS:
        return (
            f"{len(boundaries):,} steps of {records:,} records would have to be run again for it, of at "
            f"most {MAX_STEPS:,} and {MAX_RECORDS:,}"
        )
    if begin is not None and not can_be_opened_twice(begin):
        return f"its checkpoint holds more than {MAX_BYTES:,} bytes"
    return ""


def _said(step: int, found: Sequence[Difference]) -> str:
    if not found:
        return f"warm: step {step} was run again and agrees"
    _log.warning("step %d, run again here, differs from the log: %s", step, found[0])
    return f"warm, but step {step}, run again here, differs from the log: {found[0]}"

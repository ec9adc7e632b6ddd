"""What a node's queries will run by a layout that is not in force yet, planned while the old one is.

Spark plans a query for a directory, and finds there what was written down of its state. That of the node is made when the
layout is in force. So the plans are made in another one, with what a checkpoint has of that, and are told where they are when
they are started (`StatePlans.move_to`).
"""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

from pyspark.sql import SparkSession

from kcontrol.adapters.checkpoints import CheckpointStore
from kcontrol.adapters.checkpoints.locations import placed
from kcontrol.adapters.spark.channel.attempt import AttemptLedger
from kcontrol.adapters.spark.channel.client import ChannelAddress
from kcontrol.adapters.spark.channel.step_gate import StepGate
from kcontrol.adapters.spark.engine.node_place import NodePlace
from kcontrol.adapters.spark.engine.node_work import NodeWork
from kcontrol.adapters.spark.engine.plans_ahead import PlansAhead
from kcontrol.adapters.spark.engine.queries import RunningQueries
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.adapters.spark.session.conf import retained_batches
from kcontrol.adapters.spark.sink.write_step import SinkContext
from kcontrol.adapters.spark.state.assembling import PartsOfNodes
from kcontrol.adapters.spark.state.beginning import Beginnings
from kcontrol.adapters.spark.state.workdir import WorkDir
from kcontrol.core.model import Checkpoint, PipelineSpec, StepBoundary
from kcontrol.core.node.replay import work_of
from kcontrol.core.step.assignment import owners_of, saved_owners
from kcontrol.errors import StepFailedError

_INCARNATION = 0


def planned_ahead(
    spark: SparkSession,
    bound: BoundQueries,
    address: ChannelAddress,
    place: NodePlace,
    spec: PipelineSpec,
    checkpoint: Checkpoint,
    step: StepBoundary,
) -> PlansAhead:
    """The plans of a node for steps that are cut as `step` is. Nothing is run, and queries may run beside it.

    bound, address: those with which the node is going to run. place: where the node's work_root is a directory that may be
    deleted afterwards. Raises CheckpointError, ConfigurationError, StepFailedError.
    """
    mine = bound.on_node(spec, place.node)
    work = NodeWork(spec, place.node, mine, {})
    context = SinkContext(
        address=address,
        current=lambda: None,
        planned_steps=lambda _query, _batch: [],
        query=_not_started,
        targets=work.targets,
        sends=work.sends,
        shards=work.shards(spark),
    )
    workdir = _restored(spark, mine, work, place, spec, checkpoint)
    partitions = spec.layout.shuffle_partitions
    queries = RunningQueries(spark, mine, context, workdir, partitions, _nobody_hears, StepGate())
    steps_work = work_of(step, spec, place.node)
    own = frozenset((item.input, item.partition) for item in work.inputs(steps_work))
    stages = work.stages(step.layout)
    attempt = AttemptLedger(0, steps_work, None, work.names, own, stages=stages)
    return queries.planned(checkpoint.step, attempt)


def _restored(
    spark: SparkSession,
    bound: BoundQueries,
    work: NodeWork,
    place: NodePlace,
    spec: PipelineSpec,
    checkpoint: Checkpoint,
) -> WorkDir:
    """With all that a plan is made of: what was written down of the queries and their state, and no state."""
    where = place.work_root, spec.pipeline, place.node, _INCARNATION
    workdir = WorkDir(*where, bound.recorded, retained_batches(spark), spec.assignment)
    workdir.prepare()
    begin = Beginnings(spark, spec.layout.shuffle_partitions, work.needs).after(checkpoint.step)
    parts = PartsOfNodes(
        CheckpointStore(),
        placed(checkpoint.location, place.checkpoints),
        checkpoint.step,
        {part.node: part.manifest for part in checkpoint.parts},
        saved_owners(checkpoint, len(owners_of(spec))),
    )

    def fill(directory: Path) -> None:
        for query in work.needs:
            base = parts.base(query, place.node)
            if base is None:
                (directory / query).mkdir()
                begin(query, directory / query)
            else:
                parts.bring_plain(query, base, directory)

    workdir.begin_with(checkpoint.step, fill)
    return workdir


def _not_started(_name: str) -> NoReturn:
    raise AssertionError("no query is started here")


def _nobody_hears(_session: int, _error: StepFailedError) -> None:
    """Nothing is started that could end."""

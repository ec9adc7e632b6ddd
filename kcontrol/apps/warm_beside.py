"""What a node runs beside its queries to be warm for those of another layout."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

from pyspark.sql import SparkSession

from kcontrol.adapters.spark.channel.answers import ChannelEndpoint
from kcontrol.adapters.spark.channel.failures import SPARK_ERRORS
from kcontrol.adapters.spark.internals import read_snapshot_list
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.apps.schema_book import SchemaBook
from kcontrol.apps.warm_up import open_once
from kcontrol.core.model import Checkpoint, PipelineSpec, StepBoundary
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import SparkSettingError
from kcontrol.settings.cluster import ClusterSettings


async def open_beside(
    spark: SparkSession,
    settings: ClusterSettings,
    book: SchemaBook,
    pipeline: Pipeline,
    node: int,
    spec: PipelineSpec,
    checkpoint: Checkpoint | None,
    last: StepBoundary,
    own: Path,
    ahead: Path,
) -> None:
    """As `open_once`, beside queries that run: with settings, names and a side channel of its own. pipeline: with as many nodes
    as `spec` has. own, ahead: as `open_once` has `checkpoints` and `ahead`."""
    with suppress(*SPARK_ERRORS, SparkSettingError):
        # Not in a task first: those of the queries that run would wait for its slot.
        await asyncio.to_thread(read_snapshot_list, spark)
    session = spark.newSession()
    host = ChannelEndpoint(session, settings)
    host.schemas = book
    try:
        queries = await asyncio.to_thread(bind, pipeline, session, host.channel.address)
        await open_once(session, queries, host, node, spec, checkpoint, last, own, ahead)
    finally:
        host.close()

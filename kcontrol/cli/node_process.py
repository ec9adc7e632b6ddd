"""The process of a node, once it is known what was asked for: it waits until it is wanted, starts Spark if that has not begun,
and is the node."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import Coroutine, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from py4j.protocol import Py4JError

from kcontrol.adapters.java import find_java
from kcontrol.adapters.profiling.jvm import Jvm
from kcontrol.adapters.profiling.profiler import Profiler
from kcontrol.adapters.spark.engine.node_place import has_worked
from kcontrol.adapters.spark.internals import gateway_of
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.adapters.spark.session.beside import beside_binding
from kcontrol.adapters.spark.session.jvm_life import jvm_pid
from kcontrol.apps.after_you import until_it_goes_on
from kcontrol.apps.agent.numbers import GivenNumber, given_number
from kcontrol.apps.before_spark import check_before_spark
from kcontrol.apps.node_service import NodeOptions, NodeService
from kcontrol.apps.own_archive import make_in_background
from kcontrol.apps.phases import STARTING_SPARK, phase
from kcontrol.apps.placing import size_that_goes_on
from kcontrol.apps.spark_start import SparkStart
from kcontrol.apps.standby import until_wanted
from kcontrol.apps.supervisor.anew import begin_anew, end_jvm
from kcontrol.apps.supervisor.watchdog import Watchdog
from kcontrol.cli.listening import listen
from kcontrol.cli.node_metrics import with_metrics
from kcontrol.core.events import Exit
from kcontrol.core.model import PipelineSpec
from kcontrol.definition.durations import duration_ms
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import (
    AccessError,
    ClusterError,
    LeftOutError,
    ReplacedError,
    RetriableError,
    TopicError,
)
from kcontrol.sessions.health import HangLimits, Health
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.checkpoint_facts import saved_where

if TYPE_CHECKING:
    from kcontrol.cli.node import Waits

_log = logging.getLogger("kcontrol.node")

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class _Looks:
    """Who looks on at the process."""

    profiler: Profiler
    watchdog: Watchdog


def run_node(
    asked: NodeAsked, spark: SparkStart, serves: tuple[str, int, Path | None] | None, beats: int | None
) -> None:
    """Until it ends. serves: host, port and token file of its metrics; None: they are not served. beats: see `Watchdog`.

    Raises ReplacedError and LeftOutError, and what ends it otherwise.
    """
    health = Health(HangLimits.of(duration_ms(asked.pipeline.limits.silence_timeout)))
    looks, options = _Looks(Profiler(), Watchdog(health, beats)), replace(asked.options, health=health)
    with ExitStack() as stack:
        if serves is not None:
            listener = listen(*serves)
            options = with_metrics(
                stack, listener, options, asked.pipeline.name, looks.profiler, asked.as_json
            )
        asked = replace(asked, options=options)
        ended = asyncio.run(_serve(asked, spark, looks))
    if ended is not None:
        _end(asked, ended)


def _end(asked: NodeAsked, ended: Exit) -> None:
    """Begin anew, or say why the node is over."""
    if asked.begins_anew_after(ended):
        begin_anew()
    if ended.replaced:
        from_ = asked.options.number_from
        given = None if from_ is None else given_number(from_)
        name, number = asked.pipeline.name, asked.options.node if given is None else given.node
        raise ReplacedError(f"node {number} of pipeline {name!r} was replaced: {ended.reason}")
    if ended.relaid:
        raise LeftOutError(ended.reason)


@dataclass(frozen=True)
class NodeAsked:
    """What the command was asked for. archives: makes Java's class archive if there is none."""

    pipeline: Pipeline
    cluster: ClusterSettings
    options: NodeOptions
    waits: Waits
    archives: bool
    as_json: bool

    @property
    def standby(self) -> bool:
        """Whether it waits for the node to die."""
        return self.waits == "standby"

    def being(self, given: GivenNumber) -> NodeAsked:
        return replace(self, options=replace(self.options, node=given.node, placement=given.placement))

    def begins_anew_after(self, ended: Exit) -> bool:
        """Whether the process goes on from its beginning: to stand by for a pipeline that was stopped, or
        for the node that has replaced it."""
        is_told = self.options.number_from is not None  # Its agent counts it as the node that it is.
        return ended.shut_down or (self.standby and ended.replaced and not is_told)

    def tell(self, what: str, facts: Mapping[str, Any], more: str = "") -> None:
        """On standard output, what this node does: a sentence, or its facts."""
        name, number = self.pipeline.name, self.options.node
        if self.as_json:
            click.echo(json.dumps({"node": number, "pipeline": name, "pid": os.getpid(), **facts}))
        else:
            click.echo(f"node {number} of pipeline {name} {what} (pid {os.getpid()}){more}")


async def _serve(asked: NodeAsked, spark: SparkStart, looks: _Looks) -> Exit | None:
    """The node's end by the protocol; None when a signal ended it."""
    find_java()
    pipeline, cluster = asked.pipeline, asked.cluster
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for ending in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(ending, stop.set)

    def stands_by() -> None:
        asked.tell("stands by: the pipeline is stopped", {"stands_by": True})
        stood_by.set()
        spark.end()

    stood_by = asyncio.Event()
    placement = asked.options.placement
    # Who waits, waits again; and of those that agents have placed the newest placement counts.
    node = None if asked.waits or placement is not None else asked.options.node
    goes_on = await _before(
        stop, until_wanted(cluster, pipeline.name, stands_by, placement=placement, node=node)
    )
    if stop.is_set() or not goes_on:
        return None
    if stood_by.is_set():
        return Exit("the pipeline is wanted again", replaced=False, shut_down=True)
    asked = replace(asked, pipeline=await _as_it_goes_on(asked))
    pipeline = asked.pipeline
    if asked.standby:
        await _before(stop, until_it_goes_on(cluster, pipeline.name))
    spark.prepare()
    makes_outputs = asked.options.output_partitions is not None
    await _before(stop, _check(cluster, pipeline, makes_outputs=makes_outputs))
    if stop.is_set():
        return None
    return await _on_spark(asked, spark, looks, stop)


async def _as_it_goes_on(asked: NodeAsked) -> Pipeline:
    """The pipeline with as many nodes as it has, where its layout was changed while it ran. Raises LeftOutError."""
    pipeline, number = asked.pipeline, asked.options.node
    try:
        size = await size_that_goes_on(asked.cluster, pipeline.name)
    except (TopicError, RetriableError):
        return pipeline  # It is not there yet, or Kafka is away: whoever joins will know.
    if size is None or size.nodes == pipeline.nodes:
        return pipeline
    if number >= size.nodes and asked.waits not in ("new", "instead"):
        raise LeftOutError(
            f"pipeline {pipeline.name!r} has {size.nodes} nodes since its layout was changed while it ran, and no node "
            f"{number}: with --new this process waits until it has"
        )
    advice = size.advice(pipeline.name, pipeline.nodes)
    if advice:
        _log.warning("%s", advice)
    return pipeline.with_nodes(size.nodes) if number < size.nodes else pipeline


async def _on_spark(asked: NodeAsked, start: SparkStart, looks: _Looks, stop: asyncio.Event) -> Exit | None:
    """As `_serve`, from the start of Spark to its end."""
    pipeline, options, watchdog = asked.pipeline, asked.options, looks.watchdog
    with phase(STARTING_SPARK, asked.as_json):
        spark = await start.session()
    gateway = gateway_of(spark)
    looks.profiler.jvm = Jvm(gateway)
    watchdog.jvm_pid = jvm_pid(spark)

    def joined(spec: PipelineSpec) -> None:
        saves = saved_where(spec, str(options.checkpoints))
        more = f"; its checkpoints go to {saves}" if saves else ""
        asked.tell("joins", {"checkpoints": saves}, more)
        if asked.archives:
            make_in_background()

    def tell(what: str) -> None:
        asked.tell(what, {"standby": what})  # As the node that it is by then.

    service, ended = NodeService(spark, asked.cluster, pipeline, options), None
    taken: PipelineSpec | None = None
    try:
        if asked.waits in ("new", "instead"):
            placed = await _before(stop, service.until_placed(tell, instead=asked.waits == "instead"))
            if placed is None:
                return None
            bound, taken = placed
        else:
            begun = has_worked(options.work_dir, pipeline.name, options.node)
            if begun:
                beside_binding(spark)
            bound = await asyncio.to_thread(bind, pipeline, spark, service.host.channel.address)
            if not begun and any(query.stateful for query in bound.queries):
                beside_binding(spark)
        if asked.standby:
            released = await _before(stop, service.until_free(bound, tell))
            if released is None:
                return None
            if released.anew:
                ended = Exit(released.reason, replaced=False, shut_down=True)
                return ended
            taken = released.spec
            if released.given is not None:
                service.be(released.given)
                asked = asked.being(released.given)
            tell(f"takes over: {released.reason}")
        try:
            ended = await _before(stop, service.run(bound, joined, taken))
        finally:
            watchdog.end_within(watchdog.limits.end_ms / 1000)
        return ended
    finally:
        service.close()
        # With its JVM gone there is nothing left to stop.
        with suppress(Py4JError, OSError):
            spark.stop()
        if ended is not None and asked.begins_anew_after(ended):
            await asyncio.to_thread(end_jvm, gateway)


async def _check(cluster: ClusterSettings, pipeline: Pipeline, *, makes_outputs: bool) -> None:
    """Raise what `check_before_spark` raises, but for a Kafka that is only away: it may
    be back when Spark has started."""
    try:
        await check_before_spark(cluster, pipeline, makes_outputs=makes_outputs)
    except (TopicError, AccessError):
        raise
    except ClusterError as error:
        _log.warning("%s; it is asked again once Spark has started", error)


async def _before(stop: asyncio.Event, work: Coroutine[Any, Any, _Result]) -> _Result | None:
    """What the work gives; None, and the work is cancelled, if it is to stop before."""
    working, stopping = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait((working, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    if working.done():
        return working.result()
    working.cancel()
    await asyncio.gather(working, return_exceptions=True)
    return None

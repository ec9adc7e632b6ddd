"""`kcontrol node`: one node of a pipeline, a Spark application of its own."""

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
from typing import Any, Literal, TypeVar, cast

import click
from py4j.protocol import Py4JError

from kcontrol.adapters.java import find_java
from kcontrol.adapters.profiling.jvm import Jvm
from kcontrol.adapters.profiling.profiler import Profiler
from kcontrol.adapters.spark.internals import gateway_of
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.adapters.spark.session.jvm_life import jvm_pid
from kcontrol.apps.after_you import until_it_goes_on
from kcontrol.apps.agent.numbers import GivenNumber, given_number
from kcontrol.apps.agent.placements import placement_of
from kcontrol.apps.before_spark import check_before_spark
from kcontrol.apps.node_service import NodeOptions, NodeService
from kcontrol.apps.own_archive import make_in_background
from kcontrol.apps.phases import STARTING_SPARK, phase
from kcontrol.apps.placing import size_that_goes_on
from kcontrol.apps.presence import Presence
from kcontrol.apps.spark_start import SparkStart
from kcontrol.apps.standby import until_wanted
from kcontrol.apps.supervisor.anew import begin_anew, end_jvm, has_begun_anew
from kcontrol.apps.supervisor.lifeline import lifeline_option
from kcontrol.apps.supervisor.watchdog import Watchdog, beats_option
from kcontrol.cli.listening import listen, listen_options
from kcontrol.cli.node_metrics import with_metrics
from kcontrol.cli.node_number import given_to
from kcontrol.cli.options import cluster_option, debug_option, json_option, nodes_dir, nodes_option
from kcontrol.cli.source import check_number, load_definition, remember_source, sized
from kcontrol.core.events import Exit
from kcontrol.core.model import PipelineSpec
from kcontrol.definition.durations import duration_ms
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import (
    AccessError,
    ClusterError,
    ConfigurationError,
    LeftOutError,
    ReplacedError,
    RetriableError,
    TopicError,
)
from kcontrol.sessions.health import HangLimits, Health
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.checkpoint_facts import saved_where

_log = logging.getLogger("kcontrol.node")

_Result = TypeVar("_Result")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--node",
    "number",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Which of the pipeline's nodes.",
)
@nodes_option
@click.option(
    "--work-dir",
    type=click.Path(path_type=Path),
    help="For Spark's state. Default: nodes/ in the user's data directory.",
)
@click.option("--master", metavar="URL", help="Spark master. Default: what spark-submit gave, else local[*].")
@click.option(
    "--create-outputs",
    type=click.IntRange(1),
    metavar="N",
    help="Create missing output topics, of N partitions.",
)
@click.option(
    "--standby",
    is_flag=True,
    help="Wait, with everything ready, until the number is free or its node silent.",
)
@click.option(
    "--new",
    is_flag=True,
    help="If the pipeline has no such node, wait until its layout is changed (kcontrol layout --nodes) so that it has.",
)
@click.option(
    "--instead",
    is_flag=True,
    help="Wait until this process is to be the node in place of another one (kcontrol upgrade, kcontrol layout --replace), or "
    "until that one has died.",
)
@click.option(
    "--archive/--no-archive",
    "archives",
    default=True,
    show_default=True,
    help="Archive Spark's Java classes in the background, as `kcontrol warm` does, if there is no archive.",
)
@click.option(
    "--number-from",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="With --standby, by agents: a file in which this process finds which node it is, once it is one.",
)
@click.option(
    "--placement",
    metavar="FOUNDED_MS/GENERATION",
    help="By which entry of the cluster's log an agent starts this node: one of an older entry does not replace it.",
)
@listen_options("this node's metrics and profiles", "metrics-", None)
@lifeline_option
@beats_option
@cluster_option
@json_option
@debug_option
def node(
    file: Path,
    number: int,
    nodes: int | None,
    work_dir: Path | None,
    master: str | None,
    create_outputs: int | None,
    standby: bool,
    new: bool,
    instead: bool,
    archives: bool,
    number_from: Path | None,
    placement: str | None,
    host: str,
    port: int | None,
    token_file: Path | None,
    beats: int | None,
    cluster: ClusterSettings,
    as_json: bool,
) -> None:
    """Run one node of the pipeline that FILE defines until Ctrl-C. The first one to start submits the definition.

    While the pipeline is stopped (kcontrol stop) the process stands by, without Spark, and joins when it is
    to run again (kcontrol resume).

    With --standby it starts Spark, runs the last committed step again to warm up, and then waits: it takes
    the number as soon as its node has died on this machine, or has been silent for `heartbeat_timeout`. Once
    it is replaced itself it stands by again.

    When the layout is changed while the pipeline runs it goes on by that, whatever FILE says, or ends (exit code 20).

    \b
    Example:  kcontrol node flights.py --node 0 --bootstrap-servers broker:9092
              kcontrol node flights.py --node 0 --standby
    """
    anew = has_begun_anew()
    pipeline = sized(load_definition(file, master, as_json), nodes)
    given = given_to(number_from, standby=standby, serves=port is not None)
    number, standby = (number, standby) if given is None else (given.node, False)
    waits = _waits_for(pipeline, number, standby=standby, new=new, instead=instead)
    remember_source(pipeline.name, file)
    health = Health(HangLimits.of(duration_ms(pipeline.limits.silence_timeout)))
    placed = None if placement is None else placement_of(placement)
    placed = placed if given is None else given.placement
    options = NodeOptions(
        *(number, nodes_dir(work_dir), create_outputs),
        health=health,
        placement=placed,
        number_from=number_from,
    )
    profiler, watchdog = Profiler(), Watchdog(health, beats)
    with ExitStack() as stack:
        if port is not None:
            listener = listen(host, port, token_file)
            options = with_metrics(stack, listener, options, pipeline.name, profiler, as_json)
        more = waits, archives, as_json, anew
        asked = _Asked(pipeline, cluster, options, profiler, watchdog, master, *more)
        ended = asyncio.run(_serve(asked))
    if ended is not None:
        _end(asked, ended)


def _waits_for(pipeline: Pipeline, number: int, **asked: bool) -> Literal["", "standby", "new", "instead"]:
    """What the process waits for before it is the node."""
    chosen = [name for name, is_asked in asked.items() if is_asked]
    if len(chosen) > 1:
        raise ConfigurationError(
            "--new waits for a place that nobody has, --instead for one that a request gives it, --standby for one whose node "
            "has died: say one"
        )
    if not {"new", "instead"} & {*chosen}:
        check_number(pipeline, number)
    return cast(Literal["", "standby", "new", "instead"], chosen[0] if chosen else "")


def _end(asked: _Asked, ended: Exit) -> None:
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
class _Asked:
    """What the command was asked for, and who looks on. master: Spark's. archives: makes Java's class archive if
    there is none."""

    pipeline: Pipeline
    cluster: ClusterSettings
    options: NodeOptions
    profiler: Profiler
    watchdog: Watchdog
    master: str | None
    waits: Literal["", "standby", "new", "instead"]
    archives: bool
    as_json: bool
    anew: bool = False
    """This process was the node before, and has begun again: what for, it does not know yet."""

    @property
    def standby(self) -> bool:
        """Whether it waits for the node to die."""
        return self.waits == "standby"

    def being(self, given: GivenNumber) -> _Asked:
        return replace(self, options=replace(self.options, node=given.node, placement=given.placement))

    def begins_with_spark(self) -> bool:
        """Whether it is all but sure that Spark is needed at once: for a node that some process has been here before, or that
        an agent has placed here, most often because its host has died. Who stands by lets that one go first."""
        if self.anew or self.standby:
            return False
        where = self.options
        known = Presence(where.work_dir, self.pipeline.name, where.node).known
        return known or where.placement is not None

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


async def _serve(asked: _Asked) -> Exit | None:
    """The node's end by the protocol; None when a signal ended it."""
    find_java()
    pipeline, cluster, number = asked.pipeline, asked.cluster, asked.options.node
    spark = SparkStart(f"kcontrol {pipeline.name} node {number}", asked.master)
    if asked.begins_with_spark():
        spark.begin()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for ending in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(ending, stop.set)

    def stands_by() -> None:
        asked.tell("stands by: the pipeline is stopped", {"stands_by": True})
        stood_by.set()
        spark.end()

    stood_by = asyncio.Event()
    goes_on = await _before(
        stop, until_wanted(cluster, pipeline.name, stands_by, placement=asked.options.placement)
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
    return await _on_spark(asked, spark, stop)


async def _as_it_goes_on(asked: _Asked) -> Pipeline:
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


async def _on_spark(asked: _Asked, start: SparkStart, stop: asyncio.Event) -> Exit | None:
    """As `_serve`, from the start of Spark to its end."""
    pipeline, options, watchdog = asked.pipeline, asked.options, asked.watchdog
    with phase(STARTING_SPARK, asked.as_json):
        spark = await start.session()
    gateway = gateway_of(spark)
    asked.profiler.jvm = Jvm(gateway)
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
            bound = await asyncio.to_thread(bind, pipeline, spark, service.host.channel.address)
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

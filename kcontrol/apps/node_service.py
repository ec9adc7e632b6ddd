"""One node of a pipeline, put together from its parts: Spark, Kafka and the session between them.

The command `kcontrol node` and `kcontrol.attach` run the same service; they differ in where
session and queries come from.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from kcontrol.adapters.checkpoints.locations import own_checkpoints
from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.files.url_watcher import UrlWatcher
from kcontrol.adapters.files.watcher import FileWatcher
from kcontrol.adapters.generated.watcher import GeneratedWatcher
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.read.watcher import PARTITIONS_EVERY_S, KafkaInputWatcher
from kcontrol.adapters.spark.channel.answers import ChannelEndpoint
from kcontrol.adapters.spark.engine.engine import SparkEngine
from kcontrol.adapters.spark.engine.node_place import NodePlace
from kcontrol.adapters.spark.engine.plans_ahead import PlansAhead
from kcontrol.adapters.spark.internals import hold_tables, links_tables_of, take_snapshots
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.adapters.spark.session.environment import environment_of
from kcontrol.adapters.spark.session.jvm_life import JvmLife
from kcontrol.adapters.spark.state.ahead import ahead_home
from kcontrol.apps.agent.numbers import GivenNumber, given_number
from kcontrol.apps.ending import end_task
from kcontrol.apps.held_tables import TableCare
from kcontrol.apps.passing_on import PassedOn
from kcontrol.apps.placing import NodeSeat, seat, submit_prepared, until_placed
from kcontrol.apps.presence import Presence
from kcontrol.apps.process_name import new_join_id
from kcontrol.apps.relaying import Preparation, Rebind, WouldBe, prepare_beside
from kcontrol.apps.schema_book import SchemaBook
from kcontrol.apps.submit import resolve, submit
from kcontrol.apps.takeover import END_WARMING_S, Standby, StandbyPorts, WaitOver
from kcontrol.apps.warm_beside import open_beside
from kcontrol.apps.warm_up import MORE_STEPS, open_once, plan_once, warm_up
from kcontrol.apps.warming import Warming
from kcontrol.core.events import Exit
from kcontrol.core.model import AgentPlacement, Checkpoint, InputSlice, InputSpec, PipelineSpec, StepBoundary
from kcontrol.definition.durations import duration_ms
from kcontrol.definition.pipeline import Pipeline
from kcontrol.errors import SparkLostError, SpecChangedError
from kcontrol.sessions.health import HangLimits, Health
from kcontrol.sessions.node import DEFAULT_RECEIVED_EVERY_MS, NodePorts, NodeSession
from kcontrol.sessions.observers import NOBODY, NodeObserver
from kcontrol.sessions.ports import EngineFactory, InputWatcher
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.checkpoint_facts import checkpoint_warnings
from kcontrol.wire.addresses import is_topic
from kcontrol.wire.files import files_of, is_files

_log = logging.getLogger("kcontrol.node")


JVM_LOOK_EVERY_S = 0.5


@dataclass(frozen=True)
class NodeOptions:
    """Which node, and where and how it works.

    work_dir: root of the directories of all nodes of all pipelines of all clusters on this machine.
    output_partitions: create missing output topics with so many partitions; None: a missing one is an error.
    received_every_ms: see NodeSession. partitions_every_s: how often input topics are
    looked at for added partitions.
    observer: looks on at it. listens, health, placement: see NodeSession. number_from: where who stands by is given one.
    """

    node: int
    work_dir: Path
    output_partitions: int | None = None
    received_every_ms: int = DEFAULT_RECEIVED_EVERY_MS
    partitions_every_s: float = PARTITIONS_EVERY_S
    observer: NodeObserver = NOBODY
    listens: str = ""
    health: Health | None = None
    placement: AgentPlacement | None = None
    number_from: Path | None = None

    @property
    def checkpoints(self) -> Path:
        """Where its own checkpoints go, unless the pipeline puts them elsewhere."""
        return own_checkpoints(self.work_dir)


class NodeService:
    """Submits the pipeline and runs one of its nodes, until it ends otherwise than by a change of the layout in which there
    is such a node."""

    def __init__(
        self, spark: SparkSession, settings: ClusterSettings, pipeline: Pipeline, options: NodeOptions
    ) -> None:
        self._spark, self._settings = spark, settings
        self._pipeline, self._options = pipeline, options
        self._environment = environment_of(spark)
        self.host = ChannelEndpoint(spark, settings)
        """The side channel; queries are bound to its address."""
        self._book = SchemaBook(settings, pipeline.name)
        self.host.schemas = self._book
        self.presence = Presence(options.work_dir, pipeline.name, options.node)
        self._passed: PassedOn | None = None
        """To the next incarnation."""
        self._ahead: PlansAhead | None = None
        """For the next engine."""
        self._warming: Warming | None = None
        """Of who has stood by; it may not be over when the number is taken."""

    @property
    def pipeline(self) -> Pipeline:
        """With as many nodes as it has now."""
        return self._pipeline

    def be(self, given: GivenNumber) -> None:
        self._options = replace(self._options, node=given.node, placement=given.placement)
        self.presence = Presence(self._options.work_dir, self._pipeline.name, given.node)

    async def until_free(self, bound: BoundQueries, say: Callable[[str], None]) -> WaitOver:
        """Stand by until the node's number is free, or one is given, with a committed step run again meanwhile.

        say: told how it stands by, for people. Raises what `resolve` and `Standby.until_free` raise, and SparkLostError.
        """
        options = self._options
        jvm = self._jvm_life()

        def broken() -> None:
            if wrong := jvm.wrong():
                raise _lost(jvm, wrong)

        def resolved() -> Awaitable[PipelineSpec]:
            facts, partitions = bound.facts(), options.output_partitions
            return resolve(
                self._settings, self._pipeline, facts, bound.exchanges, output_partitions=partitions
            )

        given = None if options.number_from is None else partial(given_number, options.number_from)
        where = options.node, options.checkpoints
        self._warming = Warming(partial(warm_up, self._spark, bound, self.host, self._settings, *where), say)
        ports = StandbyPorts(resolved, self._warming, say, broken, given)
        try:
            who = self._pipeline.name, options.node, self._pipeline.nodes
            over = await Standby(self._settings, *who, self.presence, ports).until_free()
            self._passed = over.passed
            return over
        finally:
            jvm.close()

    async def until_placed(
        self, say: Callable[[str], None], rebind: Rebind | None = None, *, instead: bool = False
    ) -> tuple[BoundQueries, PipelineSpec | None]:
        """Wait until the layout has a place for this node, and make ready for one that will; the queries, and the spec that
        is in the log then, if it is known. instead: until it is this node in place of another process.

        say: told what it waits for, for people. Raises what `until_placed` and `bind` raise, and SparkLostError.
        """
        who = self._would_be(rebind, await asyncio.to_thread(self._log_id), is_new=True)
        who = replace(who, instead=instead, gone=self.presence.gone, beside=self.presence.beside)
        preparation, jvm = Preparation(who), self._jvm_life()
        waiting = asyncio.create_task(until_placed(who, preparation, say))
        try:
            while not waiting.done():
                await asyncio.wait([waiting], timeout=JVM_LOOK_EVERY_S)
                if wrong := jvm.wrong():
                    raise _lost(jvm, wrong)
            place, self._passed = waiting.result()
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            await preparation.close()
            jvm.close()
        return await self._placed(place, who.rebind)

    def _bound(self, pipeline: Pipeline) -> BoundQueries:
        return bind(pipeline, self._spark, self.host.channel.address)

    async def _placed(self, place: NodeSeat, rebind: Rebind) -> tuple[BoundQueries, PipelineSpec | None]:
        prepared = place.prepared
        if prepared is not None and prepared.pipeline.nodes == place.nodes and self._passed is not None:
            self._pipeline, self._ahead = prepared.pipeline, prepared.ahead
            return prepared.bound, await submit_prepared(self._passed, prepared)
        self._pipeline = self._pipeline.with_nodes(place.nodes)
        return await asyncio.to_thread(rebind, self._pipeline), None

    def _would_be(self, rebind: Rebind | None, log_id: str, *, is_new: bool = False) -> WouldBe:
        before = self._pipeline.nodes

        async def warm(
            queries: BoundQueries, spec: PipelineSpec, checkpoint: Checkpoint | None, last: StepBoundary
        ) -> None:
            ahead = ahead_home(options.work_dir / log_id, spec.pipeline, options.node)
            where = options.node, spec, checkpoint, last, options.checkpoints, ahead
            if is_new:
                await open_once(self._spark, queries, self.host, *where, more=MORE_STEPS)
            elif rebind is None and before != spec.nodes and 1 in (before, spec.nodes):
                # One node has other queries than several. Those that run go on meanwhile, so these are bound apart.
                pipeline = self._pipeline.with_nodes(spec.nodes)
                await open_beside(self._spark, self._settings, self._book, pipeline, *where)

        def plan(
            queries: BoundQueries, spec: PipelineSpec, checkpoint: Checkpoint, last: StepBoundary
        ) -> PlansAhead:
            where = options.node, spec, checkpoint, last, options.checkpoints
            return plan_once(self._spark, queries, self.host, *where)

        options = self._options
        limits = HangLimits.of(duration_ms(self._pipeline.limits.silence_timeout))
        return WouldBe(
            settings=self._settings,
            pipeline=self._pipeline,
            node=options.node,
            root=options.work_dir / log_id,
            own=options.checkpoints,
            rebind=rebind or self._bound,
            output_partitions=options.output_partitions,
            warm=warm,
            plan=plan,
            tables=TableCare(
                partial(hold_tables, self._spark),
                partial(take_snapshots, self._spark),
                partial(links_tables_of, self._spark, options.work_dir),
            ),
            placed=is_new and options.placement is not None,
            binding_ms=limits.binding_ms,
        )

    async def run(
        self,
        bound: BoundQueries,
        joined: Callable[[PipelineSpec], None] = lambda _: None,
        taken: PipelineSpec | None = None,
        rebind: Rebind | None = None,
    ) -> Exit:
        """Submit, join and work until this node is over; cancel it to end it earlier. When the layout is changed meanwhile it
        goes on by that, in another incarnation, if there still is such a node.

        joined: called when the spec is in the log, each time. taken: the spec that is there, of whoever takes over what runs
        and submits nothing. rebind: the queries for another number of nodes; None: those of the pipeline's functions. Raises
        what `submit`, `SchemaBook.prepare` and `NodeSession.run` raise.
        """
        async with self.presence.shown():
            try:
                while True:
                    ended, place = await self._one_life(bound, joined, taken, rebind)
                    if not ended.relaid or place is None:
                        return ended
                    if self._options.node >= place.nodes or self._options.node in place.replaced:
                        return replace(
                            ended, reason=f"{ended.reason}, and node {self._options.node} is left out"
                        )
                    bound, taken = await self._placed(place, rebind or self._bound)
            finally:
                if self._passed is not None:
                    await self._passed.close()
                if self._warming is not None:
                    await self._warming.over(END_WARMING_S)

    async def _one_life(
        self,
        bound: BoundQueries,
        joined: Callable[[PipelineSpec], None],
        taken: PipelineSpec | None,
        rebind: Rebind | None,
    ) -> tuple[Exit, NodeSeat | None]:
        """How one incarnation ended, and what place there is by the layout for which it did."""
        for warning in bound.warnings:
            _log.warning("%s", warning)
        what = self._settings, self._pipeline, bound.facts(), bound.exchanges
        partitions = self._options.output_partitions
        if bound.schemas and taken is None:
            # Schemas are put into the registry for a pipeline that is right alone.
            await resolve(*what, output_partitions=partitions)
        await asyncio.to_thread(self._book.prepare, bound.schemas)
        spec = taken or await submit(*what, output_partitions=partitions)
        for warning in checkpoint_warnings(spec, first_step=1):
            _log.warning("%s", warning)
        joined(spec)
        passed, self._passed = self._passed, None
        # The definition that was taken belongs to the log of the change by which it goes on.
        log_id = await asyncio.to_thread(self._log_id) if passed is None or taken is None else passed.log_id
        who, asked = self._would_be(rebind, log_id), asyncio.Event()
        preparation = Preparation(who)
        control = (
            await KafkaControlLog.open(self._settings, self._pipeline.name)
            if passed is None
            else passed.control
        )
        steps = KafkaStepsLog(self._settings, self._pipeline.name)
        engines = self._engines(bound, log_id, spec.fingerprint, partial(self._queries_stopped, passed))
        ports = NodePorts(SystemClock(), control, steps, engines, self._watch)
        session = self._session(bound, ports, asked, passed)
        beside = asyncio.create_task(prepare_beside(lambda: session.read, asked, preparation))
        try:
            ended = await self._while_spark_lives(session)
            if not ended.relaid:
                return ended, None
            view, read = session.read
            self._passed = PassedOn(control, view, log_id, partial(self._closed, session))
            return ended, seat(view, read, preparation)
        finally:
            beside.cancel()
            await asyncio.gather(beside, return_exceptions=True)
            await asyncio.gather(steps.close(), preparation.close())
            if passed is not None:
                await passed.closed()
            if self._passed is None:
                await session.closed()
                await control.close()

    async def _queries_stopped(self, passed: PassedOn | None) -> None:
        """Those that ran in this process before the engine is made: of the incarnation before, and to be warm."""
        if passed is not None:
            await passed.closed()
        if self._warming is not None:
            await self._warming.over()

    def _session(
        self, bound: BoundQueries, ports: NodePorts, asked: asyncio.Event, passed: PassedOn | None
    ) -> NodeSession:
        options = self._options
        return NodeSession(
            self._pipeline.name,
            options.node,
            ports,
            options.received_every_ms,
            observer=options.observer,
            listens=options.listens,
            environment=self._environment,
            planning=bound.planning,
            health=options.health,
            new_id=new_join_id,
            layout_asked=asked.set,
            heard=None if passed is None else passed.view,
            placement=options.placement,
        )

    async def _closed(self, session: NodeSession) -> None:
        """An engine that does not close is of no use to any incarnation."""
        await session.closed()
        if session.hung:
            jvm = self._jvm_life()
            jvm.kill()
            jvm.close()

    async def _while_spark_lives(self, session: NodeSession) -> Exit:
        """Run the session; a JVM that dies or hangs can't be replaced within this process, so this incarnation ends."""
        jvm = self._jvm_life()
        working = asyncio.create_task(session.run())
        try:
            while True:
                done, _ = await asyncio.wait([working], timeout=JVM_LOOK_EVERY_S)
                wrong = jvm.wrong()
                if not done and wrong:
                    lost = _lost(jvm, wrong)
                    await end_task(working)
                    raise lost
                if done:
                    if session.hung:
                        jvm.kill()
                    return working.result()
        except asyncio.CancelledError:
            await end_task(working)
            raise
        finally:
            jvm.close()

    def _jvm_life(self) -> JvmLife:
        return JvmLife(self._spark, duration_ms(self._pipeline.limits.silence_timeout) / 1000)

    def close(self) -> None:
        """Give back the side channel. The Spark session stays as it is."""
        self.host.close()

    def _log_id(self) -> str:
        """Kafka's id of the steps topic: state that was made by another log of the same name must never be
        opened."""
        topic = self._settings.names().steps_topic(self._pipeline.name)
        return TopicAdmin(self._settings).get(topic, "the steps topic").topic_id

    def _engines(
        self, bound: BoundQueries, log_id: str, fingerprint: str, opens_after: Callable[[], Awaitable[None]]
    ) -> EngineFactory:
        compression = {output.name: output.compression for output in self._pipeline.outputs}
        sent = {each.name: each.compression for each in bound.exchanges}
        options = self._options
        place = NodePlace(
            options.node, options.work_dir / log_id, log_id, options.checkpoints, self._environment
        )

        def make(
            spec: PipelineSpec, incarnation: int, on_failure: Callable[[BaseException], None]
        ) -> SparkEngine:
            if spec.fingerprint != fingerprint:
                raise SpecChangedError(
                    f"another definition of pipeline {spec.pipeline!r}, {spec.fingerprint} with nodes = "
                    f"{spec.nodes}, was submitted while this node started with {fingerprint}; see which is "
                    "right and start again"
                )
            engine = SparkEngine(
                self._spark, bound, self.host, place, spec, incarnation, on_failure, {**compression, **sent}
            )
            engine.opens_after = opens_after
            engine.begin_with(self._ahead)
            self._ahead = None
            return engine

        return make

    def _watch(
        self,
        input_: InputSpec,
        from_: Mapping[int, int],
        takes: Callable[[int], bool],
        read: Mapping[int, InputSlice],
    ) -> InputWatcher:
        if is_files(input_.topic):
            one = files_of(input_.topic).is_one_version
            return UrlWatcher(input_, from_) if one else FileWatcher(input_, from_, read)
        if not is_topic(input_.topic):
            return GeneratedWatcher(input_.topic, from_, SystemClock())
        every_s, look = self._options.partitions_every_s, input_.look_bytes_per_s
        return KafkaInputWatcher(self._settings, input_.topic, from_, takes, every_s, look)


def _lost(jvm: JvmLife, wrong: str) -> SparkLostError:
    """What a JVM that is of no use any more means for this process, after it was killed: whoever waits for its
    answer here shall wait no more."""
    jvm.kill()
    return SparkLostError(f"{wrong}; start the node again, unless a supervisor does")

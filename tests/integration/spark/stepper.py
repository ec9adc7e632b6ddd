"""Plays the coordinator for one engine: divides, owns the transaction, commits or aborts,
and keeps the log of boundaries."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql import SparkSession

from examples.topic_reading import partition_ends, read_topics
from kcontrol.adapters.files.facts import files_id
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.exchange.topic import ensure_exchange_topic
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.adapters.spark.channel.answers import ChannelEndpoint
from kcontrol.adapters.spark.engine.engine import SparkEngine
from kcontrol.adapters.spark.engine.node_place import NodePlace
from kcontrol.adapters.spark.query.bind import bind
from kcontrol.adapters.spark.query.bound import BoundQueries
from kcontrol.core.model import InputRange, PipelineSpec, Reason, StepBoundary, StepResult, StepWork, Token
from kcontrol.core.node.replay import work_of
from kcontrol.core.step.exchange import slots
from kcontrol.core.step.layout import layout_of, writers_of
from kcontrol.definition.addressed import AddressedInput
from kcontrol.definition.pipeline import Pipeline
from kcontrol.definition.resolve import FoundInput, OutputFacts, build_spec
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.files import is_files
from kcontrol.wire.names import Names
from tests.support.owning import commit_at_end
from tests.support.patience import HANG_S
from tests.support.processes import until

TIMEOUT_MS = 180_000
"""As long as a first step may take on a machine that is busy with other tests."""
START_MS = 1_700_000_000_000


@dataclass
class Row:
    """A committed record as a read_committed consumer sees it."""

    step: int
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...]


@dataclass
class Stepper:
    """One node's engine and everything around it. Made by the fixture `stepper`."""

    spark: SparkSession
    settings: ClusterSettings
    pipeline: Pipeline
    work_root: Path
    incarnation: int = 1
    allow_nondeterministic: bool = False
    failures: list[BaseException] = field(default_factory=list)
    log: dict[int, StepBoundary] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._admin = AdminClient({"bootstrap.servers": self.settings.bootstrap_servers})
        self.failed = asyncio.Event()
        self.host = ChannelEndpoint(self.spark, self.settings)
        self.bound: BoundQueries = bind(
            self.pipeline, self.spark, self.host.channel.address, self.allow_nondeterministic
        )
        self.spec: PipelineSpec = self._spec()
        self.engine = self._engine()
        self.transaction = KafkaTransaction(self.settings, self.pipeline.name)
        self.positions = {(i.name, p): o for i in self.spec.inputs for p, o in enumerate(i.start_offsets)}
        self._attempts = 0
        self._producer = Producer({"bootstrap.servers": self.settings.bootstrap_servers, "linger.ms": 5})

    def _engine(self) -> SparkEngine:
        place = NodePlace(0, self.work_root, "log")
        return SparkEngine(
            self.spark, self.bound, self.host, place, self.spec, self.incarnation, self._on_failure
        )

    def _on_failure(self, error: BaseException) -> None:
        self.failures.append(error)
        self._loop.call_soon_threadsafe(self.failed.set)

    def _spec(self) -> PipelineSpec:
        written = {o.name: o.topic for o in self.pipeline.outputs}
        written |= {
            i.dead_letter_output: i.dead_letter_topic for i in self.pipeline.inputs if i.dead_letter_topic
        }
        read = [i.topic for i in self.pipeline.inputs if not isinstance(i, AddressedInput)]
        found = described(self._admin, [*read, *written.values()])
        inputs = {
            i.name: _addressed(i)
            if isinstance(i, AddressedInput)
            else FoundInput(found[i.topic][0], (0,) * found[i.topic][1])
            for i in self.pipeline.inputs
        }
        outputs = {name: OutputFacts(*found[topic]) for name, topic in written.items()}
        slots = self.pipeline.nodes * self.pipeline.layout.max_tasks
        made = {
            each.name: ensure_exchange_topic(
                TopicAdmin(self.settings), self.settings, self.pipeline.name, each.name, slots
            )
            for each in self.bound.exchanges
        }
        topics = {name: state.name for name, state in made.items()}
        facts, exchanges = self.bound.facts(), self.bound.exchanges
        spec = build_spec(self.pipeline, inputs, outputs, facts, exchanges, topics)
        with_ids = [replace(each, topic_id=made[each.name].topic_id) for each in spec.exchanges]
        return replace(spec, exchanges=tuple(with_ids))

    async def new_incarnation(self) -> None:
        """The node's process ended and comes back: a new incarnation with the old directory to start from."""
        await self.engine.close()
        self.engine.shut_down()
        self.incarnation += 1
        self.engine = self._engine()

    async def plan(self, once: bool) -> None:
        """As `new_incarnation`, of a pipeline that may be planned once, or not."""
        await self.redefine(plan_once=once)

    async def redefine(self, **changes: Any) -> None:
        """As `new_incarnation`, of a pipeline with other options."""
        await self.engine.close()
        self.engine.shut_down()
        self.incarnation += 1
        queries, self.pipeline = self.pipeline.queries, replace(self.pipeline, **changes)
        for query in queries:
            self.pipeline.query(query.function)
        self.bound = bind(self.pipeline, self.spark, self.host.channel.address, self.allow_nondeterministic)
        self.spec = self._spec()
        self.engine = self._engine()

    def widen(self, output: str, partitions: int) -> None:
        """Give an output's topic more partitions; the next incarnation's definition has them."""
        topic = self.pipeline.output(output).topic
        self._admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(HANG_S)
        until(lambda: described(self._admin, [topic])[topic][1] == partitions, f"{topic} is wider")
        self.spec = self._spec()

    def produce(
        self, name: str, records: Sequence[tuple[bytes | None, bytes | None]], partition: int = 0
    ) -> None:
        topic = self.pipeline.input(name).topic
        for key, value in records:
            self._producer.produce(topic, value, key, partition)
        assert self._producer.flush(HANG_S) == 0

    def produce_with_headers(self, name: str, value: bytes, headers: list[tuple[str, bytes | None]]) -> None:
        self._producer.produce(self.pipeline.input(name).topic, value, None, 0, headers=headers)
        assert self._producer.flush(HANG_S) == 0

    def ends(self) -> dict[tuple[str, int], int]:
        """How far committed input reaches now."""
        topics = {item.topic for item in self.spec.inputs}
        servers = self.settings.bootstrap_servers
        found = partition_ends(servers, topics, "read_committed", admin=self._admin)
        return {
            (item.name, partition): found[item.topic, partition]
            for item in self.spec.inputs
            for partition in range(len(item.start_offsets))
        }

    def division(self, to: Mapping[tuple[str, int], int]) -> tuple[InputRange, ...]:
        return tuple(
            InputRange(
                i.name,
                i.topic,
                i.topic_id,
                p,
                self.positions[i.name, p],
                to.get((i.name, p), self.positions[i.name, p]),
            )
            for i in self.spec.inputs
            for p in range(len(i.start_offsets))
        )

    async def begin(self, step: int, division: tuple[InputRange, ...], now_ms: int | None = None) -> StepWork:
        """Open the transaction of an attempt; the work that the engine gets."""
        producer_id, epoch = await self.transaction.init_producer(TIMEOUT_MS)
        layout = layout_of(self.spec, division)
        partitions = [(o.topic, p) for o in self.spec.outputs for p in range(o.partitions)]
        partitions += slots(self.spec, layout)
        names = Names(self.settings.prefix)
        await self.transaction.add_partitions(
            producer_id, epoch, [*partitions, (names.steps_topic(self.pipeline.name), 0)]
        )
        self._attempts += 1
        return StepWork(
            step=step,
            token=Token(1, self._attempts, producer_id, epoch, (self.incarnation,) * self.spec.nodes),
            transactional_id=names.transactional_id(self.pipeline.name),
            now_ms=START_MS + step * 1_000 if now_ms is None else now_ms,
            reason=Reason.RECORDS,
            division=division,
            layout=layout,
            writers=writers_of(self.spec, layout, 0),
        )

    def foreseen(self, work: StepWork, division: tuple[InputRange, ...], epochs: int) -> StepWork:
        """What `begin` will give for the step after `work`, whose transaction is open. epochs: what lies between two steps."""
        layout = layout_of(self.spec, division)
        epoch = work.token.producer_epoch + epochs
        return replace(
            work,
            step=work.step + 1,
            token=replace(work.token, attempt=self._attempts + 1, producer_epoch=epoch),
            now_ms=START_MS + (work.step + 1) * 1_000,
            division=division,
            layout=layout,
            writers=writers_of(self.spec, layout, 0),
        )

    async def commit(self, work: StepWork, result: StepResult) -> StepBoundary:
        boundary = StepBoundary(
            pipeline=self.pipeline.name,
            step=work.step,
            token=work.token,
            now_ms=work.now_ms,
            reason=work.reason,
            fingerprint=self.spec.fingerprint,
            nodes=self.spec.nodes,
            inputs=result.inputs,
            outputs=result.outputs,
            layout=work.layout,
            paused_inputs=(),
            opened_ms=work.now_ms,
            committed_ms=work.now_ms,
            skipped=result.skipped,
            watermark_moved=result.watermark_moved,
            late_rows=result.late_rows,
            exchanges=result.sent,
        )
        await commit_at_end(
            self.settings, self.transaction, (work.token.producer_id, work.token.producer_epoch), boundary
        )
        self.log[work.step] = boundary
        for item in work.division:
            self.positions[item.input, item.partition] = item.to
        return boundary

    async def step(
        self, to: Mapping[tuple[str, int], int] | None = None, now_ms: int | None = None
    ) -> StepBoundary:
        """A whole step over everything that is there, or up to `to`."""
        work = await self.begin(len(self.log) + 1, self.division(self.ends() if to is None else to), now_ms)
        result = await self.engine.run_step(work, None)
        boundary = await self.commit(work, result)
        await self.engine.finish_step(work.step)
        return boundary

    async def commit_nothing(self, work: StepWork) -> None:
        """Commit the attempt although its engine failed: what its tasks wrote would be seen."""
        await self.commit(work, StepResult((), (), (), False))

    def delete_records(self, name: str, partition: int, before: int) -> None:
        """Retention, at once: the offsets below `before` are gone."""
        where = TopicPartition(self.pipeline.input(name).topic, partition, before)
        self._admin.delete_records([where])[where].result(HANG_S)

    async def abort(self) -> None:
        await self.transaction.init_producer(TIMEOUT_MS)

    def replay_work(self, step: int) -> StepWork:
        """The recorded step as work to be run again."""
        return work_of(self.log[step], self.spec, 0)

    async def replay(self, step: int) -> StepResult:
        result = await self.engine.run_step(self.replay_work(step), self.log[step])
        await self.engine.finish_step(step)
        return result

    def committed(self, output: str) -> list[Row]:
        """What a read_committed consumer finds in an output's topic, in offset order per partition."""
        topic = next(o.topic for o in self.spec.outputs if o.name == output)
        return list(read_committed(self.settings, topic))

    async def close(self) -> None:
        await self.engine.close()
        self.engine.shut_down()
        self.host.close()
        await self.transaction.close()


def _addressed(source: AddressedInput) -> FoundInput:
    address, begins = source.address("", START_MS)
    log_id = files_id(source.name, address, "") if is_files(address) else source.log_id
    return FoundInput(log_id, begins, address)


def read_committed(settings: ClusterSettings, topic: str) -> Iterator[Row]:
    for message in read_topics(settings.bootstrap_servers, [topic]):
        headers = tuple(message.headers() or ())
        yield Row(
            int(dict(headers)["step"]),
            message.partition(),
            message.offset(),
            message.key(),
            message.value(),
            headers,
        )


def described(admin: AdminClient, topics: Sequence[str]) -> dict[str, tuple[str, int]]:
    """The id of each topic, and how many partitions it has."""
    asked = admin.describe_topics(TopicCollection([*dict.fromkeys(topics)]))
    answers = {topic: answer.result(HANG_S) for topic, answer in asked.items()}
    return {topic: (str(each.topic_id), len(each.partitions)) for topic, each in answers.items()}

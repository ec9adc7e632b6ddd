"""Removes a pipeline from Kafka: its records in the control topic, the topics of its exchanges, and its log of
steps. Input and output are not touched.

It begins with a tombstone under the key of the definition. From then on nobody looks after the pipeline: a
coordinator that reads it says no more, a node ends. The log of steps goes last; as long as it holds steps, no
definition is taken (`leftovers`). So a deletion that was ended anywhere can be run again, and nothing can
come in between.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from uuid import uuid4

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.admin.topics import COMPACTED, TopicAdmin, TopicState
from kcontrol.adapters.kafka.client.protocol import READ_UNCOMMITTED
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.appender import Appender
from kcontrol.adapters.kafka.logs.control_log import reach_control_topic
from kcontrol.adapters.kafka.logs.partition_reader import READ_TIMEOUT_MS, PartitionReader
from kcontrol.adapters.kafka.logs.records import RawRecord
from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.apps.regions.taken_back import refuse_while_taken_back
from kcontrol.core.log.keys import barrier_key, spec_key
from kcontrol.core.model import Checkpoint, PipelineSpec, StepBoundary
from kcontrol.errors import ConfigurationError, DamagedRecordError, TopicError
from kcontrol.requests.deletion import refuse_while_alive
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.pipeline_projection import never_submitted
from kcontrol.views.signs_of_life import LISTEN_MS
from kcontrol.wire.names import check_pipeline_name, control_partition

KEYS_AT_ONCE = 500
LONGEST_S = 60.0
"""Whoever still writes for the pipeline has so long to read that it is not there any more."""


@dataclass(frozen=True, slots=True)
class Remains:
    """What there is of a pipeline in Kafka.

    spec: its definition; None if a deletion has been begun. keys: of its records in
    `partition` of `control_topic`.
    steps_topic: of its log of steps, '' if it is not there; log_id: Kafka's id of it; step: the last one in
    it, -1 if it can't be read. checkpoint_locations: where there may be checkpoints of it. exchange_topics:
    through which its nodes have sent each other rows.
    """

    pipeline: str
    control_topic: str
    partition: int
    spec: PipelineSpec | None
    keys: tuple[str, ...]
    steps_topic: str
    log_id: str
    step: int
    checkpoint_locations: tuple[str, ...]
    exchange_topics: tuple[str, ...] = ()


async def look(settings: ClusterSettings, pipeline: str) -> Remains:
    """What `delete` would remove. Raises NotFoundError when there is nothing, and
    NotNowError when somebody works for it, or a region takes it back to a cut.

    TopicError: there is a topic by the name of the log of steps that kcontrol has not made.
    """
    check_pipeline_name(pipeline)
    partition = await _PipelineKeys.open(settings, pipeline)
    try:
        await partition.look()
        state = await asyncio.to_thread(_steps_topic, settings, pipeline)
        if not partition.keys and state is None:
            raise never_submitted(pipeline)
        await refuse_while_taken_back(settings, pipeline)
        spec, step, locations, exchanged = await _read_logs(settings, pipeline, has_steps=state is not None)
        through = await asyncio.to_thread(_exchange_topics, settings, pipeline, exchanged)
        return Remains(
            pipeline=pipeline,
            control_topic=partition.topic,
            partition=partition.number,
            spec=spec,
            keys=tuple(key.decode(errors="backslashreplace") for key in partition.keys),
            steps_topic="" if state is None else state.name,
            log_id="" if state is None else state.topic_id,
            step=step,
            checkpoint_locations=locations,
            exchange_topics=through,
        )
    finally:
        await partition.close()


def _nothing() -> None:
    """No more than what is in Kafka."""


async def delete(
    settings: ClusterSettings,
    remains: Remains,
    also: Callable[[], None] = _nothing,
    longest_s: float = LONGEST_S,
) -> None:
    """Remove it. What was removed before is passed over, so that whatever ended a
    deletion, another one completes it.

    also: removes what is elsewhere; called when there is no definition any more, and before the log of steps
    goes.

    Raises ConfigurationError: somebody has submitted the pipeline again meanwhile, or goes on writing for it. NotNowError: a
    region takes it back to a cut since.
    RetriableError, ClusterError: Kafka is away. AccessError: not allowed; the message says what is.
    """
    await refuse_while_taken_back(settings, remains.pipeline)
    partition = await _PipelineKeys.open(settings, remains.pipeline)
    try:
        await partition.read()
        definition = spec_key(remains.pipeline).encode()
        if definition in partition.keys:
            await partition.forget([definition])
        await asyncio.to_thread(also)
        await _forget_all(partition, definition, longest_s)
    finally:
        await partition.close()
    admin = TopicAdmin(settings)
    for topic in (*remains.exchange_topics, remains.steps_topic):
        if topic:
            await asyncio.to_thread(admin.delete, topic)


async def _forget_all(partition: _PipelineKeys, definition: bytes, longest_s: float) -> None:
    """Until nobody has said anything for longer than anybody who lives is silent."""
    over = time.monotonic() + longest_s
    while True:
        await partition.read()
        if definition in partition.keys:
            raise ConfigurationError(
                f"pipeline {partition.pipeline!r} was submitted again while it was deleted; end its nodes, "
                f"then run kcontrol delete {partition.pipeline} again"
            )
        if partition.keys:
            await partition.forget(list(partition.keys))
        if not await partition.hears(LISTEN_MS / 1000):
            return
        if time.monotonic() > over:
            said = next(reversed(partition.keys or {b"?": 0})).decode(errors="backslashreplace")
            raise ConfigurationError(
                f"somebody goes on writing for pipeline {partition.pipeline!r}, though it has no definition "
                f"any more: {said!r} in {partition.where}. End it, then run kcontrol delete "
                f"{partition.pipeline} again"
            )


class _PipelineKeys:
    """The keys of one pipeline in its control partition, whatever lies under them."""

    def __init__(
        self, settings: ClusterSettings, rpc: KafkaRpc, topic: str, number: int, pipeline: str
    ) -> None:
        self._rpc = rpc
        self._reader = PartitionReader(rpc, topic, number, READ_UNCOMMITTED)
        self._appender = Appender(settings, topic, number)
        self._prefix = f"{pipeline}/".encode()
        self.topic, self.number, self.pipeline = topic, number, pipeline
        self.keys: dict[bytes, int] = {}
        """Those that have a value, by their newest offsets' order."""

    @classmethod
    async def open(cls, settings: ClusterSettings, pipeline: str) -> _PipelineKeys:
        rpc, topic, partitions = await reach_control_topic(settings)
        return cls(settings, rpc, topic, control_partition(pipeline, partitions), pipeline)

    @property
    def where(self) -> str:
        return self._reader.where

    async def read(self) -> None:
        """To a barrier: all that was acknowledged before is seen."""
        (offset,) = await self._appender.append([(barrier_key(self.pipeline, uuid4().hex).encode(), None)])
        self._take(await self._reader.read_settled(offset + 1, READ_TIMEOUT_MS))

    async def look(self) -> None:
        """To the end that a broker names, and without writing: good enough to be shown."""
        self._take(await self._reader.read_to_end())

    async def forget(self, keys: Sequence[bytes]) -> None:
        for begin in range(0, len(keys), KEYS_AT_ONCE):
            await self._appender.append([(key, None) for key in keys[begin : begin + KEYS_AT_ONCE]])

    async def hears(self, seconds: float) -> bool:
        """Whether somebody else says something of the pipeline within so long."""
        try:
            async with asyncio.timeout(seconds):
                async for records in self._reader.tail():
                    if self._take(records):
                        return True
        except TimeoutError:
            pass
        return False

    def _take(self, records: Sequence[RawRecord]) -> bool:
        said = False
        for record in records:
            if record.key is None or not record.key.startswith(self._prefix):
                continue
            self.keys.pop(record.key, None)
            if record.value is not None:
                self.keys[record.key] = record.offset
                said = True
        return said

    async def close(self) -> None:
        await asyncio.gather(self._appender.close(), self._rpc.close())


def _steps_topic(settings: ClusterSettings, pipeline: str) -> TopicState | None:
    state = TopicAdmin(settings).find(settings.names().steps_topic(pipeline))
    if state is not None and (state.partitions, state.config.get("cleanup.policy")) != (1, COMPACTED):
        raise TopicError(
            f"topic {state.name!r} is not a log of steps that kcontrol has made: it has {state.partitions} "
            f"partitions and cleanup.policy={state.config.get('cleanup.policy')}. Nothing was deleted"
        )
    return state


def _exchange_topics(settings: ClusterSettings, pipeline: str, known: Collection[str]) -> tuple[str, ...]:
    """Those that are there: that the logs know, and, where only kcontrol may use such names, all by the name of an
    exchange of this pipeline, also where its definition is gone already."""
    admin, names = TopicAdmin(settings), settings.names()
    found = {topic for topic in known if admin.find(topic) is not None}
    if "exchange_topic" not in settings.name_overrides:
        found |= {topic for topic in admin.names() if names.is_exchange_topic(topic, pipeline)}
    return tuple(sorted(found))


async def _read_logs(
    settings: ClusterSettings, pipeline: str, *, has_steps: bool
) -> tuple[PipelineSpec | None, int, tuple[str, ...], frozenset[str]]:
    """The definition, the last step, where checkpoints may be, and the topics of exchanges. Raises NotNowError when
    somebody works for the pipeline."""
    async with pipeline_logs(settings, pipeline) as logs:
        clock = SystemClock()
        spec = None
        if await logs.is_there():
            await logs.listen(clock)
            refuse_while_alive(logs, clock.now_ms())
            spec = logs.view.spec()
        locations = {spec.checkpoint.location} if spec is not None and spec.stateful else set()
        through = {each.topic for each in spec.exchanges} if spec is not None else set()
        step, name = 0, settings.names().exchange_topic
        if has_steps:
            try:
                await logs.steps.begin_at_checkpoint()
                found = [each.record for each in await logs.steps.read_to_end()]
            except DamagedRecordError:
                found, step = [], -1
            locations |= {
                record.location for record in found if isinstance(record, Checkpoint) and record.parts
            }
            steps = [record for record in found if isinstance(record, StepBoundary)]
            through |= {name(pipeline, sent.exchange) for record in steps for sent in record.exchanges}
            step = max((record.step for record in steps), default=step)
        return spec, step, tuple(sorted(locations - {""})), frozenset(through)

"""The logs of a cluster, for a process that follows all of its pipelines."""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.files.facts import files_kept, files_reach
from kcontrol.adapters.generated.facts import generated_kept, generated_reaches
from kcontrol.adapters.kafka.admin.kept import kept_of
from kcontrol.adapters.kafka.admin.spec_topics import prepare, reach
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.read.input_ends import InputEnds
from kcontrol.apps.leftovers import refuse_half_deleted
from kcontrol.core.model import InputSpec, PipelineSpec
from kcontrol.sessions.ports import Kept, Reach
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.addresses import ROWS_ID, address_of, is_topic
from kcontrol.wire.files import is_files


class KafkaProjectionSource:
    """The ProjectionSource port on Kafka."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._clock = SystemClock()
        self._ends = InputEnds(settings)
        self._admin: TopicAdmin | None = None

    async def partitions(self) -> int:
        rpc = KafkaRpc(self._settings)
        try:
            return len((await rpc.topic(self._settings.names().control_topic())).leaders)
        finally:
            await rpc.close()

    async def control(self, partition: int) -> KafkaControlLog:
        return await KafkaControlLog.open(self._settings, partition=partition)

    def steps(self, pipeline: str) -> KafkaStepsLog:
        return KafkaStepsLog(self._settings, pipeline)

    async def reach(self, pipeline: str, item: InputSpec) -> Reach:
        if is_topic(item.topic):
            return await reach(self._settings, pipeline, item)
        if is_files(item.topic):
            return await asyncio.to_thread(files_reach, item)
        return Reach(ROWS_ID, address_of(item.topic).ends(self._clock.now_ms()))

    async def ends(self, topics: Collection[str]) -> dict[str, Reach | str]:
        made = generated_reaches(topics, self._clock.now_ms())
        # How far files reach only their node can say, and it does.
        others = [topic for topic in topics if topic not in made and not is_files(topic)]
        return {**made, **await self._ends.reaches(others)}

    async def close(self) -> None:
        await self._ends.close()

    async def kept(self, topics: Collection[str]) -> dict[str, Kept | str]:
        if self._admin is None:
            self._admin = await asyncio.to_thread(TopicAdmin, self._settings)
        made = {**files_kept(topics), **generated_kept(topics, self._clock.now_ms())}
        others = [topic for topic in topics if topic not in made]
        return {**made, **await asyncio.to_thread(kept_of, self._admin, others)}

    async def prepare(self, spec: PipelineSpec) -> None:
        await asyncio.to_thread(prepare, self._settings, spec)
        await refuse_half_deleted(self._settings, spec.pipeline)

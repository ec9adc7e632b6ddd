"""A cluster of its own on a real broker, and a pipeline `p` in it that is told by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from uuid import uuid4

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.cluster_topics import ensure_cluster_topics
from kcontrol.adapters.kafka.logs.cluster_log import KafkaClusterLog
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.adapters.kafka.logs.steps_log import KafkaStepsLog
from kcontrol.adapters.kafka.transaction.owner import KafkaTransaction
from kcontrol.apps.agent.looking import ClusterView
from kcontrol.settings.cluster import ClusterSettings
from tests.support.http_world import Told


@dataclass(frozen=True)
class ToldInCluster:
    """settings: with a prefix of their own."""

    settings: ClusterSettings
    log: KafkaClusterLog
    view: ClusterView
    control: KafkaControlLog
    told: Told


@asynccontextmanager
async def told_in_cluster(settings: ClusterSettings, shards: int) -> AsyncIterator[ToldInCluster]:
    """Nothing is said yet, and no agent has joined. shards: of the pipeline's state, which is saved."""
    own = settings.model_copy(update={"prefix": f"told-{uuid4().hex[:6]}"})
    await asyncio.to_thread(ensure_cluster_topics, own)
    await asyncio.to_thread(ensure_topics, own, "p")
    log, view = KafkaClusterLog(own), ClusterView(own)
    control, transaction = await KafkaControlLog.open(own, "p"), KafkaTransaction(own, "p")
    steps = KafkaStepsLog(own, "p")
    told = Told(control, transaction, steps, [(own.names().steps_topic("p"), 0)])
    saves = replace(told.spec.checkpoint, location="somewhere")
    layout = replace(told.spec.layout, shuffle_partitions=shards)
    # However long the test takes, they have been heard of lately.
    limits = replace(told.spec.limits, heartbeat_timeout_ms=600_000)
    told.spec = replace(told.spec, checkpoint=saves, layout=layout, limits=limits)
    try:
        yield ToldInCluster(own, log, view, control, told)
    finally:
        await asyncio.gather(
            *(log.close(), view.close(), control.close(), transaction.close(), steps.close())
        )

"""Whether the topics that a definition names are there, and are those it means, and how far they reach;
and kcontrol's own, made for it."""

from __future__ import annotations

import asyncio

from kcontrol.adapters.kafka.admin.cluster import ensure_topics
from kcontrol.adapters.kafka.admin.topics import TopicAdmin, TopicState
from kcontrol.core.model import ExchangeSpec, InputSpec, PipelineSpec
from kcontrol.errors import ConfigurationError
from kcontrol.sessions.ports import Reach
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.addresses import is_topic


def prepare(settings: ClusterSettings, spec: PipelineSpec) -> None:
    """Blocking. Raises TopicError for a topic that is missing, ConfigurationError for one that is another
    than the definition says, ClusterError when Kafka can't be reached."""
    admin = TopicAdmin(settings)
    for item in (each for each in spec.inputs if is_topic(each.topic)):
        where = f"pipeline {spec.pipeline!r}, input {item.name!r}"
        _check_offsets(
            admin, where, item, _same(admin, where, item.topic, item.topic_id, len(item.start_offsets))
        )
    for output in spec.outputs:
        _same(
            admin,
            f"pipeline {spec.pipeline!r}, output {output.name!r}",
            output.topic,
            output.topic_id,
            output.partitions,
        )
    for exchange in spec.exchanges:
        slots = spec.nodes * spec.layout.max_tasks
        _with_slots(admin, f"pipeline {spec.pipeline!r}, exchange {exchange.name!r}", exchange, slots)
    ensure_topics(settings, spec.pipeline)


async def reach(settings: ClusterSettings, pipeline: str, item: InputSpec) -> Reach:
    """How far an input's topic reaches. Raises TopicError when there is none."""
    return await asyncio.to_thread(_reach, settings, pipeline, item)


def _reach(settings: ClusterSettings, pipeline: str, item: InputSpec) -> Reach:
    admin = TopicAdmin(settings)
    found = admin.get(item.topic, f"pipeline {pipeline!r}, input {item.name!r}")
    return Reach(found.topic_id, admin.offsets(item.topic, found.partitions).latest)


def _same(admin: TopicAdmin, where: str, topic: str, topic_id: str, partitions: int) -> TopicState:
    found = admin.get(topic, where)
    if (found.topic_id, found.partitions) != (topic_id, partitions):
        raise ConfigurationError(
            f"{where}: topic {topic!r} has the id {found.topic_id} and {found.partitions} partitions; the "
            f"definition says {topic_id} and {partitions}"
        )
    return found


def _with_slots(admin: TopicAdmin, where: str, exchange: ExchangeSpec, slots: int) -> None:
    """A topic may have more than are needed."""
    found = admin.get(exchange.topic, where)
    if found.topic_id != exchange.topic_id or found.partitions < slots:
        raise ConfigurationError(
            f"{where}: topic {exchange.topic!r} has the id {found.topic_id} and {found.partitions} partitions; the "
            f"definition says {exchange.topic_id} and needs {slots}"
        )


def _check_offsets(admin: TopicAdmin, where: str, item: InputSpec, found: TopicState) -> None:
    offsets = admin.offsets(item.topic, found.partitions)
    for partition, start in enumerate(item.start_offsets):
        first, end = offsets.earliest[partition], offsets.latest[partition]
        if not first <= start <= end:
            raise ConfigurationError(
                f"{where}: partition {partition} of topic {item.topic!r} holds offsets {first} to {end}; "
                f"{start} in start_offsets is not one of them"
            )

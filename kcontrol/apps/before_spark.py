"""What can be known to be wrong before Spark is started, which takes half a minute: the
cluster, the pipeline's topics, and the schemas of its outputs."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from kcontrol.adapters.kafka.admin.cluster import check_cluster
from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.client.protocol import topic_id_text
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.apps.schema_check import check_schemas
from kcontrol.core.model import ExchangeSpec, InputSpec, PipelineSpec
from kcontrol.definition.pipeline import Pipeline
from kcontrol.definition.topic_rules import check_own_topics
from kcontrol.errors import InputGoneError, RetriableError, TopicError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.wire.addresses import is_topic


async def check_before_spark(settings: ClusterSettings, pipeline: Pipeline, *, makes_outputs: bool) -> None:
    """Raises ClusterError, TopicError, AccessError, RegistryError or ConfigurationError. Makes nothing.

    makes_outputs: an output topic that is missing will be made.
    """
    check_own_topics(pipeline, settings.names())
    await check_cluster(settings)
    await asyncio.to_thread(_check_topics, TopicAdmin(settings), pipeline, makes_outputs)
    await asyncio.to_thread(check_schemas, settings, pipeline)


async def check_inputs(settings: ClusterSettings, spec: PipelineSpec) -> None:
    """Raises InputGoneError when an input or an exchange of a recorded definition isn't there any more or
    was recreated, and AccessError."""
    rpc = KafkaRpc(settings)
    try:
        read: list[tuple[str, InputSpec | ExchangeSpec]] = [
            ("input", each) for each in spec.inputs if is_topic(each.topic)
        ]
        read += [("exchange", each) for each in spec.exchanges]
        for what, item in read:
            where = f"pipeline {spec.pipeline!r}, {what} {item.name!r}: what its steps have read is gone"
            # A broker that is away may be back when Spark has started: whoever reads the records waits for
            # it.
            with suppress(RetriableError):
                try:
                    found = await rpc.topic(item.topic, Operation.READ)
                except TopicError as error:
                    raise InputGoneError(f"{where}: {error}") from error
                if topic_id_text(found.topic_id) != item.topic_id:
                    raise InputGoneError(f"{where}: topic {item.topic!r} was deleted and recreated since")
    finally:
        await rpc.close()


def _check_topics(admin: TopicAdmin, pipeline: Pipeline, makes_outputs: bool) -> None:
    where = f"pipeline {pipeline.name!r}"
    for source in (each for each in pipeline.inputs if each.topic):
        admin.get(source.topic, f"{where}, input {source.name!r}", (Operation.READ,))
    targets = [(each.topic, f"output {each.name!r}") for each in pipeline.outputs]
    targets += [
        (each.dead_letter_topic, f"dead_letter_topic of input {each.name!r}")
        for each in pipeline.inputs
        if each.dead_letter_topic
    ]
    for topic, what in () if makes_outputs else targets:
        admin.get(topic, f"{where}, {what}", (Operation.WRITE,))

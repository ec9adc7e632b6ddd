"""The definitions of all pipelines that were submitted and not deleted, and nothing else of the control topic."""

from __future__ import annotations

import asyncio

from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.core.log.definitions import definitions
from kcontrol.core.log.keys import is_spec_key
from kcontrol.core.model import PipelineSpec
from kcontrol.settings.cluster import ClusterSettings


async def all_specs(settings: ClusterSettings) -> dict[str, PipelineSpec]:
    """The newest spec of every pipeline in the control topic, by name. Raises TopicError if there is no
    control topic."""
    rpc = KafkaRpc(settings)
    try:
        partitions = (await rpc.topic(settings.names().control_topic())).leaders
    finally:
        await rpc.close()
    found = await asyncio.gather(*(_specs_in(settings, partition) for partition in sorted(partitions)))
    return {name: spec for specs in found for name, spec in specs.items()}


async def _specs_in(settings: ClusterSettings, partition: int) -> dict[str, PipelineSpec]:
    log = await KafkaControlLog.open(settings, partition=partition, wanted=is_spec_key)
    try:
        entries = await log.read_to_end()
    finally:
        await log.close()
    return definitions(entries)

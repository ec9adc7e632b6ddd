"""The topics of a pipeline's exchanges: there before its definition is, which then names them."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from kcontrol.adapters.kafka.admin.topics import TopicAdmin
from kcontrol.adapters.kafka.exchange.topic import ensure_exchange_topic
from kcontrol.core.model import PipelineSpec
from kcontrol.errors import InputGoneError
from kcontrol.settings.cluster import ClusterSettings


async def with_exchange_topics(
    settings: ClusterSettings, spec: PipelineSpec, earlier: PipelineSpec | None
) -> PipelineSpec:
    """The definition with the names and ids of its exchanges' topics, which are made if they are missing.

    earlier: the definition in the log. Raises TopicError for one that can't be used, InputGoneError for one that was made
    anew since steps were written to it, AccessError, ClusterError.
    """
    return await asyncio.to_thread(_with_topics, settings, spec, earlier) if spec.exchanges else spec


def _with_topics(settings: ClusterSettings, spec: PipelineSpec, earlier: PipelineSpec | None) -> PipelineSpec:
    admin = TopicAdmin(settings)
    slots = spec.nodes * spec.layout.max_tasks
    before = {} if earlier is None else {each.name: each.topic_id for each in earlier.exchanges}
    found = []
    for each in spec.exchanges:
        topic = ensure_exchange_topic(admin, settings, spec.pipeline, each.name, slots)
        if before.get(each.name, topic.topic_id) != topic.topic_id:
            raise InputGoneError(
                f"pipeline {spec.pipeline!r}: topic {topic.name!r} of exchange {each.name!r} was deleted and made anew: "
                f"its id is {topic.topic_id}, steps were written to {before[each.name]}, and nodes need it to recover; "
                "submit the pipeline under a new name"
            )
        found.append(replace(each, topic=topic.name, topic_id=topic.topic_id))
    return replace(spec, exchanges=tuple(found))

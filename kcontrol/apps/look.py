"""How one pipeline is now, and which there are: a look at the logs, at who is heard of, and at what Kafka says of the
inputs."""

from __future__ import annotations

import asyncio
from difflib import get_close_matches

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.files.facts import files_kept
from kcontrol.adapters.generated.facts import generated_kept, generated_reaches
from kcontrol.adapters.kafka.admin.kept import kept_now
from kcontrol.adapters.kafka.read.input_ends import input_reaches
from kcontrol.apps.pipeline_logs import PipelineLogs
from kcontrol.apps.specs import all_specs
from kcontrol.errors import NotFoundError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.pipeline_facts import PipelineStatus, status_of


async def status_once(logs: PipelineLogs, cluster: ClusterSettings) -> PipelineStatus:
    """How a pipeline is now, by its logs, by who is heard of, and by what Kafka says of its inputs."""
    clock = SystemClock()
    try:
        await logs.read()
    except NotFoundError as error:
        close = get_close_matches(logs.pipeline, await names(cluster), 1)
        raise NotFoundError(f"{error}" + (f". Did you mean {close[0]!r}?" if close else "")) from error
    topics = {item.topic for item in logs.spec().inputs}
    made = generated_reaches(topics, clock.now_ms())
    files = files_kept(topics)
    others = topics - made.keys() - files.keys()
    asking = asyncio.to_thread(kept_now, cluster, others)
    _, ends, kept = await asyncio.gather(logs.listen(clock), input_reaches(cluster, others), asking)
    logs.kept = {**kept, **files, **generated_kept(topics, clock.now_ms())}
    logs.see_ends({**ends, **made}, None)
    return status_of(logs, clock.now_ms())


async def names(cluster: ClusterSettings) -> list[str]:
    """Of all pipelines that were submitted and not deleted, sorted. Raises TopicError
    when kcontrol was never used here."""
    return sorted(await all_specs(cluster))

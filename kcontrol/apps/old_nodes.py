"""Whether nodes of a pipeline are at work, for whoever is about to change how many there are.

Between two runs is when nobody is. A node that is alive says so every second; one that was stopped, or
killed, or is away says nothing, whatever its last record was. So the log is listened to for a while, and no
clock is compared with another.
"""

from __future__ import annotations

import asyncio

from kcontrol.adapters.kafka.logs.control_log import KafkaControlLog
from kcontrol.core.model import NodeState, PipelineSpec
from kcontrol.errors import ConfigurationError
from kcontrol.settings.cluster import ClusterSettings

SILENT_S = 2.5
"""Nobody has spoken for so long: two beats were missed."""
LONGEST_S = 10.0
"""Nodes that have just been told to stop may take so long to end."""


async def refuse_while_running(settings: ClusterSettings, pipeline: str, nodes: int, wanted: int) -> None:
    """Return when no node has said anything for a while, or when somebody else has submitted a definition.

    nodes, wanted: how many there are by the definition in the log, and shall be. Raises
    ConfigurationError: they go on.
    """
    log = await KafkaControlLog.open(settings, pipeline)
    try:
        read = [entry.record for entry in await log.read_to_end()]
        specs = [
            record for record in read if isinstance(record, PipelineSpec) and record.pipeline == pipeline
        ]
        if specs and specs[-1].nodes != nodes:
            # Submitted since the caller has looked: those who speak now may be nodes of the new definition.
            return
        heard: int | None = None
        async with asyncio.timeout(LONGEST_S):
            while True:
                spoke = await _next_speaker(log)
                if spoke is None:
                    return
                heard = spoke
    except TimeoutError:
        raise ConfigurationError(
            f"pipeline {pipeline!r} runs with nodes = {nodes} (node {heard} is at work): stop it first, "
            f"with kcontrol stop {pipeline}, then start it with nodes = {wanted}"
        ) from None
    finally:
        await log.close()


async def _next_speaker(log: KafkaControlLog) -> int | None:
    """The next node that says something; None if there is none for a while, or a new definition comes
    first."""
    try:
        async with asyncio.timeout(SILENT_S):
            async for chunk in log.tail():
                if any(isinstance(entry.record, PipelineSpec) for entry in chunk):
                    return None
                speakers = [entry.record.node for entry in chunk if isinstance(entry.record, NodeState)]
                if speakers:
                    return speakers[-1]
    except TimeoutError:
        pass
    return None

"""What the control topic says of a pipeline at the moment."""

from __future__ import annotations

import asyncio

from kcontrol.apps.pipeline_logs import pipeline_logs
from kcontrol.core.log.control_view import PipelineView
from kcontrol.settings.cluster import ClusterSettings


def control_view(settings: ClusterSettings, pipeline: str) -> PipelineView:
    """Not for use in a coroutine."""

    async def look() -> PipelineView:
        async with pipeline_logs(settings, pipeline) as logs:
            await logs.read_control()
            return logs.view

    return asyncio.run(look())

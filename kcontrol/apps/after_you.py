"""A process that is to stand by lets a pipeline that is being taken over have the processor first.

When a node dies, its supervisor starts it again at once, now to stand by for whoever takes over at that very
moment. Spark's start takes all of two processors for ten seconds, and the takeover would wait for it: so it begins when
the pipeline makes steps again, or soon all the same. Nothing but time depends on it.
"""

from __future__ import annotations

import asyncio
import logging

from kcontrol.apps.pipeline_logs import PipelineLogs, pipeline_logs
from kcontrol.core.model import DesiredMode
from kcontrol.errors import KcontrolError
from kcontrol.settings.cluster import ClusterSettings

_log = logging.getLogger("kcontrol.node")

AT_MOST_S = 10.0
"""A pipeline without input makes no steps, and is to have its standby, too."""
LOOK_EVERY_S = 0.2


async def until_it_goes_on(cluster: ClusterSettings, pipeline: str, at_most_s: float = AT_MOST_S) -> None:
    """Return when a step is committed that was not there before; at once if the pipeline has made none yet, or
    is not to run."""
    try:
        async with asyncio.timeout(at_most_s), pipeline_logs(cluster, pipeline) as logs:
            first = newest = await _newest(logs)
            while newest and newest == first:
                await asyncio.sleep(LOOK_EVERY_S)
                newest = await _newest(logs)
    except (KcontrolError, TimeoutError) as error:
        _log.debug("the start of Spark is not put off: %s", error)


async def _newest(logs: PipelineLogs) -> int:
    """The newest step; 0 if there is nothing to wait for."""
    if not await logs.is_there():
        return 0
    await logs.read_steps_on()
    desired = logs.view.desired()
    runs = desired is None or desired.mode is DesiredMode.RUNNING
    return logs.committed.step if runs else 0

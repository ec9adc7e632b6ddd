"""Whether a region takes a pipeline back to a cut: then nothing of it may go, or none of the others can ever go on."""

from __future__ import annotations

from kcontrol.adapters.kafka.regions.asked import KafkaAskedRegions
from kcontrol.adapters.kafka.regions.log import KafkaRegionLog
from kcontrol.core.regions.log_view import RegionLogView, read_on
from kcontrol.errors import AccessError, TopicError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings


async def refuse_while_taken_back(cluster: ClusterSettings, pipeline: str) -> None:
    """Raises NotNowError, with what to do; RetriableError, ClusterError: Kafka is away. Who may not read regions is not told of
    any."""
    asked = KafkaAskedRegions(cluster)
    try:
        if not await asked.exists():
            return
        await asked.look()
        for region in sorted(asked.definitions):
            _refuse(region, await _view(cluster, region), pipeline)
    except AccessError:
        return
    finally:
        await asked.close()


async def _view(cluster: ClusterSettings, region: str) -> RegionLogView:
    """Empty where there is no log yet, or it may not be read."""
    log = KafkaRegionLog(cluster, region)
    try:
        return read_on(RegionLogView(), await log.read())
    except (TopicError, AccessError):
        return RegionLogView()
    finally:
        await log.close()


def _refuse(region: str, view: RegionLogView, pipeline: str) -> None:
    """Also one that is back already: whoever goes on with it looks at each again."""
    newest = view.newest
    if newest is None or newest.rollback is None or pipeline not in newest.settings.pipelines:
        return
    raise NotNowError(
        f"pipeline {pipeline!r} can't be deleted: region {region!r} takes it back to cut {newest.rollback.to_cut} with its "
        "others, and without it none of them could go on. Let that come to its end (kcontrol region status "
        f"{region} says what is in the way), or give it up: kcontrol region rollback {region} --abandon. Nothing was deleted"
    )

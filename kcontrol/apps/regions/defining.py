"""A region is defined, or defined anew.

Several people may do so at once. Nothing in the topic of regions keeps a second definition out that was made before the first
was there; but whoever has written one reads on, and gives way to what came before it unseen: it writes that again, so that the
newest record is the one that stands, and is told so. Two regions with a pipeline in common that are defined at once both stand:
whoever was second is told so, and their controllers drain neither.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping
from typing import Protocol
from uuid import uuid4

from kcontrol.adapters.clock import SystemClock
from kcontrol.adapters.kafka.client.rights import Operation
from kcontrol.adapters.kafka.regions.asked import KafkaAskedRegions
from kcontrol.adapters.kafka.regions.topics import ensure_region_log, ensure_regions_topic
from kcontrol.apps.cuts import specs_of
from kcontrol.core.regions.definitions import shared_pipelines, standing
from kcontrol.core.regions.graph import graph_of, refused_graph
from kcontrol.core.regions.model import RegionSettings
from kcontrol.core.regions.records import RegionDefinition
from kcontrol.errors import ConfigurationError, RetriableError
from kcontrol.requests.record import NotNowError
from kcontrol.settings.cluster import ClusterSettings

_SHOWN_WITHIN_S = 15.0
"""What was written is read by whoever wrote it: a broker may be behind for that long."""
_LOOK_EVERY_S = 0.05
_Defined = list[tuple[str, RegionDefinition | None]]


class DefinedRegions(Protocol):
    """What `define` needs of the topic of regions."""

    @property
    def definitions(self) -> dict[str, RegionDefinition]: ...

    def take_defined(self) -> _Defined: ...

    async def look(self) -> None: ...

    async def ask(self, record: RegionDefinition) -> int: ...

    async def forget(self, region: str) -> None: ...


async def apply_region(cluster: ClusterSettings, settings: RegionSettings, by: str) -> bool:
    """Define a region, or define it anew; False: it was so already.

    Raises NotFoundError: there is no such pipeline. ConfigurationError: they can't be at one moment, or one is of another
    region. NotNowError: somebody else has defined it at the same moment, and that stands. TopicError, AccessError,
    RetriableError.
    """
    refused = refused_graph(graph_of((await specs_of(cluster, settings.pipelines)).values()))
    if refused:
        raise ConfigurationError(f"region {settings.region!r}: {refused}")
    await asyncio.to_thread(ensure_regions_topic, cluster)
    await asyncio.to_thread(ensure_region_log, cluster, settings.region, (Operation.READ,))
    asked = KafkaAskedRegions(cluster)
    try:
        return await define(asked, settings, by, SystemClock().now_ms())
    finally:
        await asked.close()


async def define(asked: DefinedRegions, settings: RegionSettings, by: str, at_ms: int) -> bool:
    """As `apply_region`, of pipelines that can be at one moment."""
    await asked.look()
    found = asked.take_defined()
    stood = {region: _standing_in(_of(region, found)) for region, _ in found}
    before = stood.get(settings.region)
    if before is not None and before.settings == settings:
        await _put_right(asked, settings.region, before)
        return False
    _refuse_shared(settings, stood.values())
    request_id = uuid4().hex
    incarnation = request_id if before is None else before.incarnation
    follows = "" if before is None else before.request_id
    made = RegionDefinition(settings.region, settings, by, at_ms, request_id, incarnation, follows)
    found = await _write(asked, made)
    stands = standing(before, _of(settings.region, found))
    await _put_right(asked, settings.region, stands)
    if stands is None or stands.request_id != request_id:
        raise NotNowError(_other(settings.region, stands))
    shared = _shared(settings, _sooner(stood, found, made))
    if shared:
        raise ConfigurationError(
            f"region {settings.region!r} is defined, but {shared[0]}: that one was defined at the same moment. Neither is "
            f"drained until one of them is defined without it, or deleted (kcontrol region delete {settings.region})"
        )
    return True


def _sooner(
    stood: Mapping[str, RegionDefinition | None], found: _Defined, made: RegionDefinition
) -> list[RegionDefinition | None]:
    """Of all other regions the definitions that stood when this one was written."""
    own = next(
        at for at, (_, one) in enumerate(found) if one is not None and one.request_id == made.request_id
    )
    others = {region for region, _ in found} | stood.keys() - {made.region}
    return [standing(stood.get(region), _of(region, found[:own])) for region in others]


async def _write(asked: DefinedRegions, made: RegionDefinition) -> _Defined:
    """What was defined until it was read again. Raises RetriableError: it was not."""
    await asked.ask(made)
    found: _Defined = []
    until_s = time.monotonic() + _SHOWN_WITHIN_S
    while True:
        await asked.look()
        found += asked.take_defined()
        if any(one is not None and one.request_id == made.request_id for _, one in found):
            return found
        if time.monotonic() > until_s:
            raise RetriableError(
                f"region {made.region!r}: its definition was written, and is not shown within {_SHOWN_WITHIN_S:g} s: see "
                f"kcontrol region status {made.region}"
            )
        await asyncio.sleep(_LOOK_EVERY_S)


def _of(region: str, found: _Defined) -> list[RegionDefinition | None]:
    return [one for name, one in found if name == region]


def _standing_in(whole: list[RegionDefinition | None]) -> RegionDefinition | None:
    """What compaction has left of a region begins with one that stood."""
    return standing(whole[0], whole[1:]) if whole else None


async def _put_right(asked: DefinedRegions, region: str, stands: RegionDefinition | None) -> None:
    """The newest record is the one that stands. Whoever else finds it otherwise writes the same."""
    newest = asked.definitions.get(region)
    while newest != stands:
        if stands is None:
            await asked.forget(region)
            return
        found = await _write(asked, stands)
        stands, newest = standing(stands, _of(region, found)), asked.definitions.get(region)


def _shared(settings: RegionSettings, others: Collection[RegionDefinition | None]) -> tuple[str, ...]:
    return shared_pipelines(settings, [each.settings for each in others if each is not None])


def _refuse_shared(settings: RegionSettings, others: Collection[RegionDefinition | None]) -> None:
    wrong = _shared(settings, others)
    if wrong:
        raise ConfigurationError(f"region {settings.region!r}: {wrong[0]}")


def _other(region: str, stands: RegionDefinition | None) -> str:
    if stands is None:
        return f"region {region!r} was deleted at the same moment, so this definition of it does not stand. Apply it again"
    return (
        f"region {region!r} was defined by {stands.by} at the same moment: that definition stands, and this one does not. See "
        f"kcontrol region status {region}, and apply it again if it is to take the place of that"
    )

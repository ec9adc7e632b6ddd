"""Regions, followed by a server that answers about them and is in charge of none."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Protocol

from kcontrol.adapters.kafka.regions.asked import KafkaAskedRegions
from kcontrol.adapters.kafka.regions.log import KafkaRegionLog
from kcontrol.core.regions.log_view import read_on
from kcontrol.errors import KcontrolError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.cluster_projection import NotReadyError
from kcontrol.views.regions_facts import RegionSight, RegionsSeen

_log = logging.getLogger("kcontrol.regions")

EVERY_S = 1.0
MISSING_S = 15.0
"""Between looks while there is no topic of regions: most pipelines run without any."""


class Regions(Protocol):
    """Regions, as somebody knows them."""

    def seen(self) -> RegionsSeen:
        """Raises NotReadyError."""
        ...

    async def run(self) -> None:
        """Until it is cancelled, see to it that they are known."""
        ...


class KnownRegions:
    """Which do not change; none, if nothing is said."""

    def __init__(self, seen: RegionsSeen | None = None) -> None:
        self._seen = seen or {}

    def seen(self) -> RegionsSeen:
        return self._seen

    async def run(self) -> None:
        await asyncio.Event().wait()


class RegionsFollower:
    """What is known stays while Kafka is away."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._seen: dict[str, RegionSight] | None = None
        self._why = "the topic of regions has not been read yet"

    def seen(self) -> RegionsSeen:
        """Nothing where there are no regions. Raises NotReadyError before it is known."""
        if self._seen is None:
            raise NotReadyError(f"{self._why}; try again in a second")
        return self._seen

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            asked, logs = KafkaAskedRegions(self._settings), dict[str, KafkaRegionLog]()
            try:
                if await asked.exists():
                    await self._follow(asked, logs)
                self._seen = {}
            except KcontrolError as error:
                self._why = str(error)
                _log.debug("%s", error)
            finally:
                with suppress(KcontrolError):
                    await asyncio.gather(asked.close(), *(log.close() for log in logs.values()))
            await asyncio.sleep(MISSING_S)

    async def _follow(self, asked: KafkaAskedRegions, logs: dict[str, KafkaRegionLog]) -> None:
        """Each round, all of them: a region that can't be read does not hide the others."""
        seen: dict[str, RegionSight] = {}
        while True:
            await asked.look()
            for name, definition in asked.definitions.items():
                sight = seen.get(name) or RegionSight(definition)
                log = logs.setdefault(name, KafkaRegionLog(self._settings, name))
                try:
                    view = read_on(sight.view, await log.read())
                except KcontrolError as error:
                    _log.debug("region %s: %s", name, error)
                    view = sight.view
                seen[name] = RegionSight(definition, view, asked.said(name))
            for name in seen.keys() - asked.definitions.keys():
                del seen[name]
                await logs.pop(name).close()
            self._seen = dict(seen)
            await asyncio.sleep(EVERY_S)

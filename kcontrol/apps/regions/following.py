"""Regions, followed by a server that answers about them and is in charge of none."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
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

    async def until(self, condition: Callable[[], bool], timeout_s: float, /) -> bool:
        """Wait until it holds, which is looked at whenever regions were looked at; False if not in time."""
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

    async def until(self, condition: Callable[[], bool], _: float, /) -> bool:
        return condition()

    async def run(self) -> None:
        await asyncio.Event().wait()


class RegionsFollower:
    """What is known stays while Kafka is away."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._seen: dict[str, RegionSight] | None = None
        self._why = "the topic of regions has not been read yet"
        self._looked = asyncio.Event()

    def seen(self) -> RegionsSeen:
        """Nothing where there are no regions. Raises NotReadyError before it is known."""
        if self._seen is None:
            raise NotReadyError(f"{self._why}; try again in a second")
        return self._seen

    async def until(self, condition: Callable[[], bool], timeout_s: float, /) -> bool:
        """As the protocol says."""
        try:
            async with asyncio.timeout(timeout_s):
                while not condition():
                    await self._looked.wait()
        except TimeoutError:
            return condition()
        return True

    def _know(self, seen: dict[str, RegionSight]) -> None:
        self._seen = seen
        looked, self._looked = self._looked, asyncio.Event()
        looked.set()

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            asked, logs = KafkaAskedRegions(self._settings), dict[str, KafkaRegionLog]()
            try:
                if await asked.exists():
                    await self._follow(asked, logs)
                self._know({})
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
            self._know(dict(seen))
            await asyncio.sleep(EVERY_S)

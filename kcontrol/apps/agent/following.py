"""The cluster of agents, followed by a server that answers about it and is no part of it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Protocol

from kcontrol.apps.agent.looking import ClusterView
from kcontrol.errors import KcontrolError
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import ClusterSeen
from kcontrol.views.cluster_projection import NotReadyError

_log = logging.getLogger("kcontrol.agents")

EVERY_S = 2.0
MISSING_S = 15.0
"""Between looks while there is nothing to see: most pipelines run without agents."""


class Agents(Protocol):
    """The cluster of agents, as somebody knows it."""

    def seen(self) -> ClusterSeen:
        """Raises NotReadyError."""
        ...

    async def run(self) -> None:
        """Until it is cancelled, see to it that it is known."""
        ...


class KnownAgents:
    """Who does not change; nobody, if nothing is said."""

    def __init__(self, seen: ClusterSeen | None = None) -> None:
        self._seen = seen or ClusterSeen()

    def seen(self) -> ClusterSeen:
        return self._seen

    async def run(self) -> None:
        await asyncio.Event().wait()


class AgentsFollower:
    """What is known stays while Kafka is away, and says as of which offset it is."""

    def __init__(self, settings: ClusterSettings) -> None:
        self._settings = settings
        self._seen: ClusterSeen | None = None
        self._why = "the cluster's log has not been read yet"

    def seen(self) -> ClusterSeen:
        """Nothing where there are no agents. Raises NotReadyError before it is known."""
        if self._seen is None:
            raise NotReadyError(f"{self._why}; try again in a second")
        return self._seen

    async def run(self) -> None:
        """Until it is cancelled."""
        while True:
            view = ClusterView(self._settings)
            try:
                await self._follow(view)
            except KcontrolError as error:
                self._why = str(error)
                _log.debug("%s", error)
            finally:
                with suppress(KcontrolError):
                    await view.close()
            await asyncio.sleep(MISSING_S)

    async def _follow(self, view: ClusterView) -> None:
        if not await view.exists():
            self._seen = ClusterSeen()
            return
        while True:
            self._seen = await view.seen()
            await asyncio.sleep(EVERY_S)

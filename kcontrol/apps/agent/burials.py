"""The coordinators of hosts that are gone are taken out of their group by agents that have one themselves.

Kafka misses a member after its session timeout, 6 s at least, and nobody on another host sees its lock
(`CoordinatorPresence`); agents may know of a host's death long before. Nothing rests on it: a coordinator that lives after
all joins its group again, and the claims in the pipelines' logs decide as always.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Container, Iterable

from kcontrol.apps.coordinator_presence import Remove, client_id_of
from kcontrol.errors import ClusterError

_log = logging.getLogger("kcontrol.agent")

TIMEOUT_S = 5.0
"""For one try."""
FORGOTTEN_AFTER_S = 10.0
"""Kafka has missed them by then."""


class Burials:
    """Of one agent."""

    def __init__(self, remove: Remove, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._remove, self._monotonic_s = remove, monotonic_s
        self._gone: dict[str, float] = {}
        """Agents whose coordinators may be in the group still, and since when that is known."""

    def add(self, gone: Iterable[str]) -> None:
        """Agents that had a coordinator, and are gone."""
        now_s = self._monotonic_s()
        self._gone |= dict.fromkeys(gone, now_s)

    async def bury(self, agents: Container[str], may_act: bool) -> None:
        """Those that are there to be buried; whom the group could not be asked about is tried again by the next call.

        agents: who is known now: whoever is back is left alone. may_act: what is known is new enough. Raises RetriableError,
        TimeoutError.
        """
        oldest_s = self._monotonic_s() - FORGOTTEN_AFTER_S
        self._gone = {
            agent: since_s
            for agent, since_s in self._gone.items()
            if agent not in agents and since_s > oldest_s
        }
        if not self._gone or not may_act:
            return
        clients = {client_id_of(agent): agent for agent in self._gone}
        try:
            async with asyncio.timeout(TIMEOUT_S):
                removed = await self._remove(clients.keys())
        except ClusterError as error:
            _log.warning(
                "coordinators of hosts that are gone stay in their group until Kafka misses them: %s", error
            )
            removed = []
        for client in removed:
            _log.info(
                "the host of coordinator %s is gone; its pipelines are shared out anew", clients[client]
            )
        for agent in clients.values():
            self._gone.pop(agent, None)

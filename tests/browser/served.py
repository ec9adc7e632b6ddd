"""The real server on a real socket, in the test's own event loop, over a cluster in memory;
it can be ended and begun again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from kcontrol.adapters.http.access import AccessToken
from kcontrol.adapters.http.listener import HttpOptions, Listener
from kcontrol.adapters.http.queries import Ask
from kcontrol.adapters.metrics.making import make_registry
from kcontrol.apps.agent.following import KnownAgents
from kcontrol.apps.http_server import serve_interface
from kcontrol.apps.regions.following import KnownRegions
from kcontrol.requests.resets import Resets, no_resets
from kcontrol.requests.table_questions import nobody_answers
from kcontrol.settings.cluster import ClusterSettings
from kcontrol.views.agents_facts import ClusterSeen
from kcontrol.views.deliveries import ToldDelivery
from kcontrol.views.regions_facts import RegionsSeen
from tests.fakes.memory_kafka import MemoryKafka, MemorySource
from tests.support.patient_http import patient_limits

NOBODY = ClusterSeen()
CLUSTER = ClusterSettings(bootstrap_servers="kafka-0.internal:9092,kafka-1.internal:9092")


def clock_ms() -> int:
    """What the browser and the server believe too."""
    return int(time.time() * 1000)


@dataclass
class Served:
    """`url` stays the same over restarts."""

    kafka: MemoryKafka
    token: AccessToken | None
    port: int = 0
    ask: Ask = nobody_answers
    agents: ClusterSeen = NOBODY
    regions: RegionsSeen = field(default_factory=dict)
    resets: Resets = no_resets
    deliveries: list[ToldDelivery] = field(default_factory=list)
    _listener: Listener | None = None
    _serving: asyncio.Task[None] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def begin(self) -> None:
        """Listen and answer."""
        options = HttpOptions(port=self.port, token=self.token, limits=patient_limits())
        self._listener = Listener(options)
        self.port = int(self._listener.url.rpartition(":")[2])
        serving = serve_interface(
            *(self._listener, CLUSTER, MemorySource(self.kafka), make_registry()),
            ask=self.ask,
            agents=KnownAgents(self.agents),
            regions=KnownRegions(self.regions),
            resets=self.resets,
            deliveries=lambda _: (self.deliveries, 0),
        )
        self._serving = asyncio.create_task(serving)

    def state(self) -> str:
        """What it is doing, in a line."""
        if self._listener is None or self._serving is None:
            return "not begun"
        if self._serving.done():
            ended = None if self._serving.cancelled() else self._serving.exception()
            return f"ended: {ended!r}"
        server: Any = self._listener._server
        connections = list(server.server_state.connections) if server is not None else []
        cycles = [each.cycle for each in connections if each.cycle and not each.cycle.response_complete]
        paths = [cycle.scope["path"] for cycle in cycles]
        return f"{len(connections)} connections, not answered yet: {', '.join(paths) or 'nothing'}"

    async def end(self) -> None:
        """As if its process had ended."""
        if self._listener is not None and self._serving is not None:
            self._listener.stop()
            await asyncio.gather(self._serving, return_exceptions=True)


@asynccontextmanager
async def served(
    kafka: MemoryKafka,
    token: AccessToken | None = None,
    agents: ClusterSeen = NOBODY,
    regions: RegionsSeen | None = None,
) -> AsyncIterator[Served]:
    """Answers for as long as the block runs."""
    server = Served(kafka, token, agents=agents, regions=regions or {})
    await server.begin()
    try:
        yield server
    finally:
        await server.end()

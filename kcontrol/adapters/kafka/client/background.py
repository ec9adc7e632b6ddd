"""Connections to Kafka that outlive a Spark task: one event loop in one background thread per process.

A Python worker runs many tasks, one after the other; what the first one connected, the next ones use. Tasks
are plain threads: they hand coroutines to the loop and wait. A forked process starts with none of its
parent's connections.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from kcontrol.adapters.kafka.client.fetch_size import FetchSize
from kcontrol.adapters.kafka.client.partitions import Partitions
from kcontrol.adapters.kafka.client.rpc import KafkaRpc
from kcontrol.settings.cluster import ClusterSettings

_CLOSE_TIMEOUT_S = 10.0
_Result = TypeVar("_Result")


class RawClient:
    """One cluster's connections in this process; made by `client_for`. Coroutines run in the background
    loop."""

    def __init__(self, settings: ClusterSettings, loop: asyncio.AbstractEventLoop) -> None:
        self._settings = settings
        self._loop = loop
        self._fetch_sizes: dict[str, FetchSize] = {}
        self.partitions = Partitions(KafkaRpc(settings))

    @property
    def rpc(self) -> KafkaRpc:
        """Requests of any other kind, over the same connections."""
        return self.partitions.rpc

    def start(self, work: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        """Run a coroutine in the loop; its result can be waited for in any other thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the loop, soon and in the order of such calls, and don't wait for it."""
        self._loop.call_soon_threadsafe(function, *arguments)

    def fetch_size(self, topic: str) -> FetchSize:
        """What this process has learned of the size of a topic's records."""
        return self._fetch_sizes.setdefault(topic, FetchSize())

    async def reconnect(self) -> None:
        """Begin again from the bootstrap address: no broker that was known answers any more."""
        stale, self.partitions = self.rpc, Partitions(KafkaRpc(self._settings))
        await stale.close()


class _Process:
    """What this process has: nothing until the first client."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None
        self.thread: threading.Thread | None = None
        self.clients: dict[str, RawClient] = {}

    def client(self, settings: ClusterSettings) -> RawClient:
        key = settings.to_json()
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                self.thread = threading.Thread(
                    target=self.loop.run_forever, name="kcontrol-kafka", daemon=True
                )
                self.thread.start()
            if key not in self.clients:
                self.clients[key] = RawClient(settings, self.loop)
            return self.clients[key]

    def close(self) -> None:
        with self.lock:
            if self.loop is None or self.thread is None:
                return
            for client in self.clients.values():
                client.start(client.rpc.close()).result(_CLOSE_TIMEOUT_S)
            self.loop.call_soon_threadsafe(self.loop.stop)
            self.thread.join(_CLOSE_TIMEOUT_S)
            self.loop.close()


_process = _Process()


def _begin_anew() -> None:
    global _process
    _process = _Process()


os.register_at_fork(after_in_child=_begin_anew)


def client_for(settings: ClusterSettings) -> RawClient:
    """This process's client for a cluster. Raises ConfigurationError: a client setting is wrong."""
    return _process.client(settings)


def close_clients() -> None:
    """End this process's connections and their thread. What was made of `client_for`
    before must not be used any more.

    For processes that outlive their cluster: a client goes on looking for a broker that
    is gone, and says so in the log.
    """
    process = _process
    _begin_anew()
    process.close()

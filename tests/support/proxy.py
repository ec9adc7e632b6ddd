"""A TCP proxy between a client and a broker that knows just enough of Kafka's framing to break one chosen
request.

The broker needs a listener that advertises the proxy's address (`proxied_properties`), or clients would go
round it.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections import Counter
from enum import Enum, auto
from types import TracebackType

END_TXN = 26
INIT_PRODUCER_ID = 22
PRODUCE = 0


class Cut(Enum):
    REQUEST = auto()
    """The request never reaches the broker."""
    ANSWER = auto()
    """The broker acts on the request; its answer never comes back."""


def proxied_properties(port: int, controller_port: int, proxied_port: int, proxy_port: int) -> dict[str, str]:
    """Server properties of an EmbeddedBroker with a second listener at `proxied_port` that
    is only known as `proxy_port`."""
    return {
        "listeners": f"PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{proxied_port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port},PROXIED://127.0.0.1:{proxy_port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
    }


class Proxy:
    """`async with Proxy(port, target)`; then `cut_next(api_key, Cut.ANSWER)` breaks the next request of that
    kind."""

    def __init__(self, port: int, target: int) -> None:
        self._port = port
        self._target = target
        self._plan: tuple[int, Cut] | None = None
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self.answered_bytes = 0
        self.requests: Counter[int] = Counter()
        """By their api key."""

    def cut_next(self, api_key: int, cut: Cut) -> None:
        self._plan = (api_key, cut)

    async def __aenter__(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._target)
        doomed: set[int] = set()
        try:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._requests(reader, broker_writer, doomed))
                    both.create_task(self._answers(broker_reader, writer, doomed))
        except ExceptionGroup as group:
            _, others = group.split((ConnectionError, asyncio.IncompleteReadError))
            if others is not None:
                raise others from None
        finally:
            writer.close()
            broker_writer.close()
            self._tasks.discard(task)

    async def _requests(
        self, reader: asyncio.StreamReader, broker: asyncio.StreamWriter, doomed: set[int]
    ) -> None:
        while True:
            frame = await _frame(reader)
            api_key, _, correlation = struct.unpack_from(">hhi", frame)
            self.requests[api_key] += 1
            if self._plan is not None and self._plan[0] == api_key:
                (_, cut), self._plan = self._plan, None
                if cut is Cut.REQUEST:
                    raise ConnectionAbortedError
                doomed.add(correlation)
            broker.write(struct.pack(">i", len(frame)) + frame)
            await broker.drain()

    async def _answers(
        self, broker: asyncio.StreamReader, writer: asyncio.StreamWriter, doomed: set[int]
    ) -> None:
        while True:
            frame = await _frame(broker)
            if struct.unpack_from(">i", frame)[0] in doomed:
                raise ConnectionAbortedError
            self.answered_bytes += len(frame)
            writer.write(struct.pack(">i", len(frame)) + frame)
            await writer.drain()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    (size,) = struct.unpack(">i", await reader.readexactly(4))
    return await reader.readexactly(size)

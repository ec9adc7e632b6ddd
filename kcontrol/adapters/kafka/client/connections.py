"""Connections to the brokers of one cluster that give up, in bounded time, on a broker
that is there but does not answer.

A broker may hang (stopped, its cable pulled) without its connections breaking. So each request has a time in
which its connection must answer something; then the connection is closed, and all that waits on it hears so
at once. While a broker keeps silent, others are asked whether it is still one of them: Kafka itself takes a
broker out that it does not hear of, and from then on waiting for it is in vain, however long that was
allowed. What any broker can answer (metadata, who coordinates) is asked of a second and a third one when the
first takes long, those last that have hung lately. Making a connection never waits for another one. The
brokers are found anew at the bootstrap addresses, too, each time that none of those answers that are known.

A broker keeps silent only while it is listened to: when this process itself has stood still, as with the whole machine, that
time is not held against any broker.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

from aiokafka import errors as kafka_errors
from aiokafka.conn import CloseReason, collect_hosts, create_conn
from aiokafka.protocol.metadata import MetadataRequest

from kcontrol.adapters.kafka.client.options import Patience, aiokafka_options
from kcontrol.adapters.kafka.client.protocol import BrokerAnswer
from kcontrol.errors import KcontrolError
from kcontrol.settings.cluster import ClusterSettings

HEDGE_S = 0.5
"""What any broker can answer is asked of one more after so long."""
LOOK_AROUND_S = 1.0
"""When a broker has said nothing for so long, and again after as long, the others are
asked whether it is still there."""
LOOKS = 4
"""So often it is looked, within the time for an answer, whether there is any, so that of a time in which this process stood
still only the part before the next look counts as silence."""
SHORTEST_LOOK_S = 0.001
"""Between two looks at least: what is left to wait may be less than a clock can tell, and looks would never come to an end."""
SUSPECT_S = 10.0
"""A broker that did not answer is asked last for so long."""

_CLOSE_TIMEOUT_S = 0.5
_NEVER_MS = 86_400_000
"""aiokafka's own time-out of a request; ours is by connection."""

Request = Any
Response = Any


class Lane(IntEnum):
    """Connections to one broker. It answers one request of a connection at a time, so what waits has its
    own."""

    PROMPT = 0
    WAITING = 1


class NoConnectionError(Exception):
    """There was no connection: the broker has not seen the request. hangs: nobody
    refused it, there was only silence."""

    def __init__(self, message: str, hangs: bool = False) -> None:
        super().__init__(message)
        self.hangs = hangs


class NoAnswerError(Exception):
    """The connection broke or was given up: the broker may have seen the request."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where a broker listens."""

    host: str
    port: int


class _Connection:
    """One that is open. answered_s: when it last brought an answer, by the monotonic
    clock. gone: why it was given up."""

    __slots__ = ("_look_around", "_raw", "answered_s", "gone")

    def __init__(self, raw: Any, look_around: Callable[[], None]) -> None:
        """look_around: called while it is silent."""
        self._raw = raw
        self._look_around = look_around
        self.answered_s = time.monotonic()
        self.gone = ""

    @property
    def is_open(self) -> bool:
        return bool(self._raw.connected())

    async def send(self, request: Request, held_s: float, patience_s: float) -> Response:
        """The answer, if the connection brings any within each `held_s + patience_s`: what was sent
        before may keep the broker busy."""
        timers: list[asyncio.TimerHandle] = []
        now_s = time.monotonic()
        self._watch(now_s, now_s, held_s, patience_s, timers)
        try:
            answer = await self._raw.send(request)
            self.answered_s = time.monotonic()
            return answer
        finally:
            timers[-1].cancel()

    def _watch(
        self,
        since_s: float,
        due_s: float,
        held_s: float,
        patience_s: float,
        timers: list[asyncio.TimerHandle],
    ) -> None:
        """since_s: silent from then on at the earliest. due_s: when this look was to be."""
        now_s = time.monotonic()
        stood_s = max(0.0, now_s - due_s)
        since_s = min(now_s, max(since_s, self.answered_s) + stood_s)
        late_s = now_s - since_s - held_s
        if late_s >= patience_s:
            self.give_up(f"did not answer within {round((held_s + patience_s) * 1000)} ms")
            return
        if late_s >= LOOK_AROUND_S:
            self._look_around()
        again_s = min(patience_s - late_s, min(LOOK_AROUND_S, patience_s / LOOKS) - min(late_s, 0))
        again_s = max(again_s, SHORTEST_LOOK_S)
        rest = since_s, now_s + again_s, held_s, patience_s, timers
        timers.append(asyncio.get_running_loop().call_later(again_s, self._watch, *rest))

    def give_up(self, why: str) -> None:
        """All that wait on it hear of it."""
        if self.is_open:
            self.gone = why
            self._raw.close(CloseReason.CONNECTION_TIMEOUT)

    def close(self) -> asyncio.Future[None] | None:
        """Returns what is done when the socket is closed."""
        closed: asyncio.Future[None] | None = self._raw.close(CloseReason.SHUTDOWN)
        return closed


class Connections:
    """All connections of one client, made when they are needed."""

    def __init__(self, settings: ClusterSettings) -> None:
        options = aiokafka_options(settings)
        self._bootstrap = [
            Address(host, port) for host, port, _ in collect_hosts(options.pop("bootstrap_servers"))
        ]
        self._options = {**options, "request_timeout_ms": _NEVER_MS}
        self._patience = Patience.of(settings)
        self._brokers: dict[int, Address] = {}
        self._open: dict[tuple[int | Address, Lane], _Connection] = {}
        self._opening: dict[tuple[int | Address, Lane], asyncio.Task[_Connection]] = {}
        self._suspects: dict[int | Address, float] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._looking: asyncio.Task[None] | None = None
        self._turn = 0

    @property
    def brokers(self) -> list[int]:
        """Ids of those that the newest metadata name; none before the first."""
        return sorted(self._brokers)

    def learn(self, metadata: Any) -> None:
        """Take the brokers from a metadata response; one that names none is of a broker that has just
        started."""
        named = [BrokerAnswer(*each) for each in metadata.brokers]
        found = {each.node_id: Address(each.host, each.port) for each in named}
        if found:
            moved = [node for node, address in self._brokers.items() if found.get(node) != address]
            self._brokers = found
            for node in moved:
                self._drop(node)

    def learn_node(self, node: int, host: str, port: int) -> None:
        """One that an answer has named with its address."""
        self._brokers.setdefault(node, Address(host, port))

    async def find(self) -> None:
        """Learn who the brokers are. Raises NoConnectionError: nobody tells."""
        self.learn(await self.ask_any(MetadataRequest([])))

    async def send(self, node: int, request: Request, lane: Lane, held_ms: int = 0) -> Response:
        """Ask one broker. held_ms: how long it may hold the request back before it answers.

        Raises NoConnectionError, NoAnswerError, or what aiokafka and token providers raise.
        """
        if node not in self._brokers:
            await self.find()
        return await self._send(node, request, lane, held_ms)

    async def ask_any(self, request: Request) -> Response:
        """Ask one broker, and the next whenever the last one takes long; the first answer.

        Raises NoConnectionError: nobody answers. Raises a KcontrolError of a token provider.
        """
        faults: list[BaseException] = []
        pending: set[asyncio.Task[Any]] = set()
        candidates = self._candidates()
        while True:
            target = next(candidates, None)
            if target is None and not pending:
                raise _nobody(faults)
            if target is not None:
                pending.add(self._run(self._send(target, request, Lane.PROMPT)))
            done, pending = await asyncio.wait(
                pending, timeout=HEDGE_S if target is not None else None, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                fault = NoConnectionError("closed") if task.cancelled() else task.exception()
                if fault is None:
                    return task.result()
                if isinstance(
                    fault, KcontrolError | NotImplementedError | kafka_errors.IncompatibleBrokerVersion
                ):
                    raise fault
                faults.append(fault)

    async def close(self) -> None:
        """End all; what is under way fails."""
        for task in [*self._opening.values(), *self._tasks]:
            task.cancel()
        await asyncio.gather(*self._opening.values(), *self._tasks, return_exceptions=True)
        closing = [closed for connection in self._open.values() if (closed := connection.close()) is not None]
        self._open.clear()
        if closing:
            # What a broker that hangs has not taken yet keeps it open.
            await asyncio.wait(closing, timeout=_CLOSE_TIMEOUT_S)

    async def _send(self, target: int | Address, request: Request, lane: Lane, held_ms: int = 0) -> Response:
        connection = await self._connection(target, lane)
        try:
            answer = await connection.send(request, held_ms / 1000, self._patience.request_ms / 1000)
        except (kafka_errors.KafkaConnectionError, kafka_errors.CorrelationIdError, OSError) as error:
            if connection.gone:
                self._suspect(target)
                raise NoAnswerError(f"{self._name(target)} {connection.gone}") from error
            raise NoAnswerError(str(error) or type(error).__name__) from error
        self._suspects.pop(target, None)
        return answer

    async def _connection(self, target: int | Address, lane: Lane) -> _Connection:
        key = (target, lane)
        connection = self._open.get(key)
        if connection is not None and connection.is_open:
            return connection
        task = self._opening.get(key)
        if task is None:
            task = self._opening[key] = asyncio.get_running_loop().create_task(self._connect(target, lane))
            task.add_done_callback(lambda _: self._opening.pop(key, None))
            task.add_done_callback(_heard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise NoConnectionError("it was given up, or the client was closed", hangs=True) from None
            raise

    async def _connect(self, target: int | Address, lane: Lane) -> _Connection:
        address = target if isinstance(target, Address) else self._brokers.get(target)
        if address is None:
            raise NoConnectionError(f"the cluster names no broker {target}")
        try:
            async with asyncio.timeout(self._patience.connect_ms / 1000):
                raw = await self._create(target, address)
        except (OSError, kafka_errors.KafkaError) as error:
            self._suspect(target)
            why = (
                f"no answer within {self._patience.connect_ms} ms"
                if isinstance(error, TimeoutError)
                else str(error)
            )
            message = f"no connection to {self._name(target)}: {why or type(error).__name__}"
            raise NoConnectionError(message, hangs=isinstance(error, TimeoutError)) from error
        connection = self._open[target, lane] = _Connection(raw, partial(self._look_around, target))
        return connection

    async def _create(self, target: int | Address, address: Address) -> Any:
        timer = asyncio.get_running_loop().call_later(LOOK_AROUND_S, self._look_around, target)
        try:
            return await create_conn(address.host, address.port, **self._options)
        finally:
            timer.cancel()

    def _look_around(self, target: int | Address) -> None:
        """Ask, in the background, whether a broker that keeps silent is still one of the cluster's."""
        self._suspect(target)
        if self._looking is None or self._looking.done():
            self._looking = self._run(self.find())

    def _candidates(self) -> Iterator[int | Address]:
        """Whom to ask: in turn, those first that have not hung; at the end the addresses that one begins
        at."""
        known = sorted(self._brokers)
        self._turn += 1
        known = known[self._turn % len(known) :] + known[: self._turn % len(known)] if known else []
        known.sort(key=lambda node: (self._is_suspect(node), (node, Lane.PROMPT) not in self._open))
        yield from known
        yield from sorted(self._bootstrap, key=self._is_suspect)

    def _suspect(self, target: int | Address) -> None:
        self._suspects[target] = time.monotonic() + SUSPECT_S

    def _is_suspect(self, target: int | Address) -> bool:
        return self._suspects.get(target, 0.0) > time.monotonic()

    def _drop(self, node: int) -> None:
        """It is not where it was."""
        for lane in Lane:
            connection = self._open.pop((node, lane), None)
            if connection is not None:
                connection.give_up("is not there any more, as the others say")
            opening = self._opening.get((node, lane))
            if opening is not None:
                opening.cancel()

    def _name(self, target: int | Address) -> str:
        address = target if isinstance(target, Address) else self._brokers.get(target)
        where = f"{address.host}:{address.port}" if address else "?"
        return where if isinstance(target, Address) else f"broker {target} at {where}"

    def _run(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """In the background: a broker that answers last must still be seen to hang, if it does."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_heard)
        return task


def _heard(task: asyncio.Task[Any]) -> None:
    """Whoever did not wait for it does not need to hear of its fault."""
    if not task.cancelled():
        task.exception()


def _nobody(faults: list[BaseException]) -> NoConnectionError:
    said = (
        "; ".join(dict.fromkeys(str(fault) or type(fault).__name__ for fault in faults))
        or "there is no address"
    )
    hang = all(isinstance(fault, NoAnswerError) or getattr(fault, "hangs", False) for fault in faults)
    error = NoConnectionError(said, hang)
    error.__cause__ = faults[-1] if faults else None
    return error

"""The side channel: how planner processes and Spark tasks speak with the driver's engine.

Spark gives a data source no way to talk to its driver while a query runs, and tasks no way to ask before they
write. So the driver listens on a socket (loopback when Spark is local). Both sides prove that they know a
secret created for each driver process; messages are JSON with their length before them, never pickles, and
bounded in size. Kafka's client settings, secrets included, travel only here. With executors on other hosts
the connection is TLS, unless that is switched off.
"""

from __future__ import annotations

import itertools
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kcontrol.adapters.spark.channel.link import Link, LinkError, Peer, prove_to_client, prove_to_server
from kcontrol.adapters.spark.channel.messages import (
    QUESTIONS,
    A,
    Question,
    answer_of,
    question_from_plain,
    question_to_plain,
)
from kcontrol.adapters.spark.channel.settings import Certificate, ChannelLimits, client_context
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError
from kcontrol.wire.shapes import from_plain, to_plain

ANSWER_TIMEOUT_S = 120.0
"""How long a task waits for the driver; longer than `LONG_POLL_S`."""
MAX_ANSWER_BYTES = 1 << 30
"""A bound for a driver gone mad; it is one of ours."""
_BACKLOG = 128

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ChannelAddress:
    """Where the driver listens and how to prove that one belongs to it. The secret is not shown by `repr`."""

    host: str
    port: int
    secret: str
    fingerprint: str = ""
    """Of the driver's certificate, SHA-256 in hexadecimal; '' without TLS."""

    def __repr__(self) -> str:
        return f"ChannelAddress(host={self.host!r}, port={self.port})"


class ChannelServer:
    """Listens in the driver. `handle(peer, question)` gives the answer to one; it is called
    on a thread of the connection.

    A peer's session grows with each call of `begin_session`: it tells processes of a query that was stopped
    from those of its successor. questions: the classes of those that there are.
    """

    def __init__(
        self,
        host: str,
        handle: Callable[[Peer, Question[Any]], Any],
        limits: ChannelLimits | None = None,
        certificate: Certificate | None = None,
        questions: tuple[type[Question[Any]], ...] = QUESTIONS,
    ) -> None:
        self._handle, self._questions = handle, questions
        self._limits, self._certificate = limits or ChannelLimits(), certificate
        self._session = 0
        self._numbers = itertools.count()
        self._secret = secrets.token_hex(32)
        self._lock = threading.Lock()
        self._strangers: dict[Link, None] = {}
        """Oldest first."""
        self._peers = 0
        self._listener = socket.create_server((host, 0), family=socket.AF_INET, backlog=_BACKLOG)
        self._closed = False
        port = self._listener.getsockname()[1]
        self.address = ChannelAddress(
            host, port, self._secret, certificate.fingerprint if certificate else ""
        )
        threading.Thread(target=self._accept, name="kcontrol-channel", daemon=True).start()

    def begin_session(self) -> int:
        """Connections made from now on belong to a new session, whose number is returned."""
        self._session += 1
        return self._session

    def close(self) -> None:
        """Stop listening; connections end with their peers."""
        self._closed = True
        try:
            # A thread blocked in accept() does not notice that its socket was closed: one last connection
            # wakes it.
            socket.create_connection((self.address.host, self.address.port), timeout=1).close()
        except OSError:
            pass
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                continue
            link, peer = Link(connection), Peer(self._session, next(self._numbers))
            self._admit(link)
            threading.Thread(
                target=self._serve, args=(link, peer), name="kcontrol-channel-peer", daemon=True
            ).start()

    def _admit(self, link: Link) -> None:
        """One of ours proves itself in milliseconds; so room is made by ending whoever has taken longest."""
        with self._lock:
            self._strangers[link] = None
            oldest = (
                next(iter(self._strangers)) if len(self._strangers) > self._limits.most_strangers else None
            )
            if oldest is not None:
                del self._strangers[oldest]
        if oldest is not None:
            oldest.close()

    def _serve(self, link: Link, peer: Peer) -> None:
        known = False
        try:
            self._authenticate(link)
            known = self._welcome(link)
            while known:
                question = question_from_plain(
                    json.loads(link.receive(self._limits.message_bytes)), self._questions
                )
                link.send(json.dumps(self._answer(peer, question)).encode())
        except (OSError, ValueError):
            return  # the peer is gone, or never was one of ours
        finally:
            with self._lock:
                self._strangers.pop(link, None)
                self._peers -= known
            link.close()

    def _authenticate(self, link: Link) -> None:
        deadline_s = time.monotonic() + self._limits.handshake_s
        if self._certificate is not None:
            link.secured(self._certificate.context, deadline_s, server_side=True)
        prove_to_client(link, self._secret, deadline_s)

    def _welcome(self, link: Link) -> bool:
        with self._lock:
            self._strangers.pop(link, None)
            if self._peers < self._limits.most_peers:
                self._peers += 1
                return True
        _log.warning(
            "the side channel has %d connections and takes no more (maxConnections)", self._limits.most_peers
        )
        return False

    def _answer(self, peer: Peer, question: Question[Any]) -> dict[str, Any]:
        try:
            answer = self._handle(peer, question)
            kind: Any = type(answer)
            return {"ok": to_plain(kind)(answer)}
        except StepFailedError as error:
            return {"failed": error.kind, "message": str(error)}


class ChannelClient:
    """One connection to the driver, used by one thread at a time."""

    def __init__(self, address: ChannelAddress) -> None:
        self.broken = False
        self._where = f"{address.host}:{address.port}"
        try:
            self._link = _connected(address)
        except OSError as error:
            raise StepFailedError(
                FailureKind.LOST,
                f"this Spark task can't reach its driver's kcontrol channel at {self._where}: {error}",
            ) from error

    def ask(self, question: Question[A]) -> A:
        """Send one question and wait for its answer. Raises StepFailedError with the kind that the driver
        gave."""
        try:
            self._link.send(json.dumps(question_to_plain(question)).encode())
            answer: dict[str, Any] = json.loads(
                self._link.receive(MAX_ANSWER_BYTES, time.monotonic() + ANSWER_TIMEOUT_S)
            )
        except OSError as error:
            self.broken = True
            self._link.close()
            raise StepFailedError(
                FailureKind.LOST, f"the driver's kcontrol channel at {self._where} failed: {error}"
            ) from error
        if "failed" in answer:
            raise StepFailedError(FailureKind(answer["failed"]), answer["message"])
        kind: Any = type(question)
        result: A = from_plain(answer_of(kind))(answer["ok"])
        return result


def _connected(address: ChannelAddress) -> Link:
    limit_s = ChannelLimits().handshake_s
    deadline_s = time.monotonic() + limit_s
    link = Link(socket.create_connection((address.host, address.port), timeout=limit_s))
    try:
        if address.fingerprint:
            link.secured(client_context(), deadline_s, server_side=False)
            if link.fingerprint() != address.fingerprint:
                raise LinkError("its certificate is not that of this application")
        prove_to_server(link, address.secret, deadline_s)
    except BaseException:
        link.close()
        raise
    return link


_clients: dict[tuple[int, int], tuple[ChannelAddress, ChannelClient]] = {}


def client_of(address: ChannelAddress) -> ChannelClient:
    """This thread's connection to `address`, kept for as long as the process lives
    (Spark reuses its Python workers).

    A worker that was forked must not use its parent's connection, so the process id is part of the key.
    """
    key = (os.getpid(), threading.get_ident())
    known, client = _clients.get(key, (None, None))
    if client is None or known != address or client.broken:
        client = ChannelClient(address)
        _clients[key] = (address, client)
    return client

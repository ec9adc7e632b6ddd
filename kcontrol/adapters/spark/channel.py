"""The side channel: how planner processes and Spark tasks speak with the driver's engine.

Spark gives a data source no way to talk to its driver while a query runs, and tasks no way to ask before they write. So the
driver listens on a socket (loopback when Spark is local). Both sides prove that they know a secret made anew for each driver
process, by the challenge of `multiprocessing.connection`; messages are JSON in length-prefixed frames, never pickles, and
bounded in size. Kafka's client settings, secrets included, travel only here. The channel is not encrypted: across
machines it asks for the same trusted network as Spark's own block transfer without `spark.network.crypto.enabled`.
"""

from __future__ import annotations

import itertools
import json
import os
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from typing import Any

from kcontrol.adapters.spark.board import Peer
from kcontrol.core.model import FailureKind
from kcontrol.errors import StepFailedError

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""A division of 100,000 splits fits; anything larger is not ours."""
HANDSHAKE_TIMEOUT_S = 10.0
ANSWER_TIMEOUT_S = 120.0
"""How long a task waits for the driver; longer than `LONG_POLL_S`."""

Message = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ChannelAddress:
    """Where the driver listens and how to prove that one belongs to it. The secret is not shown by `repr`."""

    host: str
    port: int
    secret: str

    def __repr__(self) -> str:
        return f"ChannelAddress(host={self.host!r}, port={self.port})"


class ChannelServer:
    """Listens in the driver. `handle(peer, message)` answers one message; it is called on a thread of the connection.

    A peer's session grows with each call of `begin_session`: it tells processes of a query that was stopped from those of
    its successor.
    """

    def __init__(self, host: str, handle: Callable[[Peer, Message], dict[str, Any]]) -> None:
        self._handle = handle
        self._session = 0
        self._numbers = itertools.count()
        self._secret = secrets.token_hex(32)
        self._listener = Listener((host, 0), family="AF_INET", backlog=128)
        self._closed = False
        port = self._listener.address[1]
        self.address = ChannelAddress(host, port, self._secret)
        threading.Thread(target=self._accept, name="kcontrol-channel", daemon=True).start()

    def begin_session(self) -> int:
        """Connections made from now on belong to a new session, whose number is returned."""
        self._session += 1
        return self._session

    def close(self) -> None:
        """Stop listening; connections end with their peers."""
        self._closed = True
        try:
            # A thread blocked in accept() does not notice that its socket was closed: one last connection wakes it.
            socket.create_connection((self.address.host, self.address.port), timeout=1).close()
        except OSError:
            pass
        self._listener.close()

    def _accept(self) -> None:
        while not self._closed:
            try:
                connection = self._listener.accept()
            except OSError:
                continue
            peer = Peer(self._session, next(self._numbers))
            threading.Thread(target=self._serve, args=(connection, peer), name="kcontrol-channel-peer", daemon=True).start()

    def _serve(self, connection: Connection, peer: Peer) -> None:
        try:
            with connection:
                self._authenticate(connection)
                while True:
                    message = json.loads(connection.recv_bytes(MAX_MESSAGE_BYTES))
                    connection.send_bytes(json.dumps(self._answer(peer, message)).encode())
        except (EOFError, OSError, AuthenticationError, ValueError):
            return  # the peer is gone, or never was one of ours

    def _authenticate(self, connection: Connection) -> None:
        _set_receive_timeout(connection, HANDSHAKE_TIMEOUT_S)
        # The caller proves itself first: a server that answered challenges of strangers could be made to answer its own.
        deliver_challenge(connection, self._secret.encode())
        answer_challenge(connection, self._secret.encode())
        _set_receive_timeout(connection, 0)

    def _answer(self, peer: Peer, message: Message) -> dict[str, Any]:
        try:
            return {"ok": self._handle(peer, message)}
        except StepFailedError as error:
            return {"failed": error.kind, "message": str(error)}


def _set_receive_timeout(connection: Connection, timeout_s: float) -> None:
    """A read that takes longer fails with OSError; 0: none. Set on the file, because Connection has only `poll`."""
    seconds, microseconds = int(timeout_s), int(timeout_s % 1 * 1e6)
    with socket.socket(fileno=os.dup(connection.fileno())) as handle:
        handle.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", seconds, microseconds))


class ChannelClient:
    """One connection to the driver, used by one thread at a time."""

    def __init__(self, address: ChannelAddress) -> None:
        self.broken = False
        self._where = f"{address.host}:{address.port}"
        try:
            self._connection = Client((address.host, address.port), family="AF_INET")
            answer_challenge(self._connection, address.secret.encode())
            deliver_challenge(self._connection, address.secret.encode())
        except (OSError, EOFError, AuthenticationError) as error:
            raise StepFailedError(
                FailureKind.LOST, f"this Spark task can't reach its driver's kcontrol channel at {self._where}: {error}"
            ) from error

    def ask(self, operation: str, **fields: Any) -> dict[str, Any]:
        """Send one message and wait for its answer. Raises StepFailedError with the kind that the driver gave."""
        try:
            self._connection.send_bytes(json.dumps({"op": operation, **fields}).encode())
            if not self._connection.poll(ANSWER_TIMEOUT_S):
                raise EOFError(f"no answer in {ANSWER_TIMEOUT_S:.0f} s")
            answer: dict[str, Any] = json.loads(self._connection.recv_bytes(MAX_MESSAGE_BYTES))
        except (OSError, EOFError) as error:
            self.broken = True
            self._connection.close()
            raise StepFailedError(
                FailureKind.LOST, f"the driver's kcontrol channel at {self._where} failed: {error}"
            ) from error
        if "failed" in answer:
            raise StepFailedError(answer["failed"], answer["message"])
        result: dict[str, Any] = answer["ok"]
        return result


_clients: dict[tuple[int, int], tuple[ChannelAddress, ChannelClient]] = {}


def client_of(address: ChannelAddress) -> ChannelClient:
    """This thread's connection to `address`, kept for as long as the process lives (Spark reuses its Python workers).

    A worker that was forked must not use its parent's connection, so the process id is part of the key.
    """
    key = (os.getpid(), threading.get_ident())
    known, client = _clients.get(key, (None, None))
    if client is None or known != address or client.broken:
        client = ChannelClient(address)
        _clients[key] = (address, client)
    return client

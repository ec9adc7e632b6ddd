"""One connection of the side channel: messages with their length before them, over TCP
or TLS, and proof of the secret.

Every wait before the proof has one deadline for all of it, so that a peer which sends a byte now and then
gains nothing, and nothing is kept for a peer that has not proven itself but a few dozen bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import socket
import ssl
import struct
import time
from dataclasses import dataclass

NONCE_BYTES = 32
_LENGTH = struct.Struct(">I")
_PROOF_BYTES = hashlib.sha256().digest_size


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end: `session` is the opening of the queries during which the connection was
    made."""

    session: int
    number: int


class LinkError(OSError):
    """The peer is gone, too slow, sends what is no message, or does not know the secret."""


class Link:
    """Messages over a connected socket, which it owns. Used by one thread at a time, but `close` by any."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection

    def send(self, message: bytes) -> None:
        """Raises OSError when the peer is gone."""
        self._socket.settimeout(None)
        self._socket.sendall(_LENGTH.pack(len(message)) + message)

    def receive(self, most_bytes: int, deadline_s: float | None = None) -> bytes:
        """The next message. deadline_s: by the monotonic clock; None: wait for ever.

        Raises LinkError, also for a longer message, of which nothing but the length is read.
        """
        (size,) = _LENGTH.unpack(self._exactly(_LENGTH.size, deadline_s))
        if size > most_bytes:
            raise LinkError(f"the peer announces {size} bytes, {most_bytes} are allowed")
        return self._exactly(size, deadline_s)

    def secured(self, context: ssl.SSLContext, deadline_s: float, *, server_side: bool) -> Link:
        """The same connection with TLS. Raises OSError (ssl.SSLError among them)."""
        self._socket.settimeout(_left_s(deadline_s))
        secure = context.wrap_socket(self._socket, server_side=server_side, do_handshake_on_connect=False)
        self._socket = secure
        secure.do_handshake()  # its timeout is for all of it
        return self

    def fingerprint(self) -> str:
        """SHA-256 of the peer's certificate, in hexadecimal; '' without TLS."""
        found = (
            self._socket.getpeercert(binary_form=True) if isinstance(self._socket, ssl.SSLSocket) else None
        )
        return fingerprint_of(found) if found else ""

    def close(self) -> None:
        """Also ends what another thread waits for."""
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._socket.close()

    def _exactly(self, size: int, deadline_s: float | None) -> bytes:
        parts = []
        while size > 0:
            self._socket.settimeout(None if deadline_s is None else _left_s(deadline_s))
            part = self._socket.recv(min(size, 1 << 20))
            if not part:
                raise LinkError("the peer has closed the connection")
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def fingerprint_of(certificate: bytes) -> str:
    """SHA-256 of a certificate in DER form, in hexadecimal."""
    return hashlib.sha256(certificate).hexdigest()


def prove_to_server(link: Link, secret: str, deadline_s: float) -> None:
    """The client's side. Raises OSError when the server does not know the secret or turns us away."""
    challenge = link.receive(NONCE_BYTES, deadline_s)
    nonce = os.urandom(NONCE_BYTES)
    link.send(nonce + _proof(secret, b"client", challenge, nonce))
    answer = link.receive(_PROOF_BYTES, deadline_s)
    if not hmac.compare_digest(answer, _proof(secret, b"server", challenge, nonce)):
        raise LinkError("the driver does not know the secret of this application")


def prove_to_client(link: Link, secret: str, deadline_s: float) -> None:
    """The server's side: the client proves itself first, so that nobody can have
    challenges of his own answered."""
    challenge = os.urandom(NONCE_BYTES)
    link.send(challenge)
    answer = link.receive(NONCE_BYTES + _PROOF_BYTES, deadline_s)
    nonce, proof = answer[:NONCE_BYTES], answer[NONCE_BYTES:]
    if not hmac.compare_digest(proof, _proof(secret, b"client", challenge, nonce)):
        raise LinkError("the peer does not know the secret of this application")
    link.send(_proof(secret, b"server", challenge, nonce))


def _proof(secret: str, who: bytes, challenge: bytes, nonce: bytes) -> bytes:
    return hmac.new(secret.encode(), who + challenge + nonce, "sha256").digest()


def _left_s(deadline_s: float) -> float:
    left_s = deadline_s - time.monotonic()
    if left_s <= 0:
        raise LinkError("the peer takes too long")
    return left_s

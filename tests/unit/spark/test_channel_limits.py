"""What a peer that has not proven itself can make the side channel do: nothing for long, and nothing large.
And TLS."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kcontrol.adapters.spark.channel import client as clients
from kcontrol.adapters.spark.channel.client import ChannelAddress, ChannelClient, ChannelServer
from kcontrol.adapters.spark.channel.link import Peer
from kcontrol.adapters.spark.channel.messages import Question
from kcontrol.adapters.spark.channel.settings import Certificate, ChannelLimits, limits_of, load_certificate
from kcontrol.errors import SparkSettingError, StepFailedError
from tests.support.patience import HANG_S

DEADLINE_S = HANG_S
Serve = Callable[..., ChannelServer]


@dataclass(frozen=True, slots=True)
class Said:
    text: str


@dataclass(frozen=True, slots=True)
class Echo(Question[Said]):
    text: str


def echo(_peer: Peer, question: Question[Any]) -> Said:
    assert isinstance(question, Echo)
    return Said(question.text)


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Serve]:
    """What is not limited has as long as a test has to prove itself, and so have clients."""
    monkeypatch.setattr(clients, "ChannelLimits", lambda: ChannelLimits(handshake_s=HANG_S))
    with ExitStack() as stack:

        def start(certificate: Certificate | None = None, **limits: Any) -> ChannelServer:
            given = ChannelLimits(**{"handshake_s": HANG_S, **limits})
            server = ChannelServer("127.0.0.1", echo, given, certificate, (Echo,))
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl to make a certificate with")
    where = tmp_path_factory.mktemp("certificate")
    made = [
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
        "-subj",
        "/CN=test",
    ]
    command = [openssl, "req", *made, "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(command, cwd=where, check=True, capture_output=True)
    return load_certificate(where / "cert.pem", where / "key.pem")


def stranger(server: ChannelServer) -> socket.socket:
    return socket.create_connection((server.address.host, server.address.port), timeout=DEADLINE_S)


def is_ended(connection: socket.socket) -> bool:
    """Whether the server has closed it; what it said before is read."""
    try:
        while connection.recv(4_096):
            pass
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False
    return True


def works(server: ChannelServer) -> bool:
    return bool(ChannelClient(server.address).ask(Echo("x")).text == "x")


def until_works(server: ChannelServer) -> None:
    """A peer that was turned away, or was later than the server allows, tries again."""
    deadline_s = time.monotonic() + DEADLINE_S
    while True:
        try:
            assert works(server)
            return
        except StepFailedError:
            assert time.monotonic() < deadline_s, "nobody is let in any more"


@pytest.mark.parametrize("size", [65, 1 << 16, (1 << 32) - 1])
def test_a_long_message_before_the_proof_is_refused_by_its_length_alone(serve: Serve, size: int) -> None:
    server = serve(handshake_s=600.0)
    with stranger(server) as peer:
        peer.sendall(struct.pack(">I", size))
        assert is_ended(peer)
    assert works(server)


def test_a_half_handshake_ends_at_its_deadline_however_it_drips(serve: Serve) -> None:
    server = serve(handshake_s=0.5)
    with stranger(server) as silent, stranger(server) as dripping:
        stopped = threading.Event()

        def drip() -> None:
            try:
                while not stopped.wait(0.05):
                    dripping.sendall(b"\0")
            except OSError:
                pass

        thread = threading.Thread(target=drip)
        thread.start()
        try:
            assert is_ended(silent)
            assert is_ended(dripping)
        finally:
            stopped.set()
            thread.join(DEADLINE_S)
    until_works(server)


def test_strangers_are_few_and_keep_nobody_out(serve: Serve) -> None:
    """One more ends the oldest of them."""
    server = serve(handshake_s=600.0, most_strangers=5)
    with ExitStack() as stack:
        strangers = [stack.enter_context(stranger(server)) for _ in range(20)]
        for peer in strangers[:15]:
            assert is_ended(peer)
        assert works(server)
        for peer in strangers[17:]:
            peer.settimeout(0.01)
            assert not is_ended(peer)


def test_a_message_of_a_peer_has_a_bound_too(serve: Serve) -> None:
    server = serve(message_bytes=1_000)
    client = ChannelClient(server.address)
    assert client.ask(Echo("x" * 900))
    with pytest.raises(StepFailedError, match=r"channel at .* failed"):
        client.ask(Echo("x" * 1_000))
    assert works(server)


def test_peers_are_as_many_as_is_allowed(serve: Serve) -> None:
    server = serve(most_peers=2)
    clients = [ChannelClient(server.address) for _ in range(2)]
    assert all(client.ask(Echo("x")) for client in clients)
    with pytest.raises(StepFailedError):
        ChannelClient(server.address).ask(Echo("x"))
    clients[0]._link.close()
    until_works(server)


def test_what_one_side_proved_proves_nothing_to_another_connection(serve: Serve) -> None:
    """A stranger passes on to one connection what the server said on another."""
    server = serve()
    with stranger(server) as one, stranger(server) as other:
        challenge = one.recv(36)[4:]
        assert len(challenge) == 32
        assert other.recv(36)[4:] != challenge
        other.sendall(struct.pack(">I", 64) + challenge + os.urandom(32))
        assert is_ended(other)


def test_with_tls_messages_go_through_and_are_not_readable(serve: Serve, certificate: Certificate) -> None:
    server = serve(certificate)
    seen: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def pass_on() -> None:
            client, _ = listener.accept()
            driver = socket.create_connection((server.address.host, server.address.port))
            back = threading.Thread(target=_copy, args=(driver, client, seen))
            back.start()
            _copy(client, driver, seen)
            back.join(DEADLINE_S)

        proxy = threading.Thread(target=pass_on)
        proxy.start()
        port = listener.getsockname()[1]
        client = ChannelClient(
            ChannelAddress("127.0.0.1", port, server.address.secret, server.address.fingerprint)
        )
        assert client.ask(Echo("a secret")).text == "a secret"
        client._link.close()
        proxy.join(DEADLINE_S)
    assert sum(map(len, seen)) > 200
    assert b"a secret" not in b"".join(seen)


def _copy(source: socket.socket, target: socket.socket, seen: list[bytes]) -> None:
    with source, target:
        try:
            while data := source.recv(65_536):
                seen.append(data)
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


def test_another_certificate_is_not_trusted_and_learns_nothing(
    serve: Serve, certificate: Certificate
) -> None:
    server, hasty = serve(certificate), serve(certificate, handshake_s=0.5)
    other = ChannelAddress(server.address.host, server.address.port, server.address.secret, "0" * 64)
    with pytest.raises(StepFailedError, match="certificate is not that of this application"):
        ChannelClient(other)
    plain = ChannelAddress(hasty.address.host, hasty.address.port, hasty.address.secret)
    with pytest.raises(StepFailedError, match="can't reach"):
        # Without TLS the client waits for a challenge that never comes, until the server's deadline.
        ChannelClient(plain)


def test_a_half_tls_handshake_ends_at_its_deadline(serve: Serve, certificate: Certificate) -> None:
    server = serve(certificate, handshake_s=0.5)
    with stranger(server) as peer:
        peer.sendall(b"\x16\x03\x01")
        assert is_ended(peer)
    until_works(server)


@pytest.mark.parametrize("text", ["0", "-1", "many", "", "1e99"])
def test_a_limit_that_is_no_number_is_refused(text: str) -> None:
    with pytest.raises(SparkSettingError, match="maxStrangers"):
        limits_of(lambda name: text if name.endswith("maxStrangers") else None)


def test_limits_come_from_sparks_settings() -> None:
    given = {
        "handshakeSeconds": "2.5",
        "maxStrangers": "3",
        "maxConnections": "4",
        "maxMessageBytes": "5",
        "turnSeconds": "6",
    }
    assert limits_of(lambda name: given[name.rpartition(".")[2]]) == ChannelLimits(2.5, 3, 4, 5, 6.0)
    assert limits_of(lambda _name: None) == ChannelLimits()


def test_files_that_are_no_certificate_are_refused(tmp_path: Path) -> None:
    (tmp_path / "cert.pem").write_text("no")
    with pytest.raises(SparkSettingError, match="can't be used"):
        load_certificate(tmp_path / "cert.pem", tmp_path / "key.pem")

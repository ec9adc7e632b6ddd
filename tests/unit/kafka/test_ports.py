"""Ports of embedded brokers are free, and none that the system gives to a connection that goes out."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from kcontrol.adapters.kafka.embedded import ports


def test_they_are_free_and_below_those_of_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "range"
    given.write_text("20000\t30000\n")
    monkeypatch.setattr(ports, "_RANGE", given)
    found = ports.free_ports(20)
    assert len(set(found)) == 20
    assert all(port < 20_000 for port in found)
    for port in found:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_where_the_system_may_give_all_of_them_any_will_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tmp_path / "range"
    given.write_text("1024\t65535\n")
    monkeypatch.setattr(ports, "_RANGE", given)
    assert len(set(ports.free_ports(3))) == 3

"""Datagrams without content: "look again". They may be lost, and whoever never gets one is told the same when it looks."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Collection

_log = logging.getLogger(__name__)
_CONTENT = b"\n"


def hint_address(text: str) -> tuple[str, int]:
    """`IP:PORT`, or `[IP]:PORT`. Raises ValueError: names are not looked up, which could take a while."""
    host, _, port = text.rpartition(":")
    address = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    if not 0 < int(port) < 1 << 16:
        raise ValueError(f"{text!r} has no port between 1 and 65535")
    return str(address), int(port)


def send_hints(addresses: Collection[str]) -> None:
    """To each, once, without waiting. What does not go out is lost."""
    for text in addresses:
        try:
            host, port = hint_address(text)
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto(_CONTENT, (host, port))
        except (OSError, ValueError) as error:
            _log.debug("no hint to %s: %s", text, error)

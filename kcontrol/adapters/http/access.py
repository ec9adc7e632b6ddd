"""Who may ask: loopback by default, anybody else only with a bearer token. The token is never
logged, shown or compared early.

Without a token the server trusts whoever can reach the loopback interface, but not the web pages that such a
person has open: a request for another host's name (DNS rebinding) and a write that comes from another site's
page are refused.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from pathlib import Path
from urllib.parse import urlsplit

from kcontrol.errors import ConfigurationError

MIN_TOKEN_CHARACTERS = 16
MAX_TOKEN_BYTES = 4_096
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class AccessToken:
    """A secret that can be compared and nothing else."""

    __slots__ = ("_digest",)

    def __init__(self, text: str) -> None:
        self._digest = _digest(text)

    def matches(self, authorization: str) -> bool:
        """Whether a header `Authorization` holds it. Takes the same time whatever it holds."""
        scheme, _, given = authorization.partition(" ")
        right = hmac.compare_digest(_digest(given.strip()), self._digest)
        return right and scheme.lower() == "bearer"

    def __repr__(self) -> str:
        return "Token(...)"


def read_token(file: Path) -> AccessToken:
    """The token in a file, without white space around it. Raises ConfigurationError,
    which does not name its contents."""
    return AccessToken(read_token_text(file, "--token-file"))


def read_token_text(file: Path, option: str) -> str:
    """The same, to be sent to another server. option: that named the file."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{option} {file}: can't be read: {error.strerror}") from error
    text = content[: MAX_TOKEN_BYTES + 1].decode("ascii", errors="replace").strip()
    if (
        len(content) > MAX_TOKEN_BYTES
        or len(text) < MIN_TOKEN_CHARACTERS
        or not text.isascii()
        or len(text.split()) != 1
    ):
        raise ConfigurationError(
            f"{option} {file}: must hold one word of {MIN_TOKEN_CHARACTERS} to {MAX_TOKEN_BYTES} ASCII "
            "characters; make one with: openssl rand -hex 32"
        )
    return text


def check_address(host: str, token: AccessToken | None) -> None:
    """Raises ConfigurationError when others than this machine could ask without a token."""
    if token is None and not is_loopback(host):
        raise ConfigurationError(
            f"--host {host}: others than this machine could ask without a token: give --token-file, or "
            "--host 127.0.0.1"
        )


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches that address; of names, only `localhost` is known to be one."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def is_foreign_host(host_header: str) -> bool:
    """Whether a header `Host` names anything but a loopback address."""
    try:
        return not is_loopback(urlsplit(f"//{host_header}").hostname or "")
    except ValueError:
        return True


def is_foreign_write(method: str, origin: str, host_header: str) -> bool:
    """Whether a page of another origin makes a browser write here. Clients that are no browsers send no
    `Origin`."""
    return method not in _SAFE_METHODS and bool(origin) and origin.partition("//")[2] != host_header


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()

"""Where a webhook is: what its URL may hold, what every request has with it, and nothing of a secret."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from kcontrol.errors import ConfigurationError

_OWN = (
    "content-type",
    "content-length",
    "host",
    "idempotency-key",
    "webhook-id",
    "webhook-signature",
    "webhook-timestamp",
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_STANDARD = "whsec_"


@dataclass(frozen=True, slots=True)
class WebhookSecrets:
    """headers: of every request. key: by which bodies are signed; b'': they are not."""

    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    key: bytes = field(default=b"", repr=False)


class WebhookAddress:
    """A URL of http or https."""

    def __init__(self, url: str) -> None:
        """Raises ConfigurationError: it is none, or has a user in it, whose password everybody on the machine could see."""
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise ConfigurationError(f"--to is no URL ({error}): give https://HOST/PATH") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError("--to is no URL: give https://HOST/PATH")
        if parts.username is not None or parts.password is not None:
            raise ConfigurationError(
                "--to has a user in it, whose password everybody on this machine can see: leave it out, and give the "
                "header Authorization in a file with --headers-file"
            )
        if parts.fragment:
            raise ConfigurationError("--to has a fragment (#), which is not sent: leave it out")
        self.url = url
        self.name = f"{parts.hostname}{f':{port}' if port else ''}{parts.path}"
        """Host and path: a query may hold a token."""
        self.shown = f"{parts.scheme}://{self.name}"
        """The same as a URL."""

    def __str__(self) -> str:
        return f"webhook {self.name}"


def read_secrets(headers_file: Path | None, key_file: Path | None) -> WebhookSecrets:
    """headers_file: lines of NAME: VALUE. key_file: its first line is the key, as it is, or as Standard Webhooks write it
    (whsec_ and base64). Raises ConfigurationError."""
    headers: dict[str, str] = {}
    for number, line in enumerate(_lines(headers_file, "--headers-file"), 1):
        if not line.strip():
            continue
        name, colon, value = line.partition(":")
        where = f"--headers-file {headers_file}, line {number}"
        if not colon or not _NAME.fullmatch(name):
            raise ConfigurationError(f"{where}: give NAME: VALUE")
        if name.lower() in _OWN:
            raise ConfigurationError(f"{where}: {name} is set for each request, and can't be given")
        if not value.strip().isprintable():
            raise ConfigurationError(f"{where}: the value of {name} has characters that a header can't have")
        headers[name] = value.strip()
    lines = _lines(key_file, "--signing-key-file")
    return WebhookSecrets(headers, b"" if key_file is None else _key(lines[0] if lines else "", key_file))


def signature(key: bytes, request_id: str, at_s: int, body: bytes) -> str:
    """Of a body, for the header Webhook-Signature, as Standard Webhooks 1.0 has it (HMAC with SHA-256)."""
    signed = b".".join((request_id.encode(), str(at_s).encode(), body))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()


def tls(ca_file: Path | None, certificate_file: Path | None, key_file: Path | None) -> ssl.SSLContext:
    """Of a client that verifies the server: by the system's authorities, or by those of a file; that shows a certificate of
    its own, if one is given. Raises ConfigurationError."""
    if (certificate_file is None) != (key_file is None):
        raise ConfigurationError("--certificate-file and --key-file need each other: give both, or neither")
    context = ssl.create_default_context()
    for option, file in (("--ca-file", ca_file), ("--certificate-file", certificate_file)):
        if file is None:
            continue
        try:
            if option == "--ca-file":
                context = ssl.create_default_context(cafile=str(file))
            else:
                context.load_cert_chain(str(file), str(key_file))
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"{option} {file}: can't be used: {error}") from error
    return context


def _key(line: str, file: Path) -> bytes:
    if line.startswith(_STANDARD):
        try:
            line_bytes = base64.b64decode(line.removeprefix(_STANDARD), validate=True)
        except ValueError as error:
            raise ConfigurationError(
                f"--signing-key-file {file}: behind {_STANDARD} there is no base64: {error}"
            ) from error
    else:
        line_bytes = line.encode()
    if not line_bytes:
        raise ConfigurationError(f"--signing-key-file {file}: its first line is empty")
    return line_bytes


def _lines(file: Path | None, option: str) -> list[str]:
    if file is None:
        return []
    try:
        return file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{option} {file}: can't be read: {error}") from error

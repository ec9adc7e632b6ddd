"""Keys that packages are signed with."""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)


def make_key(
    file: Path, form: PrivateFormat = PrivateFormat.OpenSSH, *, passphrase: bytes | None = None
) -> str:
    """A private key in a file; its public half, as a line of OpenSSH's."""
    key = Ed25519PrivateKey.generate()
    lock = NoEncryption() if passphrase is None else BestAvailableEncryption(passphrase)
    file.write_bytes(key.private_bytes(Encoding.PEM, form, lock))
    return key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()

"""Signatures of packages as records, beside the parts of the package in the same topic.

A key has at most one signature of a package. Whoever may write the topic may put any number of others there, which mean
nothing; what counts is asked for by the keys that one trusts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kcontrol.errors import DamagedRecordError
from kcontrol.wire.codec import HEADER_BYTES, MAGIC, record_bytes, record_of
from kcontrol.wire.schemas import current_schemas, released_schemas

MAX_SIGNATURES = 1_000
"""Of one package; more are not looked at."""
_KEY = re.compile(r"([0-9a-f]{64})/signature/([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class PackageSignature:
    """Ed25519 (RFC 8032). public_key, signature: hexadecimal, of 32 and 64 bytes."""

    package: str
    public_key: str
    signature: str


def signed_bytes(package: str) -> bytes:
    """What is signed for a package: its name, which says its content, and what it is the name of."""
    return f"kcontrol package {package}".encode()


def signature_record(signature: PackageSignature) -> tuple[bytes, bytes]:
    """Key and value."""
    schema = current_schemas()[PackageSignature.__name__]
    key = f"{signature.package}/signature/{signature.public_key}"
    return key.encode(), record_bytes(signature, schema)


def signature_of(data: bytes) -> PackageSignature | None:
    """None if these bytes are none, or are of a version that this one does not know."""
    name = PackageSignature.__name__
    known = {one.fingerprint: one for one in released_schemas()[name]}
    written = known.get(data[len(MAGIC) : HEADER_BYTES])
    if written is None or not data.startswith(MAGIC):
        return None
    try:
        found: PackageSignature = record_of(
            data, written, current_schemas()[name], PackageSignature, "a signature"
        )
    except DamagedRecordError:
        return None
    return found


class PackageSignatures:
    """Collects what there is of one package among the records of the topic."""

    def __init__(self, package: str) -> None:
        self._package = package
        self._found: dict[str, PackageSignature] = {}

    def see(self, key: bytes | None, value: bytes | None) -> None:
        """One more record; what is no signature of this package changes nothing."""
        named = _KEY.fullmatch((key or b"").decode(errors="replace"))
        if named is None or named[1] != self._package:
            return
        found = None if value is None else signature_of(value)
        if found is None or (found.package, found.public_key) != (named[1], named[2]):
            self._found.pop(named[2], None)
        elif len(self._found) < MAX_SIGNATURES or named[2] in self._found:
            self._found[named[2]] = found

    def all(self) -> tuple[PackageSignature, ...]:
        return tuple(self._found.values())

"""Who has submitted a package: signatures by Ed25519 keys, of which each host trusts those that its operator has named.

Keys are those of OpenSSH (`ssh-keygen -t ed25519`), or private ones in PEM: everybody has what makes them.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
    load_ssh_private_key,
    load_ssh_public_key,
)

from kcontrol.errors import ConfigurationError
from kcontrol.wire.package_signatures import PackageSignature, signed_bytes

MAX_KEYS = 1_000
MAX_KEY_FILE_BYTES = 1 << 20
_OPENSSH = b"-----BEGIN OPENSSH PRIVATE KEY-----"


class PackageSigner:
    """Signs with the private key in a file. Raises ConfigurationError if there is none that can be used."""

    def __init__(self, file: Path) -> None:
        data = _read(file, "--sign")
        load = load_ssh_private_key if data.lstrip().startswith(_OPENSSH) else load_pem_private_key
        try:
            key = load(data, None)
        except (TypeError, ValueError, UnsupportedAlgorithm) as error:
            raise ConfigurationError(
                f"--sign {file}: it is no private key, or one that a passphrase locks ({error}): `ssh-keygen -t ed25519 -N ''` "
                "makes one that can be used"
            ) from error
        if not isinstance(key, Ed25519PrivateKey):
            raise ConfigurationError(
                f"--sign {file}: it is a key of another kind, and must be Ed25519: `ssh-keygen -t ed25519` makes one"
            )
        self._key = key

    def sign(self, package: str) -> PackageSignature:
        """Of a package, by its name."""
        signature = self._key.sign(signed_bytes(package))
        return PackageSignature(package, _hex(self._key.public_key()), signature.hex())


class TrustedKeys:
    """The public keys in a file, one a line as in `id_ed25519.pub`; read again each time, so that whoever takes one out
    is heard at once."""

    def __init__(self, file: Path) -> None:
        """Raises ConfigurationError if there are none that can be used."""
        self._file = file
        self._keys()

    def check(self, package: str, signatures: tuple[PackageSignature, ...]) -> None:
        """Raises ConfigurationError unless one of them has signed it."""
        trusted = self._keys()
        for one in signatures:
            key = trusted.get(one.public_key)
            if key is not None and one.package == package and _is_signed(key, one):
                return
        by = "nobody has" if not signatures else f"{len(signatures)} have, and none of those"
        raise ConfigurationError(
            f"package {package} is not signed by a key in {self._file}: {by}; submit it with --sign KEY, or add the key's "
            "public half to that file on this host"
        )

    def _keys(self) -> dict[str, Ed25519PublicKey]:
        """By what it is in hexadecimal."""
        lines = _read(self._file, "--trusted-keys").decode(errors="replace").splitlines()
        found: dict[str, Ed25519PublicKey] = {}
        for number, line in enumerate(lines, start=1):
            if line.strip() and not line.lstrip().startswith("#"):
                key = self._key(line.strip(), number)
                found[_hex(key)] = key
        if not 1 <= len(found) <= MAX_KEYS:
            raise ConfigurationError(
                f"--trusted-keys {self._file} has {len(found)} keys, and must have from 1 to {MAX_KEYS}"
            )
        return found

    def _key(self, line: str, number: int) -> Ed25519PublicKey:
        try:
            key = load_ssh_public_key(line.encode())
        except (ValueError, UnsupportedAlgorithm) as error:
            raise ConfigurationError(
                f"--trusted-keys {self._file}, line {number}: it is no public key ({error}); each line is one, as in "
                "id_ed25519.pub"
            ) from error
        if not isinstance(key, Ed25519PublicKey):
            raise ConfigurationError(
                f"--trusted-keys {self._file}, line {number}: it is a key of another kind, and must be Ed25519"
            )
        return key


def _is_signed(key: Ed25519PublicKey, signature: PackageSignature) -> bool:
    try:
        key.verify(bytes.fromhex(signature.signature), signed_bytes(signature.package))
    except (InvalidSignature, ValueError):
        return False
    return True


def _hex(key: Ed25519PublicKey) -> str:
    return key.public_bytes(Encoding.Raw, PublicFormat.Raw).hex()


def _read(file: Path, option: str) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(MAX_KEY_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{option} {file}: it can't be read ({error.strerror})") from error
    if len(data) > MAX_KEY_FILE_BYTES:
        raise ConfigurationError(f"{option} {file}: it is larger than {MAX_KEY_FILE_BYTES} bytes")
    return data

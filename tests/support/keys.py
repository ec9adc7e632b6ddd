"""RSA keys, self-signed certificates and signed tokens for tests, from the standard library alone.

X.509 (RFC 5280), PKCS #8 (RFC 5208) and JWS with RS256 (RFC 7515): just as much of them as Kafka and OpenSSL
want to see. Nothing here is fit for anything but tests.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

_BITS = 2048
_EXPONENT = 65_537
_SMALL_PRIMES = [
    number
    for number in range(3, 2_000, 2)
    if all(number % divisor for divisor in range(3, int(number**0.5) + 1, 2))
]
_SHA256_PREFIX = bytes.fromhex("3031300d060960864801650304020105000420")
_RSA, _RSA_SHA256, _COMMON_NAME, _ALTERNATIVE_NAME, _CONSTRAINTS = (
    bytes.fromhex(text)
    for text in ("06092a864886f70d010101", "06092a864886f70d01010b", "0603550403", "0603551d11", "0603551d13")
)
_NULL = b"\x05\x00"
_TRUE = b"\x01\x01\xff"


@dataclass(frozen=True)
class RsaKey:
    """modulus, private exponent, and the two primes."""

    n: int
    d: int
    p: int
    q: int

    def sign(self, data: bytes) -> bytes:
        """RSASSA-PKCS1-v1_5 with SHA-256."""
        digest = _SHA256_PREFIX + hashlib.sha256(data).digest()
        padded = b"\x00\x01" + b"\xff" * (_BITS // 8 - len(digest) - 3) + b"\x00" + digest
        return pow(int.from_bytes(padded, "big"), self.d, self.n).to_bytes(_BITS // 8, "big")

    @property
    def private_pem(self) -> str:
        """PKCS #8."""
        numbers = (
            0,
            self.n,
            _EXPONENT,
            self.d,
            self.p,
            self.q,
            self.d % (self.p - 1),
            self.d % (self.q - 1),
            pow(self.q, -1, self.p),
        )
        inner = _sequence(*(_integer(number) for number in numbers))
        return _pem("PRIVATE KEY", _sequence(_integer(0), _sequence(_RSA, _NULL), _tagged(0x04, inner)))

    def certificate_pem(self, common_name: str) -> str:
        """A self-signed certificate, valid for 127.0.0.1 and localhost until 2049, that may sign itself."""
        name = _sequence(_tagged(0x31, _sequence(_COMMON_NAME, _tagged(0x0C, common_name.encode()))))
        validity = _sequence(_tagged(0x17, b"200101000000Z"), _tagged(0x17, b"491231235959Z"))
        public = _sequence(
            _sequence(_RSA, _NULL), _tagged(0x03, b"\x00" + _sequence(_integer(self.n), _integer(_EXPONENT)))
        )
        names = _sequence(_tagged(0x87, bytes([127, 0, 0, 1])), _tagged(0x82, b"localhost"))
        extensions = _sequence(
            _sequence(_ALTERNATIVE_NAME, _tagged(0x04, names)),
            _sequence(_CONSTRAINTS, _TRUE, _tagged(0x04, _sequence(_TRUE))),
        )
        algorithm = _sequence(_RSA_SHA256, _NULL)
        serial = _integer(secrets.randbits(63) | 1)
        body = _sequence(
            _tagged(0xA0, _integer(2)),
            serial,
            algorithm,
            name,
            validity,
            name,
            public,
            _tagged(0xA3, extensions),
        )
        return _pem("CERTIFICATE", _sequence(body, algorithm, _tagged(0x03, b"\x00" + self.sign(body))))

    def token(self, claims: Mapping[str, Any]) -> str:
        """A JWT of these claims, signed with RS256."""
        head = _base64url(json.dumps({"alg": "RS256", "typ": "JWT", "kid": "test"}).encode())
        signed = f"{head}.{_base64url(json.dumps(claims).encode())}"
        return f"{signed}.{_base64url(self.sign(signed.encode()))}"

    def key_set(self) -> str:
        """The JSON Web Key Set with the public key."""
        number = _base64url(self.n.to_bytes(_BITS // 8, "big"))
        key = {
            "kty": "RSA",
            "alg": "RS256",
            "use": "sig",
            "kid": "test",
            "n": number,
            "e": _base64url(b"\x01\x00\x01"),
        }
        return json.dumps({"keys": [key]})


@cache
def rsa_key(_which: str) -> RsaKey:
    """A key of its own for each name, made when it is first asked for."""
    while True:
        p, q = _prime(), _prime()
        phi = (p - 1) * (q - 1)
        if p != q and (p * q).bit_length() == _BITS and phi % _EXPONENT:
            return RsaKey(p * q, pow(_EXPONENT, -1, phi), p, q)


def _prime() -> int:
    half = _BITS // 2
    while True:
        candidate = secrets.randbits(half) | (3 << (half - 2)) | 1
        if all(candidate % small for small in _SMALL_PRIMES) and _passes_miller_rabin(candidate):
            return candidate


def _passes_miller_rabin(number: int, rounds: int = 16) -> bool:
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(rounds):
        x = pow(secrets.randbelow(number - 3) + 2, odd, number)
        if x in (1, number - 1):
            continue
        for _ in range(twos - 1):
            x = x * x % number
            if x == number - 1:
                break
        else:
            return False
    return True


def _tagged(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _sequence(*parts: bytes) -> bytes:
    return _tagged(0x30, b"".join(parts))


def _integer(number: int) -> bytes:
    return _tagged(0x02, number.to_bytes(number.bit_length() // 8 + 1, "big"))


def _pem(label: str, data: bytes) -> str:
    text = base64.b64encode(data).decode()
    lines = "\n".join(text[start : start + 64] for start in range(0, len(text), 64))
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")

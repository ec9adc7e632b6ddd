"""What tells whether a step that is run again gives the same records: a count and a sum of hashes.

The hash of one record is MurmurHash3_x64_128 (seed 0) over kind (8 bytes), number (8 bytes), key, value,
count of headers, header keys and values where kind is 1 for an output record and 3 for an input record, and
number the partition count of the output or the offset of the input record, both little-endian. Above the
eight bits of the kind of an input record stands when it was written: a bit for whether the broker set the
timestamp, and the timestamp in milliseconds, in two's complement, as far as Arrow can hold it. In the first
version, of kind 2, these bits were 0, and a changed timestamp went unseen; what was logged so is checked so.
The rest is, byte for byte, what Kafka's record format v2 holds from the key's length on (lengths as zigzag
varints, -1 for null; the `step` header of an output record does not count). Every field is length-prefixed
and null is not empty, so different records are different bytes.

The digest of many records is the sum of their hashes modulo 2**128: it depends neither on their order nor on
how they were cut into tasks and fetches, and, unlike XOR, two equal records do not cancel out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from kcontrol.errors import ConfigurationError

_MODULUS = 1 << 128
_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F

Headers = Sequence[tuple[str, bytes | None]]


class DigestKind(IntEnum):
    """What a digest covers; part of each hash. NONE computes none: records are only counted."""

    NONE = 0
    OUTPUT = 1
    INPUT_UNTIMED = 2
    """Of input, without its timestamps: version 1."""
    INPUT = 3
    LINE = 4
    """Of a line of a file, numbered by the offset of its first byte, without what ends it."""


INPUT_DIGEST_VERSION = 2
"""Of the digests of input that are made now; in the log they say themselves which they are."""
_INPUT_KINDS = {1: DigestKind.INPUT_UNTIMED, INPUT_DIGEST_VERSION: DigestKind.INPUT}


def input_kind(version: int) -> DigestKind:
    """What a version of the digests of input covers. Raises ConfigurationError for one that is not known
    here."""
    kind = _INPUT_KINDS.get(version)
    if kind is None:
        raise ConfigurationError(
            f"the log has digests of input of version {version}, of a newer kcontrol; this one knows up to "
            f"version {INPUT_DIGEST_VERSION}: run this with the newer one"
        )
    return kind


@dataclass(frozen=True, slots=True)
class Digest:
    """`records` of them, whose hashes add up to `total` (0 to 2**128 - 1)."""

    records: int = 0
    total: int = 0

    def __add__(self, other: Digest) -> Digest:
        """The digest of both sets of records together."""
        return Digest(self.records + other.records, (self.total + other.total) % _MODULUS)

    @property
    def hex(self) -> str:
        """The sum as 32 lower-case hexadecimal digits, as boundaries hold it."""
        return f"{self.total:032x}"


EMPTY = Digest()
"""The digest of no records."""


def add_digests(digests: Iterable[str]) -> str:
    """The digest of all records together, from and to the digits that boundaries hold."""
    return Digest(total=sum(int(digits, 16) for digits in digests) % _MODULUS).hex


def record_digest(
    kind: DigestKind,
    number: int,
    key: bytes | None,
    value: bytes | None,
    headers: Headers,
    timestamp_ms: int = 0,
    append_time: bool = False,
) -> Digest:
    """The digest of one record, in plain Python: what the compiled loops must agree with. `number`: see
    above.

    timestamp_ms, append_time: when an input record was written, and whether the broker said
    so; other kinds don't cover it.
    """
    if kind is DigestKind.NONE:
        return Digest(1, 0)
    first = int(kind)
    if kind is DigestKind.INPUT:
        first |= (timestamp_ms << 9 | append_time << 8) & _MASK
    body = b"".join((_field(key), _field(value), varint(len(headers)), *map(_header, headers)))
    prefix = first.to_bytes(8, "little") + (number & _MASK).to_bytes(8, "little")
    return Digest(1, murmur3_128(prefix + body))


def line_digest(offset: int, line: bytes) -> Digest:
    """The digest of one line of a file, in plain Python."""
    return Digest(
        1, murmur3_128(int(DigestKind.LINE).to_bytes(8, "little") + offset.to_bytes(8, "little") + line)
    )


def varint(number: int) -> bytes:
    """A signed number of up to 64 bits in zigzag encoding, seven bits a byte, the lowest first."""
    rest = ((number << 1) ^ (number >> 63)) & _MASK
    out = bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    out.append(rest)
    return bytes(out)


def murmur3_128(data: bytes) -> int:
    """MurmurHash3_x64_128 with seed 0; its first 64-bit word is the low half of the number."""
    h1 = h2 = 0
    whole = len(data) & ~15
    for at in range(0, whole, 16):
        h1 ^= _scramble(int.from_bytes(data[at : at + 8], "little"), _C1, 31, _C2)
        h1 = ((_rotate(h1, 27) + h2) * 5 + 0x52DCE729) & _MASK
        h2 ^= _scramble(int.from_bytes(data[at + 8 : at + 16], "little"), _C2, 33, _C1)
        h2 = ((_rotate(h2, 31) + h1) * 5 + 0x38495AB5) & _MASK
    h2 ^= _scramble(int.from_bytes(data[whole + 8 :], "little"), _C2, 33, _C1)
    h1 ^= _scramble(int.from_bytes(data[whole : whole + 8], "little"), _C1, 31, _C2)
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    h1, h2 = _finish(h1), _finish(h2)
    h1 = (h1 + h2) & _MASK
    h2 = (h2 + h1) & _MASK
    return h2 << 64 | h1


def _field(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def _header(header: tuple[str, bytes | None]) -> bytes:
    return _field(header[0].encode()) + _field(header[1])


def _rotate(number: int, left: int) -> int:
    return (number << left | number >> 64 - left) & _MASK


def _scramble(number: int, before: int, left: int, after: int) -> int:
    return _rotate(number * before & _MASK, left) * after & _MASK


def _finish(number: int) -> int:
    number = (number ^ number >> 33) * 0xFF51AFD7ED558CCD & _MASK
    number = (number ^ number >> 33) * 0xC4CEB9FE1A85EC53 & _MASK
    return number ^ number >> 33

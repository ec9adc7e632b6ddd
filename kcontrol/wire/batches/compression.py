"""The five compressions of record batches, by the numbers and names that Kafka gives them.

aiokafka's functions know the framings that Kafka wants (xerial snappy, independent lz4 blocks); what they
raise for damaged bytes differs from one to the next and becomes one error here. Packing is a function of the
bytes alone, so gzip's time stamp is left out.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import cast

import cramjam
from aiokafka import codec
from aiokafka.errors import KafkaError


class Compression(IntEnum):
    """Bits 0 to 2 of a batch's attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class UnpackError(Exception):
    """Bytes are not what their compression says."""


_GZIP_LEVEL = 6
_LZ4_LEVEL = 1

_PACK: dict[Compression, Callable[[bytes], bytes]] = {
    Compression.NONE: bytes,
    Compression.GZIP: lambda data: gzip.compress(data, _GZIP_LEVEL, mtime=0),
    Compression.SNAPPY: codec.snappy_encode,
    Compression.LZ4: lambda data: cast(bytes, codec.lz4_encode(data, _LZ4_LEVEL)),
    Compression.ZSTD: codec.zstd_encode,
}
_UNPACK: dict[Compression, Callable[[bytes], bytes]] = {
    Compression.NONE: bytes,
    Compression.GZIP: codec.gzip_decode,
    Compression.SNAPPY: codec.snappy_decode,
    Compression.LZ4: codec.lz4_decode,
    Compression.ZSTD: codec.zstd_decode,
}
_DAMAGE = (cramjam.DecompressionError, KafkaError, OSError, EOFError, ValueError, IndexError, zlib.error)


def pack(compression: Compression, records: bytes) -> bytes:
    """Compress the records of one batch."""
    return _PACK[compression](records)


def unpack(compression: int, records: bytes) -> bytes:
    """Decompress the records of one batch. Raises UnpackError."""
    try:
        return _UNPACK[Compression(compression)](records)
    except _DAMAGE as error:
        raise UnpackError(str(error) or type(error).__name__) from error

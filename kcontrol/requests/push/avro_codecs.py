"""The codecs of Avro files. Each unpacks up to a number of bytes, and makes no more of them to find out that there are more."""

from __future__ import annotations

import bz2
import lzma
import zlib
from collections.abc import Callable, Mapping
from typing import cast

import cramjam
import pyarrow as pa

Unpack = Callable[[bytes, int], bytes]
"""Of a block, and how many bytes it may have. Raises TooLargeError, or one of DAMAGE."""

DAMAGE = (
    zlib.error,
    OSError,
    EOFError,
    ValueError,
    lzma.LZMAError,
    cramjam.DecompressionError,
    pa.ArrowException,
)
"""What a block that is not what its codec says makes them raise."""

_LZMA_BYTES = 80 << 20
"""That its decoder may take: enough for whatever preset."""
_CRC_BYTES, _MAX_VARINT_BYTES = 4, 5


class TooLargeError(Exception):
    """A block unpacks to more bytes than it may."""


def _plain(packed: bytes, most: int) -> bytes:
    return _of_size(packed, most)


def _deflate(packed: bytes, most: int) -> bytes:
    unpacking = zlib.decompressobj(-zlib.MAX_WBITS)
    data = _of_size(unpacking.decompress(packed, most + 1), most)
    # fastavro leaves some of zlib's checksum behind it.
    return _whole(data, unpacking.eof, b"")


def _bzip2(packed: bytes, most: int) -> bytes:
    unpacking = bz2.BZ2Decompressor()
    data = _of_size(unpacking.decompress(packed, most + 1), most)
    return _whole(data, unpacking.eof, unpacking.unused_data)


def _xz(packed: bytes, most: int) -> bytes:
    unpacking = lzma.LZMADecompressor(memlimit=_LZMA_BYTES)
    data = _of_size(unpacking.decompress(packed, most + 1), most)
    return _whole(data, unpacking.eof, unpacking.unused_data)


def _zstandard(packed: bytes, most: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as unpacking:
        return _of_size(cast(bytes, unpacking.read(most + 1)), most)


def _snappy(packed: bytes, most: int) -> bytes:
    """And the checksum of what is unpacked behind it. Its size is in front."""
    size = shift = 0
    for byte in packed[:_MAX_VARINT_BYTES]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > most:
        raise TooLargeError
    data = bytes(cramjam.snappy.decompress_raw(packed[:-_CRC_BYTES]))
    if zlib.crc32(data) != int.from_bytes(packed[-_CRC_BYTES:], "big"):
        raise ValueError("its checksum is another")
    return data


def _of_size(data: bytes, most: int) -> bytes:
    if len(data) > most:
        raise TooLargeError
    return data


def _whole(data: bytes, is_whole: bool, rest: bytes) -> bytes:
    if not is_whole:
        raise ValueError("it is cut off")
    if rest:
        raise ValueError(f"{len(rest)} bytes are left over")
    return data


CODECS: Mapping[str, Unpack] = {
    "null": _plain,
    "deflate": _deflate,
    "snappy": _snappy,
    "zstandard": _zstandard,
    "bzip2": _bzip2,
    "xz": _xz,
}

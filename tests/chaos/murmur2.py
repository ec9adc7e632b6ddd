"""Kafka's murmur2 and default partitioner in plain Python, after the Java client's
Utils.murmur2, for the oracle alone."""

from __future__ import annotations

_SEED = 0x9747B28C
_M = 0x5BD1E995
_32_BITS = 0xFFFFFFFF


def partition_of(key: bytes, partitions: int) -> int:
    """Where Kafka's own producers put a record with this key."""
    return (_murmur2(key) & 0x7FFFFFFF) % partitions


def _murmur2(data: bytes) -> int:
    found = _SEED ^ len(data)
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        k = int.from_bytes(data[start : start + 4], "little") * _M & _32_BITS
        k = (k ^ (k >> 24)) * _M & _32_BITS
        found = (found * _M & _32_BITS) ^ k
    rest = data[whole:]
    if rest:
        found = (found ^ int.from_bytes(rest, "little")) * _M & _32_BITS
    found = (found ^ (found >> 13)) * _M & _32_BITS
    return found ^ (found >> 15)

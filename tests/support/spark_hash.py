"""Spark's hash of a text, by which rows come to shards, in plain Python."""

from __future__ import annotations

_MASK = 0xFFFFFFFF
_SEED = 42


def shard_of_text(text: str, shards: int) -> int:
    """Of a row that is exchanged by one column of this type."""
    data, mixed = text.encode(), _SEED
    whole = len(data) - len(data) % 4
    for at in range(0, whole, 4):
        mixed = _mix(mixed, int.from_bytes(data[at : at + 4], "little"))
    for byte in data[whole:]:
        mixed = _mix(mixed, byte - 256 if byte > 127 else byte)
    mixed ^= len(data)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ mixed >> shift) * factor & _MASK
    return (mixed - (1 << 32) if mixed >> 31 else mixed) % shards


def _mix(mixed: int, word: int) -> int:
    word = word * 0xCC9E2D51 & _MASK
    word = _turned(word, 15) * 0x1B873593 & _MASK
    return _turned(mixed ^ word, 13) * 5 + 0xE6546B64 & _MASK


def _turned(word: int, by: int) -> int:
    return (word << by | word >> 32 - by) & _MASK

"""Thrift's compact protocol, in which Parquet writes what it says of its pages, read without a description of what may come.

A structure is a dictionary by the numbers of its fields. How many there may be is bounded, as is how deep they are, so that
what is read here can also be given to a reader that makes something larger of each.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 16
_MAX_VARINT_BYTES = 10
_STOP, _TRUE, _FALSE = 0, 1, 2
_WHOLE = (4, 5, 6)
_LONG = 15
"""A list that has more elements than fit beside its type says how many behind it."""


class ThriftError(ValueError):
    """It is not Thrift, or more of it than may be."""


@dataclass(slots=True)
class Thrift:
    """Bytes that are being read, up to `end`. structs: how many structures there may still be."""

    data: bytes
    at: int
    end: int
    structs: int

    def struct(self, depth: int = 0) -> dict[int, Any]:
        """The next structure. Raises ThriftError."""
        self.structs -= 1
        if self.structs < 0 or depth > MAX_DEPTH:
            raise ThriftError("there is more of it than may be")
        found: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != _STOP:
            number = number + (head >> 4) if head >> 4 else self._whole()
            kind = head & 15
            found[number] = kind == _TRUE if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in _WHOLE:
            return self._whole()
        match kind:
            case 1 | 2:  # of a list
                return self._byte() == _TRUE
            case 3:
                return self._byte()
            case 7:
                return struct.unpack("<d", self._take(8))[0]
            case 8:
                return self._take(self._varint())
            case 9 | 10:
                return self._list(depth)
            case 12:
                return self.struct(depth + 1)
        raise ThriftError(f"there is no type {kind} in it")

    def _list(self, depth: int) -> list[Any]:
        head = self._byte()
        count = head >> 4
        if count == _LONG:
            count = self._varint()
        if depth > MAX_DEPTH:
            raise ThriftError("there is more of it than may be")
        if count > self.end - self.at:
            raise ThriftError(f"{count} elements are to follow, {self.end - self.at} bytes are left")
        return [self._value(head & 15, depth + 1) for _ in range(count)]

    def _byte(self) -> int:
        if self.at >= self.end:
            raise ThriftError("it ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def _take(self, size: int) -> bytes:
        if size > self.end - self.at:
            raise ThriftError(f"{size} bytes are to follow, {self.end - self.at} are left")
        self.at += size
        return self.data[self.at - size : self.at]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 7 * _MAX_VARINT_BYTES, 7):
            byte = self._byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ThriftError("a number does not end")

    def _whole(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

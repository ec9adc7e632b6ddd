"""What a Parquet file says of itself, looked at before anything of it is unpacked.

Arrow takes as much memory for a page as its header says that it unpacks to, and as many values as it says that it has. What the
footer says of that binds nobody, so the headers of all pages are read here: what is let through takes no more than they say.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from kcontrol.requests.push.forms import MAX_DEPTH, MAX_SHOWN
from kcontrol.requests.push.limits import Rules
from kcontrol.requests.push.thrift import Thrift, ThriftError

MAGIC, ENCRYPTED_MAGIC = b"PAR1", b"PARE"
MAX_FOOTER_BYTES = 1 << 20
MAX_STRUCTS = 100_000
"""In a footer; Arrow makes up to a kilobyte of each."""
MAX_PAGES = 100_000
MAX_PATH_LETTERS = 1 << 23
"""Of all columns, each with the names of what it is in."""
_TAIL_BYTES = 8
_PAGE_STRUCTS = 100
_VALUE_BYTES = 8
"""That each value is counted for at least: what tells where it is takes as much."""
_FIXED_BYTES = {3: 12}
"""Of INT96; others are as long as a column says, or have 8 at most."""
BYTE_ARRAY, _FIXED = 6, 7
_CODECS = ("uncompressed", "snappy", "gzip", "lzo", "brotli", "lz4", "zstd", "lz4_raw")
_ENCODINGS = {
    0: "PLAIN", 2: "PLAIN_DICTIONARY", 3: "RLE", 4: "BIT_PACKED", 5: "DELTA_BINARY_PACKED", 6: "DELTA_LENGTH_BYTE_ARRAY",
    7: "DELTA_BYTE_ARRAY", 8: "RLE_DICTIONARY", 9: "BYTE_STREAM_SPLIT",
}  # fmt: skip
_UNBOUNDED = (6, 7)
"""A few bytes of them say how long a text is that repeats the one before."""
_DECIMAL = 5
"""The converted and the logical type."""


class _PageError(ValueError):
    """What can't be read, or must not be."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A column of a Parquet file. physical: its type, by number. path: of names."""

    path: str
    physical: int
    width: int
    is_decimal: bool

    @property
    def shown(self) -> str:
        return repr(self.path[:MAX_SHOWN])


def check_pages(body: bytes, rules: Rules) -> tuple[int, list[Leaf]]:
    """The number of rows, and the columns. Raises ConfigurationError."""
    try:
        footer = _footer(body)
        leaves = _leaves(footer[2])
        groups, rows = footer.get(4) or [], 0
        for group in groups:
            rows += _count(group[3])
        if rows > rules.limits.rows:
            raise rules.too_many()
        pages = _Pages(body, rules)
        for group in groups:
            if len(group[1]) != len(leaves):
                raise _PageError(f"a group of rows has {len(group[1])} columns, and the schema {len(leaves)}")
            for chunk, leaf in zip(group[1], leaves, strict=True):
                pages.check(chunk, leaf)
    except ThriftError as error:
        raise rules.refused(f"the Parquet file is damaged: {error}") from error
    except _PageError as error:
        raise rules.refused(f"the Parquet file can't be taken: {error}") from error
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        raise rules.refused("the Parquet file is damaged: it does not say of itself what it must") from error
    return rows, leaves


def _footer(body: bytes) -> dict[int, Any]:
    if not body:
        raise _PageError("the body is empty")
    tail = body[-4:]
    if tail == ENCRYPTED_MAGIC or body[:4] == ENCRYPTED_MAGIC:
        raise _PageError("it is encrypted, and there are no keys here")
    if body[:4] != MAGIC:
        raise _PageError("it does not begin with PAR1, as such a file does")
    if len(body) < 4 + _TAIL_BYTES or tail != MAGIC:
        raise _PageError("it does not end with PAR1: it is cut off")
    size = int.from_bytes(body[-_TAIL_BYTES:-4], "little")
    if size > MAX_FOOTER_BYTES:
        raise _PageError(f"its footer has {size} bytes, {MAX_FOOTER_BYTES} are the most")
    begin = len(body) - _TAIL_BYTES - size
    if begin < len(MAGIC):
        raise _PageError("it is shorter than its footer says: it is cut off")
    footer = Thrift(body, begin, len(body) - _TAIL_BYTES, MAX_STRUCTS).struct()
    if 8 in footer:
        raise _PageError("it is encrypted, and there are no keys here")
    return footer


def _leaves(elements: list[Mapping[int, Any]]) -> list[Leaf]:
    """The first element is the whole row; those within one follow it."""
    found: list[Leaf] = []
    letters = 0
    open_: list[tuple[int, str]] = [(_count(elements[0].get(5, 0)), "")]
    for element in elements[1:]:
        while open_ and open_[-1][0] == 0:
            open_.pop()
        if not open_ or len(open_) > MAX_DEPTH:
            raise _PageError(f"its schema has too many elements, or is nested more than {MAX_DEPTH} deep")
        left, above = open_.pop()
        open_.append((left - 1, above))
        path = f"{above}.{element[4].decode()}" if above else element[4].decode()
        letters += len(path)
        if letters > MAX_PATH_LETTERS:
            raise _PageError(f"the names of its columns have more than {MAX_PATH_LETTERS} letters")
        children = _count(element.get(5) or 0)
        if children:
            open_.append((children, path))
        else:
            found.append(_leaf(path, element))
    if any(left for left, _ in open_) or not found:
        raise _PageError("its schema has no columns, or ends too early")
    return found


def _leaf(path: str, element: Mapping[int, Any]) -> Leaf:
    physical = element[1]
    width = _count(element[2]) if physical == _FIXED else _FIXED_BYTES.get(physical, _VALUE_BYTES)
    return Leaf(path, physical, width, element.get(6) == _DECIMAL or _DECIMAL in (element.get(10) or {}))


def _count(number: int) -> int:
    if number < 0:
        raise _PageError(f"it says that it has {number} of something")
    return number


@dataclass(slots=True)
class _Pages:
    """Counts what they take."""

    body: bytes
    rules: Rules
    pages: int = 0
    taken: int = 0

    def check(self, chunk: Mapping[int, Any], leaf: Leaf) -> None:
        facts = chunk.get(3)
        if 8 in chunk or 9 in chunk or facts is None:
            raise _PageError(f"its column {leaf.shown} is encrypted")
        if chunk.get(1):
            raise _PageError(f"its column {leaf.shown} is in another file")
        codec = _CODECS[facts[4]] if 0 <= facts[4] < len(_CODECS) else f"number {facts[4]}"
        if not _is_available(codec):
            raise _PageError(
                f"its column {leaf.shown} is compressed by {codec.upper()}, which is not available"
            )
        if leaf.physical == BYTE_ARRAY and leaf.is_decimal:
            raise _PageError(
                f"its column {leaf.shown} has decimals as BYTE_ARRAY: write them as FIXED_LEN_BYTE_ARRAY, INT32 or INT64"
            )
        if facts[5] == 0:
            return  # Arrow reads no page then, and some writers say of none where it would be.
        values = sum(self._page(header, leaf) for header in self._headers(facts))
        if values != facts[5]:
            raise _PageError(f"its column {leaf.shown} has {values} values, and says that it has {facts[5]}")

    def _headers(self, facts: Mapping[int, Any]) -> Iterator[Mapping[int, Any]]:
        at, dictionary = _count(facts[9]), facts.get(11) or 0
        if 0 < dictionary < at:
            at = dictionary
        end = at + _count(facts[7])
        if at < len(MAGIC) or end > len(self.body):
            raise _PageError("its pages are not where it says: it is cut off")
        while at < end:
            self.pages += 1
            if self.pages > MAX_PAGES:
                raise _PageError(f"it has more than {MAX_PAGES} pages")
            reader = Thrift(self.body, at, end, _PAGE_STRUCTS)
            header = reader.struct()
            at = reader.at + _count(header[3])
            if at > end:
                raise _PageError("a page is longer than its column")
            yield header

    def _page(self, header: Mapping[int, Any], leaf: Leaf) -> int:
        """How many values it has of the column."""
        match header[1]:
            case 0:
                facts, encoding = header[5], header[5][2]
            case 2:
                facts, encoding = header[7], header[7][2]
            case 3:
                facts, encoding = header[8], header[8][4]
            case _:
                raise _PageError(f"its column {leaf.shown} has a page that holds no values")
        if encoding not in _ENCODINGS or encoding in _UNBOUNDED:
            name = _ENCODINGS.get(encoding, f"number {encoding}")
            raise _PageError(
                f"its column {leaf.shown} is in the encoding {name}, which is not taken: write it with PLAIN or a dictionary"
            )
        values = _count(facts[1])
        self.taken += _count(header[2]) + values * max(_VALUE_BYTES, leaf.width)
        if self.taken > self.rules.limits.unpacked_bytes:
            raise self.rules.too_large("unpacked, the Parquet file has")
        return 0 if header[1] == 2 else values


def _is_available(codec: str) -> bool:
    if codec == "uncompressed":
        return True
    try:
        return bool(pa.Codec.is_available(codec))
    except (ValueError, pa.ArrowException):
        return False

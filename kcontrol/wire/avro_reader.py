"""Reads Avro's binary encoding strictly: a datum is exactly what its schema says and fits
its columns, or it is refused.

fastavro, which writes outputs, takes more than the specification allows (varints that never end, negative
indexes of unions and enumerations, strings of negative length) and gives numbers that no column holds, so one
record could end a step. Whatever is not right here is one `BadValueError`. What a datum may take once it is
unpacked is bounded: an array of ten million nulls is four bytes long.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from typing import Any

from kcontrol.errors import ConfigurationError

CELLS_PER_BYTE = 16
"""Beside a fixed number, each byte of a value pays for so many cells."""

_INT, _LONG = 1 << 31, 1 << 63
_MAX_VARINT_BYTES = {"int": 5, "long": 10}
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896
"""0001-01-01 and 9999-12-31, which are Spark's first and last date, in days since 1970."""
_DAY_US = 86_400_000_000
_EXACT = Context(prec=60)


class BadValueError(ValueError):
    """Why a value is no datum of its schema, or none that its columns can hold."""


class TooManyCellsError(BadValueError):
    """Its arrays and maps hold more than they may."""


@dataclass(slots=True)
class Datum:
    """A value that is being read. cells: what its arrays and maps may still hold, in values of columns."""

    data: bytes
    at: int
    cells: int

    def take(self, size: int) -> bytes:
        """The next bytes."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise BadValueError(f"{size} bytes are to follow, {len(self.data) - self.at} are left")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def varint(self, kind: str = "long") -> int:
        """An int or a long, in zigzag encoding."""
        data, begin = self.data, self.at
        if begin >= len(data):
            raise BadValueError("it ends too early")
        value = data[begin]
        if value < 0x80:  # most are
            self.at = begin + 1
            return (value >> 1) ^ -(value & 1)
        value = shift = 0
        for byte in data[begin : begin + _MAX_VARINT_BYTES[kind]]:
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                self.at = begin + shift // 7
                break
        else:
            raise BadValueError(
                f"it ends too early, or a number has more than {_MAX_VARINT_BYTES[kind]} bytes"
            )
        if value >= 2 * (_INT if kind == "int" else _LONG):
            raise BadValueError(f"a number does not fit into Avro's {kind}")
        return (value >> 1) ^ -(value & 1)


Read = Callable[[Datum], Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """How to read a type. least: bytes that one value takes at least. cells: values of columns that it
    becomes."""

    read: Read
    least: int
    cells: int


def reader_of(schema: Mapping[str, Any], where: str) -> Callable[[bytes, int, int], dict[str, Any]]:
    """A function of (value, where the datum begins in it, cells) that gives the fields of a record, by name.

    Dates are days, timestamps microseconds since 1970, decimals Decimal. cells: how many values of columns
    its arrays and maps may hold together, besides CELLS_PER_BYTE for each byte. The function raises
    BadValueError. Raises ConfigurationError, beginning with `where`, for a logical type on a type that it is
    not for.
    """
    kind = _record(schema, {}, where)

    def read(value: bytes, begin: int, cells: int) -> dict[str, Any]:
        datum = Datum(value, begin, cells + CELLS_PER_BYTE * len(value))
        row: dict[str, Any] = kind.read(datum)
        if datum.at != len(value):
            raise BadValueError(f"{len(value) - datum.at} bytes are left over")
        return row

    return read


def kind_of(schema: Any, named: dict[str, Kind], where: str) -> Kind:
    """How to read values of a schema. named: types that were defined before, by name; gets those of this one. Raises
    ConfigurationError."""
    if isinstance(schema, list):
        return _union(schema, named, where)
    if isinstance(schema, str):
        return named[schema] if schema in named else PRIMITIVES[schema]
    inner = schema["type"]
    if not isinstance(inner, str):
        return kind_of(inner, named, where)
    kind = _complex(schema, inner, named, where)
    if "logicalType" in schema:
        kind = with_logical_type(schema, inner, kind, where)
    if "name" in schema:
        named[schema["name"]] = kind
    return kind


def _complex(schema: Mapping[str, Any], kind: str, named: dict[str, Kind], where: str) -> Kind:
    match kind:
        case "record":
            return _record(schema, named, where)
        case "enum":
            return _enum(tuple(schema["symbols"]))
        case "fixed":
            size = int(schema["size"])
            return Kind(lambda datum: datum.take(size), size, 1)
        case "array":
            return _array(kind_of(schema["items"], named, where))
        case "map":
            return _map(kind_of(schema["values"], named, where))
    return kind_of(kind, named, where)


def _record(schema: Mapping[str, Any], named: dict[str, Kind], where: str) -> Kind:
    fields = [
        (f["name"], kind_of(f["type"], named, f"{where}: field {f['name']!r}")) for f in schema["fields"]
    ]
    reads = [(name, kind.read) for name, kind in fields]

    def read(datum: Datum) -> dict[str, Any]:
        return {name: read_field(datum) for name, read_field in reads}

    cells = sum(kind.cells for _, kind in fields)
    return Kind(read, sum(kind.least for _, kind in fields), max(1, cells))


def _union(schema: list[Any], named: dict[str, Kind], where: str) -> Kind:
    branches = [kind_of(branch, named, where) for branch in schema]
    reads = [branch.read for branch in branches]

    def read(datum: Datum) -> Any:
        index = datum.varint()
        if not 0 <= index < len(reads):
            raise BadValueError(f"a union of {len(reads)} types has no type {index}")
        return reads[index](datum)

    return Kind(read, 1 + min(branch.least for branch in branches), max(branch.cells for branch in branches))


def _enum(symbols: tuple[str, ...]) -> Kind:
    def read(datum: Datum) -> str:
        index = datum.varint("int")
        if not 0 <= index < len(symbols):
            raise BadValueError(f"an enumeration of {len(symbols)} symbols has no symbol {index}")
        return symbols[index]

    return Kind(read, 1, 1)


def read_blocks(datum: Datum, least: int, cells: int, item: Callable[[Datum], None]) -> None:
    """Call `item` for each item of an array or map, block by block. least, cells: of one item, see Kind."""
    while count := datum.varint():
        end = -1
        if count < 0:
            count, size = -count, datum.varint()
            end = datum.at + size
            if size < 0 or end > len(datum.data):
                raise BadValueError(
                    f"a block of {size} bytes is to follow, {len(datum.data) - datum.at} are left"
                )
        if count * least > len(datum.data) - datum.at:
            raise BadValueError(f"{count} items are to follow, for which too few bytes are left")
        datum.cells -= count * cells
        if datum.cells < 0:
            raise TooManyCellsError("its arrays and maps hold more than max_cells allows")
        for _ in range(count):
            item(datum)
        if end not in (-1, datum.at):
            raise BadValueError("a block is longer or shorter than it says")


def _array(items: Kind) -> Kind:
    def read(datum: Datum) -> list[Any]:
        found: list[Any] = []
        read_blocks(datum, items.least, items.cells, lambda datum: found.append(items.read(datum)))
        return found

    return Kind(read, 1, 1)


def _map(values: Kind) -> Kind:
    def read(datum: Datum) -> list[tuple[str, Any]]:
        found: dict[str, Any] = {}

        def item(datum: Datum) -> None:
            key = _read_string(datum)
            found[key] = values.read(datum)

        read_blocks(datum, 1 + values.least, 1 + values.cells, item)
        return list(found.items())

    return Kind(read, 1, 1)


# --- primitives ---------------------------------------------------------------------------------------------


def _read_boolean(datum: Datum) -> bool:
    byte = datum.take(1)[0]
    if byte > 1:
        raise BadValueError(f"a boolean is {byte}, neither 0 nor 1")
    return byte == 1


def _read_bytes(datum: Datum) -> bytes:
    return datum.take(datum.varint())


def _read_string(datum: Datum) -> str:
    try:
        return datum.take(datum.varint()).decode()
    except UnicodeDecodeError as error:
        raise BadValueError(f"a string is not UTF-8: {error.reason}") from error


_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
PRIMITIVES = {
    "null": Kind(lambda _datum: None, 0, 1),
    "boolean": Kind(_read_boolean, 1, 1),
    "int": Kind(lambda datum: datum.varint("int"), 1, 1),
    "long": Kind(lambda datum: datum.varint(), 1, 1),
    "float": Kind(lambda datum: _FLOAT.unpack(datum.take(4))[0], 4, 1),
    "double": Kind(lambda datum: _DOUBLE.unpack(datum.take(8))[0], 8, 1),
    "bytes": Kind(_read_bytes, 1, 1),
    "string": Kind(_read_string, 1, 1),
}

# --- logical types ------------------------------------------------------------------------------------------


def with_logical_type(schema: Mapping[str, Any], base: str, kind: Kind, where: str) -> Kind:
    """`kind`, which reads the type `base`, with its values as those of the schema's logical type."""
    logical = schema["logicalType"]
    match (logical, base):
        case ("decimal", "bytes" | "fixed"):
            change: Callable[[Any], Any] = _decimal(int(schema["precision"]), int(schema.get("scale", 0)))
        case ("date", "int"):
            change = _within("a date", 1, _FIRST_DAY, _LAST_DAY)
        case ("timestamp-millis", "long"):
            change = _within("a timestamp", 1_000, _FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1)
        case ("timestamp-micros", "long"):
            change = _within("a timestamp", 1, _FIRST_DAY * _DAY_US, (_LAST_DAY + 1) * _DAY_US - 1)
        case ("uuid", "string"):
            return kind
        case ("uuid", "fixed") if schema["size"] == 16:
            change = _uuid_text
        case _:
            raise ConfigurationError(
                f"{where}: the Avro logical type {logical!r} is not for {base}: declare it without "
                "logicalType"
            )
    return Kind(lambda datum: change(kind.read(datum)), kind.least, kind.cells)


def _decimal(precision: int, scale: int) -> Callable[[bytes], Decimal]:
    bound = 10**precision

    def change(value: bytes) -> Decimal:
        unscaled = int.from_bytes(value, "big", signed=True)
        if not -bound < unscaled < bound:
            raise BadValueError(f"a decimal has more than {precision} digits")
        return Decimal(unscaled).scaleb(-scale, _EXACT)

    return change


def _within(what: str, factor: int, first: int, last: int) -> Callable[[int], int]:
    def change(value: int) -> int:
        found = value * factor
        if not first <= found <= last:
            raise BadValueError(f"{what} is not of the years 1 to 9999")
        return found

    return change


def _uuid_text(value: bytes) -> str:
    return str(uuid.UUID(bytes=value))

"""Between the frozen dataclasses of the core and plain values, driven by type hints and worked out once per
class.

A plain value has the field names of the schemas (`from` for `from_`), lists for tuples and strings for enums:
what fastavro writes and reads, and what JSON shows. Only optional fields differ: for Avro they name the
branch of the union, which spares fastavro from trying each.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import StrEnum
from functools import cache
from operator import attrgetter, itemgetter
from typing import Any, Union, get_args, get_origin, get_type_hints

NAMESPACE = "kcontrol"

Convert = Callable[[Any], Any]


def field_names(cls: type) -> dict[str, str]:
    """By field of a dataclass: its name on the wire."""
    return {field.name: field.name.rstrip("_") for field in fields(cls)}


@cache
def to_avro(cls: type) -> Convert:
    """A function from a `cls` to what fastavro writes."""
    return _record_writer(cls, _tagged)


@cache
def to_plain(cls: type) -> Convert:
    """A function from a `cls` to dictionaries, lists, strings and numbers."""
    return _record_writer(cls, _untagged)


@cache
def from_avro(cls: type) -> Convert:
    """A function from what fastavro read with the current schema to a `cls`; it uses up the dictionary."""
    hints = get_type_hints(cls)
    names = field_names(cls)
    pick = _together(itemgetter, tuple(names.values()))
    converted = [
        (names[name], convert) for name in names if (convert := _value_reader(hints[name])) is not None
    ]

    def read(values: dict[str, Any]) -> Any:
        for name, convert in converted:
            values[name] = convert(values[name])
        return cls(*pick(values))

    return read


from_plain = from_avro
"""A function from what `to_plain` gives, through JSON if need be, to a `cls`; it uses up the dictionary."""


def optional_of(hint: Any) -> Any:
    """T for `T | None`, otherwise None."""
    if get_origin(hint) not in (types.UnionType, Union):
        return None
    inner = [each for each in get_args(hint) if each is not type(None)]
    if len(inner) != 1 or len(get_args(hint)) != 2:
        raise TypeError(f"{hint} has no Avro schema here: only `T | None` is used")
    return inner[0]


Tag = Callable[[type, Convert | None], Convert | None]


def _tagged(cls: type, convert: Convert | None) -> Convert | None:
    if cls in _SCALARS:
        return None  # Beside null there is one branch that it fits.
    branch = f"{NAMESPACE}.{cls.__name__}"
    if convert is None:
        return lambda value: None if value is None else (branch, value)
    return lambda value: None if value is None else (branch, convert(value))


def _untagged(_cls: type, convert: Convert | None) -> Convert | None:
    return None if convert is None else lambda value: None if value is None else convert(value)


def _record_writer(cls: type, tag: Tag) -> Convert:
    hints = get_type_hints(cls)
    names = field_names(cls)
    wire_names = tuple(names.values())
    get = _together(attrgetter, tuple(names))
    converted = [
        (names[name], convert) for name in names if (convert := _value_writer(hints[name], tag)) is not None
    ]

    def write(record: Any) -> dict[str, Any]:
        values: dict[str, Any] = dict(zip(wire_names, get(record), strict=True))
        for name, convert in converted:
            values[name] = convert(values[name])
        return values

    return write


def _together(
    getter: Callable[..., Callable[[Any], Any]], names: tuple[str, ...]
) -> Callable[[Any], tuple[Any, ...]]:
    """All of them as a tuple; with one name, or none, the getters of Python's
    `operator` give something else."""
    if len(names) > 1:
        return getter(*names)
    single = [getter(name) for name in names]
    return lambda value: tuple([get(value) for get in single])


def _value_writer(hint: Any, tag: Tag) -> Convert | None:
    """None where the value is written as it is."""
    if get_origin(hint) is tuple:
        item = _value_writer(get_args(hint)[0], tag)
        return list if item is None else lambda values: [item(value) for value in values]
    if (inner := optional_of(hint)) is not None:
        return tag(inner, _value_writer(inner, tag))
    if issubclass(hint, StrEnum):
        return str
    return None if hint in _SCALARS else _record_writer(hint, tag)


def _value_reader(hint: Any) -> Convert | None:
    """None where the value is taken as it is."""
    if get_origin(hint) is tuple:
        item = _value_reader(get_args(hint)[0])
        return tuple if item is None else lambda values: tuple([item(value) for value in values])
    if (inner := optional_of(hint)) is not None:
        convert = _value_reader(inner)
        return None if convert is None else lambda value: None if value is None else convert(value)
    if issubclass(hint, StrEnum):
        symbols: Convert = hint
        return symbols
    return None if hint in _SCALARS else from_avro(hint)


_SCALARS: Mapping[Any, str] = {int: "long", str: "string", bool: "boolean"}

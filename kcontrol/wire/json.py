"""Records as JSON, with the very field names of the schemas: what every `--json` of the command line
prints."""

from __future__ import annotations

import json
from typing import Any, TypeVar

from kcontrol.wire.codec import AnyRecord
from kcontrol.wire.shapes import from_avro, to_plain

_Record = TypeVar("_Record")


def to_json(record: AnyRecord) -> dict[str, Any]:
    """A JSON object: `from` for `from_`, lists for tuples, strings for enums, null for what is not there."""
    cls: type = type(record)
    values: dict[str, Any] = to_plain(cls)(record)
    return values


def to_json_line(record: AnyRecord) -> str:
    """The same on one line, without spaces."""
    return json.dumps(to_json(record), ensure_ascii=False, separators=(",", ":"))


def from_json(kind: type[_Record], values: dict[str, Any]) -> _Record:
    """The record that `to_json` has made such an object of; it uses up the object. Types are not checked."""
    cls: type = kind
    found: _Record = from_avro(cls)(values)
    return found

"""Records as JSON, with the very field names of the schemas: what every `--json` of the command line prints."""

from __future__ import annotations

import json
from typing import Any

from kcontrol.wire.codec import AnyRecord
from kcontrol.wire.shapes import to_plain


def to_json(record: AnyRecord) -> dict[str, Any]:
    """A JSON object: `from` for `from_`, lists for tuples, strings for enums, null for what is not there."""
    cls: type = type(record)
    values: dict[str, Any] = to_plain(cls)(record)
    return values


def to_json_line(record: AnyRecord) -> str:
    """The same on one line, without spaces."""
    return json.dumps(to_json(record), ensure_ascii=False, separators=(",", ":"))

"""Records of a replay as text: JSON that says exactly what the bytes are, and lines for people."""

from __future__ import annotations

import base64
import json
from typing import Any

from kcontrol.replay.delivery import ReplayedRecord

_BASE64 = "base64"


def record_json(step: int, record: ReplayedRecord) -> str:
    """One object on one line: step, output, partition, key, value and headers, a list of [name, value].

    A key or value is a string if its bytes are UTF-8, {"base64": "..."} if they are not, and null if there is
    none.
    """
    facts = {
        "step": step,
        "output": record.output,
        "partition": record.partition,
        "key": _plain(record.key),
        "value": _plain(record.value),
        "headers": [[name, _plain(value)] for name, value in record.headers],
    }
    return json.dumps(facts, ensure_ascii=False, separators=(",", ":"))


def record_line(step: int, record: ReplayedRecord) -> str:
    """The same for people: step, output and partition, key, value, name=value of each header; whole, on one
    line.

    What can't be printed (line ends, a terminal's control characters) is escaped.
    """
    headers = "".join(f"  {_printable(name)}={_text(value)}" for name, value in record.headers)
    return (
        f"{step:>7}  {record.output}[{record.partition}]  {_text(record.key)}  {_text(record.value)}{headers}"
    )


def _plain(data: bytes | None) -> Any:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {_BASE64: base64.b64encode(data).decode()}


def _text(data: bytes | None) -> str:
    match _plain(data):
        case None:
            return "null"
        case str(text):
            return _printable(text)
        case encoded:
            return f"{_BASE64}:{encoded[_BASE64]}"


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)

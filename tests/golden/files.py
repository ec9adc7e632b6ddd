"""Golden histories and records as files: bytes as they lie in Kafka, and what must come out of them for ever.

A history is a file of JSON lines: {"log": "control" or "steps", "offset", "timestamp_ms", "key", "value"},
the value in base64 or null for a tombstone. Schemas come first, under offset -1, because a partition holds
them before what needs them. Beside it `NAME.state.json` is what it folds to, or {"refused": the error's
class}. A record is a JSON file with the bytes of one value, the schema's name and version, and the fields
that its writer knew.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

from fastavro import schemaless_writer

from kcontrol.core.log.keys import key_of
from kcontrol.core.model import Logged, LoggedStep, Tombstone
from kcontrol.wire.codec import MAGIC, AnyRecord, RecordCodec, is_schema_key, schema_key
from kcontrol.wire.schemas import Schema, released_schemas
from kcontrol.wire.shapes import to_avro

HERE = Path(__file__).parent
HISTORIES = HERE / "histories"
RECORDS = HERE / "records"


@dataclass(frozen=True)
class History:
    """Both logs of one pipeline."""

    control: Sequence[Logged]
    steps: Sequence[LoggedStep]


def names() -> list[str]:
    """Of all histories."""
    return sorted(path.name.removesuffix(".jsonl") for path in HISTORIES.glob("*.jsonl"))


def encode(record: AnyRecord, schema: Schema) -> bytes:
    """The record as the version of kcontrol wrote it that had this schema; fields that it did not know are
    left out."""
    cls: type = type(record)
    body = BytesIO()
    schemaless_writer(body, schema.parsed, to_avro(cls)(record))
    return MAGIC + schema.fingerprint + body.getvalue()


def write_history(name: str, history: History, state: dict[str, Any], oldest: bool = False) -> None:
    """Write both files. oldest: as the first release would have written the records."""
    version = 0 if oldest else -1
    entries = [("control", one.offset, one.timestamp_ms, one.record) for one in history.control]
    entries += [("steps", one.offset, 0, one.record) for one in history.steps]
    schemas: dict[tuple[str, str], str] = {}
    lines: list[dict[str, Any]] = []
    for log, offset, timestamp_ms, record in entries:
        line: dict[str, Any] = {"log": log, "offset": offset, "timestamp_ms": timestamp_ms}
        if isinstance(record, Tombstone):
            lines.append({**line, "key": record.key, "value": None})
            continue
        schema = released_schemas()[type(record).__name__][version]
        schemas[log, schema_key(schema.fingerprint)] = schema.json
        lines.append({**line, "key": key_of(record), "value": b64encode(encode(record, schema)).decode()})
    published = [
        {"log": log, "offset": -1, "timestamp_ms": 0, "key": key, "value": b64encode(text.encode()).decode()}
        for (log, key), text in schemas.items()
    ]
    text = "".join(json.dumps(line) + "\n" for line in (*published, *lines))
    (HISTORIES / f"{name}.jsonl").write_text(text, encoding="utf-8")
    (HISTORIES / f"{name}.state.json").write_text(json.dumps(state, indent=1) + "\n", encoding="utf-8")


def read_history(name: str) -> History:
    """Decode every line, as a reader of the topics does. Raises what the codec raises."""
    codec = RecordCodec()
    control: list[Logged] = []
    steps: list[LoggedStep] = []
    for line in _lines(name):
        value = None if line["value"] is None else b64decode(line["value"])
        if is_schema_key(line["key"]):
            codec.learn(line["key"], value or b"", name)
            continue
        record: Any = (
            Tombstone(line["key"])
            if value is None
            else codec.decode(value, f"{name}, offset {line['offset']}")
        )
        assert isinstance(record, Tombstone) or key_of(record) == line["key"], (name, line["key"])
        if line["log"] == "control":
            control.append(Logged(line["offset"], line["timestamp_ms"], record))
        else:
            steps.append(LoggedStep(line["offset"], record))
    return History(control, steps)


def state_of(name: str) -> dict[str, Any]:
    """What the history must fold to."""
    state: dict[str, Any] = json.loads((HISTORIES / f"{name}.state.json").read_text(encoding="utf-8"))
    return state


def _lines(name: str) -> Iterator[dict[str, Any]]:
    for line in (HISTORIES / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        yield json.loads(line)


# --- single records -----------------------------------------------------------------------------------------


def record_files() -> list[Path]:
    """One for each version of each record."""
    return sorted(RECORDS.glob("*.json"))


def versions() -> Iterable[tuple[str, int, Schema]]:
    """(record, version, schema) of everything that was ever released."""
    for name, schemas in released_schemas().items():
        for number, schema in enumerate(schemas, 1):
            yield name, number, schema

"""`make golden` (`python -m tests.golden.make`): writes the goldens that are missing,
and touches none that is there.

A new history: add a function to scenarios.py, run this, read what was written, commit it. A new version of a
record's schema: run this; it writes one record of that version. To take a golden back, delete its files: that
says in the history of the repository that old logs are no longer understood.
"""

from __future__ import annotations

import json
import random
import sys
from base64 import b64encode
from io import BytesIO
from typing import Any

from fastavro import schemaless_reader, schemaless_writer
from fastavro.utils import generate_one

from kcontrol.errors import DamagedRecordError
from kcontrol.wire.codec import MAGIC
from kcontrol.wire.schemas import Schema
from tests.golden import cluster
from tests.golden.files import HISTORIES, RECORDS, History, versions, write_history
from tests.golden.projection import project
from tests.golden.scenarios import SCENARIOS
from tests.simulation.specs import PIPELINE


def main() -> int:
    """Say what was written."""
    for name, play in SCENARIOS.items():
        if not (HISTORIES / f"{name}.jsonl").exists():
            history = play()
            write_history(name, history, _state(history), oldest=name.endswith("first-release"))
            sys.stdout.write(f"history {name}\n")
    for record, number, schema in versions():
        path = RECORDS / f"{record}-v{number}.json"
        if not path.exists():
            path.write_text(json.dumps(_one(record, number, schema), indent=1) + "\n", encoding="utf-8")
            sys.stdout.write(f"record {path.name}\n")
    for name in cluster.make():
        sys.stdout.write(f"log of a cluster {name}\n")
    return 0


def _state(history: History) -> dict[str, Any]:
    try:
        return project(PIPELINE, history)
    except DamagedRecordError as error:
        return {"refused": type(error).__name__}


def _one(record: str, number: int, schema: Schema) -> dict[str, Any]:
    """Made up, but for ever: contents come from a generator that begins with the schema's fingerprint."""
    random.seed(int.from_bytes(schema.fingerprint, "little"))
    body = BytesIO()
    schemaless_writer(body, schema.parsed, generate_one(schema.parsed))
    data = body.getvalue()
    fields = schemaless_reader(BytesIO(data), schema.parsed, None)
    value = b64encode(MAGIC + schema.fingerprint + data).decode()
    return {
        "record": record,
        "version": number,
        "schema": json.loads(schema.json),
        "value": value,
        "fields": fields,
    }


if __name__ == "__main__":
    sys.exit(main())
